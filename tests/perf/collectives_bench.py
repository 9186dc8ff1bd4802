"""all_reduce between the ranks of one daemon, against torch.distributed (Gloo) and memcpy.

    tools/bench.sh collectives [--ranks 2,4] [--rounds 7]

Each rank is a process. Runs of the sides alternate; a run is k all_reduces of float32, and its time that
of the slowest rank, divided by k. memcpy's is that of copying the same bytes twice, in one process.
"""

import argparse
import os
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

    chx.distributed.init(rank, size, name=f"bench of {size}")
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

    def __init__(self, kind, size, env):
        self.ranks = []
        for rank in range(size):
            command = [sys.executable, __file__, "--rank", kind, str(rank), str(size)]
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
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rank", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank:
        kind, rank, size = arguments.rank
        serve_rank(kind, int(rank), int(size))
        return
    with tempfile.TemporaryDirectory(prefix="chxd-bench-") as directory:
        daemon = subprocess.Popen(
            [arguments.chxd, f"--listen=unix:{directory}/chxd.sock"], stdout=subprocess.PIPE
        )
        address = daemon.stdout.readline().decode().split()[2]
        print(
            "| ranks | bytes | chx | torch, Gloo | ratio | two memcpy | ratio |\n|---|---|---|---|---|---|---|"
        )
        for ranks in map(int, arguments.ranks.split(",")):
            sides = {
                "chx": Side("chx", ranks, {"CHX_SERVER": address}),
                "torch": Side(
                    "torch", ranks, {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(29500 + ranks)}
                ),
                "memcpy": Copies(),
            }
            for size in SIZES:
                found = measure(sides, size, arguments.rounds)
                chx, torch, copies = found.values()
                print(
                    f"| {ranks} | {size >> 10:,} KiB | {chx * 1e6:,.1f} µs | {torch * 1e6:,.1f} µs | "
                    f"{chx / torch:.2f} | {copies * 1e6:,.1f} µs | {chx / copies:.2f} |",
                    flush=True,
                )
            for side in sides.values():
                side.close()
        daemon.terminate()
        daemon.wait()


if __name__ == "__main__":
    main()
