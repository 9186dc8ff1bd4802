"""Training steps of ranks that share one model: what exchanging gradients costs, and how much of it
is hidden behind the backward pass.

    tools/bench.sh collectives  # after all_reduce itself

A 784-1000-1000-10 MLP (7.2 MB of gradients), 100 rows a rank, SGD. Daemons, and the ranks with them,
are pinned to a core each. Runs of the sides alternate; medians of `--rounds` runs of `STEPS` steps.
"""

import argparse
import contextlib
import os
import pathlib
import statistics
import sys
import tempfile
import time

from rank_processes import Side, start_daemons

LAYERS = (784, 1000, 1000, 10)
ROWS = 100
STEPS = 20
MODES = {
    "no exchange": "each rank trains alone, all at the same time",
    "after": "backward(), then all_reduce of all gradients",
    "meanwhile": "GradientReducer",
    "delayed": "GradientReducer(delayed=True)",
}


def serve_rank(mode, rank, size):
    import chx
    import numpy as np

    chx.distributed.init(rank, size, name=mode, address=os.environ.get("CHX_GROUP_ADDRESS", ""))
    session = chx.get_default_device().backend._session
    rng = np.random.default_rng(0)
    params = []
    for n, m in zip(LAYERS, LAYERS[1:]):
        params.append(chx.array(rng.normal(0, n**-0.5, (n, m)).astype("float32")).require_grad())
        params.append(chx.zeros(m).require_grad())
    x = chx.array(rng.random((ROWS, LAYERS[0]), "float32"))
    t = chx.array(rng.integers(0, LAYERS[-1], ROWS).astype("int32"))
    reducer = chx.distributed.GradientReducer(params, delayed=mode == "delayed")

    def step():
        y = x
        for i in range(0, len(params), 2):
            y = y.dot(params[i]) + params[i + 1]
            if i + 2 < len(params):
                y = chx.relu(y)
        loss = chx.cross_entropy(y, t)
        for p in params:
            p.cleargrad()
        if mode in ("meanwhile", "delayed"):
            reducer.backward(loss)
        else:
            loss.backward()
        grads = [p.grad for p in params]
        if mode == "after":
            grads = chx.distributed.all_reduce(grads, "mean")
        for p, g in zip(params, grads):
            p.as_grad_stopped()[...] -= 0.01 * g

    print("ready", flush=True)
    for line in sys.stdin:
        session.synchronize()
        start = time.perf_counter()
        for _ in range(int(line)):
            step()
        session.synchronize()
        print(time.perf_counter() - start, flush=True)


class Training(Side):
    """Ranks that train, each pinned to a core."""

    def __init__(self, mode, servers, env):
        own = [sys.executable, __file__, "--rank", mode]
        super().__init__(lambda *rank: [*own, *rank], len(servers), env, servers, pin=True)

    def run(self, steps):
        return self.ask(steps) / steps


def measure(name, servers, env, alone, rounds):
    """A table's rows; `alone`: the side of one rank with nobody else."""
    sides = {"one rank": alone}
    sides.update({mode: Training(mode, servers, env) for mode in MODES})
    times = {mode: [] for mode in sides}
    for i in range(rounds + 1):
        for mode in list(sides) if i % 2 == 0 else reversed(list(sides)):
            taken = sides[mode].run(STEPS)
            if i > 0:  # the first one warms up
                times[mode].append(taken)
    taken = {mode: 1e3 * statistics.median(t) for mode, t in times.items()}
    exchange = taken["after"] - taken["no exchange"]
    for mode in sides:
        hidden = 1 - (taken[mode] - taken["no exchange"]) / exchange
        shown = f"{100 * hidden:.0f} %" if mode in ("meanwhile", "delayed") else ""
        throughput = f"{taken['one rank'] / taken[mode]:.2f}" if mode != "one rank" else ""
        print(f"| {name} | {mode} | {taken[mode]:.2f} ms | {shown} | {throughput} |", flush=True)
    for mode in MODES:
        sides[mode].close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chxd", default=".bazel/bin/server/chxd")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rank", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank:
        mode, rank, size = arguments.rank
        serve_rank(mode, int(rank), int(size))
        return
    with (
        tempfile.TemporaryDirectory(prefix="chxd-bench-") as folder,
        contextlib.ExitStack() as stack,
    ):
        many, meet_at = start_daemons(
            2,
            arguments.chxd,
            pathlib.Path(folder),
            stack,
            ["--threads=1", "--peer-encryption=none"],
            pin=True,
        )
        (pathlib.Path(folder) / "one").mkdir()
        one, _ = start_daemons(
            1, arguments.chxd, pathlib.Path(folder) / "one", stack, ["--threads=1"]
        )
        alone = Training("no exchange", many[:1], {})
        print("| ranks are sessions of | gradients | step | hidden | of two ranks' throughput |")
        print("|---" * 5 + "|")
        measure("two daemons", many, {"CHX_GROUP_ADDRESS": meet_at}, alone, arguments.rounds)
        measure("one daemon", one * 2, {}, alone, arguments.rounds)
        alone.close()


if __name__ == "__main__":
    main()
