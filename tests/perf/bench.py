"""Benchmarks with peers in the same run: interleaved rounds, medians, ratios.

    tools/bench.sh            # writes bench.json and the table in docs/performance.md

Each case is a function that does one repetition and returns seconds per unit. Rounds go through all
cases in turn, so that a busy machine hurts all of them alike.
"""

import argparse
import functools
import json
import os
import platform
import statistics
import subprocess
import sys
import time

import chx
import forward_sides
import numpy as np
import run_sides
from sides import Side, check_same_results, check_same_runs, check_same_training

# Who has the steps of forward_sides.py.
FORWARD = ("chx unix", "chx jit", "torch", "new torch", "new compiled torch", "jax")
# Of each the title, the size, how often the loss is read, and how many are taken.
STEPS = (
    ("small, loss every 1", "small", 1, 300),
    ("small, loss every 100", "small", 100, 300),
    ("large, loss every 1", "large", 1, 10),
)
FORWARD_STEPS = tuple((name, name, 1, 5) for name in forward_sides.names_of("jax"))
# Who has single operators.
ADDITIONS = ("chx unix", "torch", "new torch")
# And whole runs.
RUN = ("chx jit", "torch", "new torch")


def enqueue(session, require_grad):
    a = chx.array(np.ones(1, np.float32), device=session.devices[0])
    if require_grad:
        a.require_grad()
    session.synchronize()
    n = 200  # fewer than a batch: the call alone
    start = time.perf_counter()
    for _ in range(n):
        a + a
    seconds = (time.perf_counter() - start) / n
    session.synchronize()
    return seconds


def throughput(session):
    a = chx.array(np.ones(1, np.float32), device=session.devices[0])
    session.synchronize()
    n = 50000
    start = time.perf_counter()
    x = a
    for _ in range(n):
        x = x + a  # each result is used, so none is left out of a recognized window
    session.synchronize()
    seconds = time.perf_counter() - start
    if float(x) != n + 1:
        raise AssertionError(f"{n} additions gave {float(x)}")
    return seconds / n


def scalar_read(session):
    a = chx.array(np.ones(1, np.float32), device=session.devices[0])
    session.synchronize()
    n = 200
    start = time.perf_counter()
    for _ in range(n):
        float(a)
    return (time.perf_counter() - start) / n


def transfer(session, values, up):
    array = chx.array(values, device=session.devices[0])
    session.synchronize()
    start = time.perf_counter()
    if up:
        chx.array(values, device=session.devices[0])
    else:
        chx.to_numpy(array)
    return (time.perf_counter() - start) / values.nbytes


def memcpy(values, out):
    start = time.perf_counter()
    np.copyto(out, values)
    return (time.perf_counter() - start) / values.nbytes


def native_cases(path):
    """Numbers that a C++ program prints as JSON {name: [seconds per unit, ...]}, one round a call."""
    return json.loads(subprocess.run([path], check=True, capture_output=True).stdout)


def step_cases(sides, steps, suffix=""):
    return {
        f"step {title}{suffix}: {peer}": functools.partial(side.time, name, n, every)
        for title, name, every, n in steps
        for peer, side in sides.items()
    }


def make_cases(unix, sides):
    cases = step_cases(sides, STEPS)
    cases |= step_cases({peer: sides[peer] for peer in FORWARD}, FORWARD_STEPS)
    one_by_one = (("additions", "additions", 1, 20),)
    cases |= step_cases({peer: sides[peer] for peer in ADDITIONS}, one_by_one)
    for name in run_sides.SIZES:
        for peer in RUN:
            cases[f"run {name}: {peer}"] = lambda side=sides[peer], name=name: side.time(name, 1, 1)
    values = np.random.default_rng(0).standard_normal(16 << 20).astype(np.float32)
    out = np.empty_like(values)
    cases |= {
        "enqueue, Python": lambda: enqueue(unix, False),
        "enqueue with graph, Python": lambda: enqueue(unix, True),
        "operator through the daemon, Python": lambda: throughput(unix),
        "scalar read: chx unix": lambda: scalar_read(unix),
        "upload, per byte: chx unix": lambda: transfer(unix, values, True),
        "download, per byte: chx unix": lambda: transfer(unix, values, False),
        "copy, per byte: memcpy": lambda: memcpy(values, out),
    }
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--unix", required=True)
    parser.add_argument("--tcp", required=True)
    parser.add_argument("--unix-one-thread", help="of a daemon with --threads=1")
    parser.add_argument("--native", help="the C++ benchmark program")
    parser.add_argument("--new-python", required=True, help="Python with JAX and a newer PyTorch")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", default="bench.json")
    args = parser.parse_args()
    sides = {
        "chx unix": Side(sys.executable, "chx", args.unix),
        "chx tcp": Side(sys.executable, "chx", args.tcp),
        "chx jit": Side(sys.executable, "jit", args.unix),
        "torch": Side(sys.executable, "torch"),
        "new torch": Side(args.new_python, "torch"),
        "new compiled torch": Side(args.new_python, "compiled", "torch"),
        "jax": Side(args.new_python, "jax"),
        "chainer": Side(sys.executable, "chainer", "numpy"),
        "chainer on chx": Side(sys.executable, "chainer", args.unix),
    }
    check_same_training(sides)
    check_same_results([side for peer, side in sides.items() if peer in FORWARD])
    check_same_runs({peer: sides[peer] for peer in RUN})
    cases = make_cases(chx.connect(args.unix), sides)
    if args.unix_one_thread:
        # chx's client waits while the daemon's one thread computes: it may do so on any core.
        one_thread = {
            "chx unix": Side(sys.executable, "chx", args.unix_one_thread),
            "chx jit": Side(sys.executable, "jit", args.unix_one_thread),
            "torch": Side(sys.executable, "torch", one_core=True),
            "new torch": Side(args.new_python, "torch", one_core=True),
            "new compiled torch": Side(args.new_python, "compiled", "torch", one_core=True),
            "jax": Side(args.new_python, "jax", one_core=True),
        }
        check_same_results(list(one_thread.values()))
        cases |= step_cases(one_thread, (STEPS[2], *FORWARD_STEPS), ", 1 thread")
    times = {name: [] for name in cases}
    for _ in range(args.rounds):
        for name, case in cases.items():
            times[name].append(case())
        if args.native:
            for name, seconds in native_cases(args.native).items():
                times.setdefault(name, []).extend(seconds)
    result = {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "date": time.strftime("%Y-%m-%d"),
        "rounds": args.rounds,
        "median_seconds": {name: statistics.median(t) for name, t in times.items()},
        "versions": {peer: side.versions for peer, side in sides.items()},
        "chainer_counts": sides["chainer on chx"].counts,
        "spread": {name: [min(t), max(t)] for name, t in times.items()},
    }
    with open(args.out, "w") as file:
        json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
