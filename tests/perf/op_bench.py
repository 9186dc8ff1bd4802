"""Operators on chxd against PyTorch on the CPU, in one run: tools/bench.sh ops.

    tools/bench.sh ops                        # all; writes ops.json and docs/performance_ops.md
    tools/bench.sh ops exp 'sort.*10^7'       # only what matches; prints, writes nothing

A run repeats an operator k times and then waits once for all of them; its time is divided by k, the
same way on both sides. k makes a run some milliseconds long. Runs of the two alternate, and the
medians of both are compared. The daemon has as many threads as PyTorch.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

import chx
import numpy as np
import torch
from op_cases import all_cases

# After a loop, PyTorch's OpenMP threads spin for some 10 ms; the other side needs their cores.
PAUSE = 0.015
MAX_CALLS = 5000


class Daemon:
    """A chxd with so many threads."""

    def __init__(self, path, threads):
        self.directory = tempfile.TemporaryDirectory(prefix="chxd-bench-")
        self.process = subprocess.Popen(
            [
                path,
                f"--listen=unix:{self.directory.name}/chxd.sock",
                f"--threads={threads}",
                # Calls that repeat themselves would be run as a program, which leaves out what
                # nobody reads: all of it, since each result is dropped.
                "--recognize-windows=false",
            ],
            stdout=subprocess.PIPE,
        )
        self.session = chx.connect(self.process.stdout.readline().decode().split()[2])

    def stop(self):
        self.session.close()
        self.process.terminate()
        self.process.wait()
        self.directory.cleanup()


def our_call(case, values, session):
    """A function to be timed, and the arrays it gives."""
    arrays = [chx.array(v, case.dtype) for v in values]
    if not case.wrt:
        return lambda: case.ours(*arrays)
    for i in case.wrt:
        arrays[i].require_grad()
    y = case.ours(*arrays)
    leaves = [arrays[i] for i in case.wrt]
    gy = chx.array(output_gradient(y.shape), case.dtype)
    return lambda: chx.grad([y], leaves, grad_outputs=[gy])


def their_call(case, values):
    arrays = [torch.from_numpy(v) for v in values]
    if case.dtype:
        arrays = [a.to(getattr(torch, case.dtype)) for a in arrays]
    if not case.wrt:
        return lambda: case.theirs(*arrays)
    leaves = [arrays[i].requires_grad_() for i in case.wrt]
    y = case.theirs(*arrays)
    gy = torch.from_numpy(output_gradient(y.shape)).to(y.dtype)
    return lambda: torch.autograd.grad(y, leaves, gy, retain_graph=True)


def output_gradient(shape):
    return np.random.default_rng(1).standard_normal(tuple(shape), dtype=np.float32)


def compare(case, ours, theirs):
    """Both must have computed the same, or their times mean nothing."""
    ours, theirs = ours(), theirs()
    if not case.wrt:
        ours, theirs = [ours], [theirs]
    for a, b in zip(ours, theirs, strict=True):
        a, b = chx.to_numpy(a), b.detach()
        if case.dtype:
            a, b = a.astype(np.float32), b.float()
        b = b.numpy()
        if case.random and a.shape == b.shape:
            continue
        scale = max(1.0, float(np.max(np.abs(b)))) if b.size and b.dtype.kind == "f" else 0
        if not np.allclose(a, b, rtol=case.rtol, atol=case.rtol * scale):
            sys.exit(f"{case.title}: chx and PyTorch give different results")


def seconds(call, calls, wait):
    start = time.perf_counter()
    for _ in range(calls):
        call()
    wait()
    return (time.perf_counter() - start) / calls


def calls_for(call, wait, run_seconds):
    """How often to call in a run of so many seconds.

    By what further calls add to the best of several runs: waiting alone can take long.
    """
    calls, before = 1, None
    while True:
        taken = min(seconds(call, calls, wait) * calls for _ in range(3))
        if calls == 1 and taken > 10 * run_seconds:
            return 1
        added = 0 if before is None else taken - before
        if added > run_seconds / 4:
            return max(1, min(MAX_CALLS, round(run_seconds / added * calls / 2)))
        if calls >= MAX_CALLS:
            return MAX_CALLS
        calls, before = min(MAX_CALLS, 2 * calls), taken


def measure(case, session, arguments):
    """Median seconds per call of ours and theirs."""
    values = case.inputs()
    with chx.using_device(session.devices[0]):
        ours, theirs = our_call(case, values, session), their_call(case, values)
        compare(case, ours, theirs)
        sides = [(ours, session.synchronize), (theirs, lambda: None)]
        calls = [calls_for(call, wait, arguments.run_ms / 1e3) for call, wait in sides]
        times = ([], [])
        for i in range(arguments.rounds):
            for side in (0, 1) if i % 2 == 0 else (1, 0):
                time.sleep(PAUSE)
                call, wait = sides[side]
                seconds(call, 1, wait)  # wakes the threads of this side
                times[side].append(seconds(call, calls[side], wait))
        del ours, theirs, sides
        session.synchronize()
    return [statistics.median(t) for t in times]


def micros(value):
    return f"{value * 1e6:,.2f}" if value < 1e-4 else f"{value * 1e6:,.0f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="*", help="regular expressions over group/name/size")
    parser.add_argument("--chxd", default=".bazel/bin/server/chxd")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--run-ms", type=float, default=10)
    parser.add_argument("--out", help="where the results go, as JSON")
    parser.add_argument("--list", action="store_true", help="names the cases")
    arguments = parser.parse_args()
    cases = [
        case
        for case in all_cases()
        if all(re.search(p.replace("^", r"\^"), case.title) for p in arguments.patterns)
    ]
    if arguments.list:
        print("\n".join(case.title for case in cases))
        return
    rows = []
    for threads in [int(t) for t in arguments.threads.split(",")]:
        torch.set_num_threads(threads)
        daemon = Daemon(arguments.chxd, threads)
        for case in cases:
            with torch.set_grad_enabled(bool(case.wrt)):
                ours, theirs = measure(case, daemon.session, arguments)
            rows.append([case.group, case.name, case.size, threads, ours, theirs])
            print(
                f"{case.title:70} {threads} {micros(ours):>12} {micros(theirs):>12} µs "
                f"{ours / theirs:6.2f}",
                flush=True,
            )
        daemon.stop()
    ratios = [ours / theirs for *_, ours, theirs in rows]
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f}, worst {max(ratios):.2f}")
    if arguments.out:
        result = {
            "machine": f"{os.cpu_count()} cores, {platform.machine()}",
            "torch": torch.__version__,
            "date": time.strftime("%Y-%m-%d"),
            "rounds": arguments.rounds,
            "load": os.getloadavg()[0],
            "rows": rows,
        }
        with open(arguments.out, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
