"""all_reduce between ranks of one daemon and of several, against Gloo, torch.distributed (Gloo) and
memcpy.

    tools/bench.sh collectives [--ranks 2,4] [--rounds 7]

Each rank is a process. Runs of the sides alternate; a run is k all_reduces of float32, and its time that
of the slowest rank, divided by k. memcpy's is that of copying the same bytes twice, in one process. Of
several daemons each has one rank; Gloo is Debian's, called from C++.
"""

import argparse
import contextlib
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

SIZES = (1 << 10, 32 << 10, 1 << 20, 8 << 20, 64 << 20)  # bytes
RUN_SECONDS = 0.1


def chx_rank(rank, size):
    import chx

    address = os.environ.get("CHX_GROUP_ADDRESS", "")
    chx.distributed.init(rank, size, name=f"bench of {size}", address=address)
    session = chx.get_default_device().backend._session

    def run(elements, calls):
        x = chx.full((elements,), float(rank))
        chx.distributed.barrier()
        start = time.perf_counter()
        for _ in range(calls):
            y = chx.distributed.all_reduce(x)
        session.synchronize()
        taken = time.perf_counter() - start
        assert y[0].item() == sum(range(size))
        return taken

    return run


def torch_rank(rank, size):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=size)

    def run(elements, calls):
        x = torch.full((elements,), float(rank))
        ys = torch.empty_like(x)
        dist.barrier()
        start = time.perf_counter()
        for _ in range(calls):
            ys.copy_(x)  # it is reduced in place; chx gives a new array
            dist.all_reduce(ys)
        taken = time.perf_counter() - start
        assert ys[0].item() == sum(range(size))
        return taken

    return run


def serve_rank(kind, rank, size):
    """A rank: runs what it is told on its standard input."""
    run = {"chx": chx_rank, "torch": torch_rank}[kind](rank, size)
    print("ready", flush=True)
    for line in sys.stdin:
        elements, calls = map(int, line.split())
        print(run(elements, calls), flush=True)


class Side:
    """The ranks of one kind."""

    def __init__(self, kind, size, env, servers=(), program=None):
        self.ranks = []
        for rank in range(size):
            command = [sys.executable, __file__, "--rank", kind, str(rank), str(size)]
            if program:
                command = [program[0], str(rank), str(size), *program[1:]]
            if servers:
                env = {**env, "CHX_SERVER": servers[rank % len(servers)]}
            self.ranks.append(
                subprocess.Popen(
                    command,
                    env={**os.environ, **env},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
        for rank in self.ranks:
            assert rank.stdout.readline() == "ready\n"

    def run(self, size, calls):
        for rank in self.ranks:
            rank.stdin.write(f"{size // 4} {calls}\n")
            rank.stdin.flush()
        return max(float(rank.stdout.readline()) for rank in self.ranks) / calls

    def close(self):
        for rank in self.ranks:
            rank.stdin.close()
        for rank in self.ranks:
            rank.wait(30)


class Copies:
    """memcpy of the bytes, twice."""

    def run(self, size, calls):
        x, y = np.ones(size, np.uint8), np.empty(size, np.uint8)
        start = time.perf_counter()
        for _ in range(2 * calls):
            np.copyto(y, x)
        return (time.perf_counter() - start) / calls

    def close(self):
        pass


def measure(sides, size, rounds):
    calls = {name: max(1, round(RUN_SECONDS / side.run(size, 1))) for name, side in sides.items()}
    times = {name: [] for name in sides}
    for i in range(rounds):
        for name in list(sides) if i % 2 == 0 else reversed(list(sides)):
            times[name].append(sides[name].run(size, calls[name]))
    return {name: statistics.median(taken) for name, taken in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chxd", default=".bazel/bin/server/chxd")
    parser.add_argument("--gloo", default=".bazel/bin/tests/perf/raw_gloo")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rank", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank:
        kind, rank, size = arguments.rank
        serve_rank(kind, int(rank), int(size))
        return
    with (
        tempfile.TemporaryDirectory(prefix="chxd-bench-") as folder,
        contextlib.ExitStack() as stack,
    ):
        run(arguments, pathlib.Path(folder), stack)


def start_daemons(count, chxd, directory, stack, flags=(), pin=False):
    """Their addresses, and where groups of several meet. `pin`: each has a core of its own."""
    (directory / "secret").write_text("s" * 32)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        meet_at = "127.0.0.1:%d" % probe.getsockname()[1]
    addresses = []
    for number in range(count):
        daemon = stack.enter_context(
            subprocess.Popen(
                [
                    chxd,
                    f"--listen=unix:{directory}/{number}.sock",
                    f"--peer-listen={'127.0.0.1:0' if number else meet_at}",
                    "--peers=127.0.0.1:*",
                    f"--peer-secret-file={directory}/secret",
                    "--log-level=warning",
                    *flags,
                ],
                stdout=subprocess.PIPE,
                text=True,
                preexec_fn=(lambda core=number: os.sched_setaffinity(0, {core})) if pin else None,
            )
        )
        stack.callback(daemon.terminate)
        addresses.append(daemon.stdout.readline().split()[2])
    return addresses, meet_at


def run(arguments, directory, stack):
    counts = [int(count) for count in arguments.ranks.split(",")]
    servers, meet_at = start_daemons(max(counts), arguments.chxd, directory, stack)
    print(
        "| ranks | bytes | one daemon | two memcpy | ratio | daemons | Gloo | ratio | torch, Gloo "
        "| daemons to that | one daemon to that |\n" + "|---" * 11 + "|"
    )
    for ranks in counts:
        (directory / f"store{ranks}").mkdir()
        sides = {
            "one daemon": Side("chx", ranks, {}, servers[:1]),
            "two memcpy": Copies(),
            "daemons": Side("chx", ranks, {"CHX_GROUP_ADDRESS": meet_at}, servers),
            "Gloo": Side("gloo", ranks, {}, (), (arguments.gloo, str(directory / f"store{ranks}"))),
            "torch, Gloo": Side(
                "torch", ranks, {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(29500 + ranks)}
            ),
        }
        for size in SIZES:
            one, copies, many, gloo, torch = (
                1e6 * seconds for seconds in measure(sides, size, arguments.rounds).values()
            )
            print(
                f"| {ranks} | {size >> 10:,} KiB | {one:,.1f} µs | {copies:,.1f} µs | "
                f"{one / copies:.2f} | {many:,.1f} µs | {gloo:,.1f} µs | {many / gloo:.2f} | "
                f"{torch:,.1f} µs | {many / torch:.2f} | {one / torch:.2f} |",
                flush=True,
            )
        for side in sides.values():
            side.close()


if __name__ == "__main__":
    main()
