"""all_reduce between ranks of one daemon and of several, against Gloo, torch.distributed (Gloo) and
memcpy.

    tools/bench.sh collectives [--ranks 2,4] [--rounds 7]

Each rank is a process. Runs of the sides alternate; a run is k all_reduces of float32, and its time that
of the slowest rank, divided by k. memcpy's is that of copying the same bytes twice, in one process. Of
several daemons each has one rank, and what passes between them is encrypted or, as the others', not;
Gloo is Debian's, called from C++.
"""

import argparse
import contextlib
import os
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np
from rank_processes import Side, start_daemons

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


class Reductions(Side):
    """Ranks that reduce arrays of `size` bytes: chx's, PyTorch's, or those of a program."""

    def __init__(self, kind, size, env, servers=(), program=None):
        own = [sys.executable, __file__, "--rank", kind]
        super().__init__(
            lambda *rank: [program[0], *rank, *program[1:]] if program else [*own, *rank],
            size,
            env,
            servers,
        )

    def run(self, size, calls):
        return self.ask(f"{size // 4} {calls}") / calls


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


def run(arguments, directory, stack):
    counts = [int(count) for count in arguments.ranks.split(",")]
    started = {}
    for encryption in ("none", "tls"):
        (directory / encryption).mkdir()
        started[encryption] = start_daemons(
            max(counts),
            arguments.chxd,
            directory / encryption,
            stack,
            [f"--peer-encryption={encryption}"],
        )
    servers, meet_at = started["none"]
    encrypted, meet_encrypted = started["tls"]
    print(
        "| ranks | bytes | one daemon | two memcpy | ratio | daemons | Gloo | ratio | torch, Gloo "
        "| daemons to that | one daemon to that | encrypted daemons |\n" + "|---" * 12 + "|"
    )
    for ranks in counts:
        (directory / f"store{ranks}").mkdir()
        sides = {
            "one daemon": Reductions("chx", ranks, {}, servers[:1]),
            "two memcpy": Copies(),
            "daemons": Reductions("chx", ranks, {"CHX_GROUP_ADDRESS": meet_at}, servers),
            "encrypted": Reductions("chx", ranks, {"CHX_GROUP_ADDRESS": meet_encrypted}, encrypted),
            "Gloo": Reductions(
                "gloo", ranks, {}, (), (arguments.gloo, str(directory / f"store{ranks}"))
            ),
            "torch, Gloo": Reductions(
                "torch", ranks, {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(29500 + ranks)}
            ),
        }
        for size in SIZES:
            one, copies, many, tls, gloo, torch = (
                1e6 * seconds for seconds in measure(sides, size, arguments.rounds).values()
            )
            print(
                f"| {ranks} | {size >> 10:,} KiB | {one:,.1f} µs | {copies:,.1f} µs | "
                f"{one / copies:.2f} | {many:,.1f} µs | {gloo:,.1f} µs | {many / gloo:.2f} | "
                f"{torch:,.1f} µs | {many / torch:.2f} | {one / torch:.2f} | {tls:,.1f} µs |",
                flush=True,
            )
        for side in sides.values():
            side.close()


if __name__ == "__main__":
    main()
