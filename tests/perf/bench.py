"""Benchmarks with peers in the same run: interleaved rounds, medians, ratios.

    tools/bench.sh            # writes bench.json and the table in docs/performance.md

Each case is a function that does one repetition and returns seconds per unit. Rounds go through all
cases in turn, so that a busy machine hurts all of them alike.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

import chx
import numpy as np

STEP_SMALL = ([784, 32, 32, 10], 1)
STEP_LARGE = ([784, 1000, 1000, 10], 100)


def batch_of(sizes, batch):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, sizes[0]), dtype=np.float32)
    t = rng.integers(0, sizes[-1], batch)
    ws = [
        (rng.standard_normal((o, i), dtype=np.float32) / np.sqrt(i)).astype(np.float32)
        for i, o in zip(sizes[:-1], sizes[1:], strict=True)
    ]
    return x, t, ws


# --- One training step: forward, backward, SGD ---------------------------------------------------


def chx_step(session, sizes, batch):
    """Returns step(n, every): n steps, the loss read at every `every`-th."""
    with chx.using_device(session.devices[0]):
        x, t, ws = batch_of(sizes, batch)
        x, t = chx.array(x), chx.array(t)
        params = []
        for w in ws:
            params.append(chx.array(w).require_grad())
            params.append(chx.array(np.zeros(w.shape[0], np.float32)).require_grad())
        optimizer = chx.optimizers.SGD(lr=0.01).setup(params)

    def step(n, every):
        for i in range(n):
            h = x
            for k in range(0, len(params), 2):
                h = chx.linear(h, params[k], params[k + 1])
                if k + 2 < len(params):
                    h = chx.relu(h)
            loss = chx.mean(chx.softmax_cross_entropy(h, t))
            loss.backward()
            optimizer.update()
            optimizer.cleargrads()
            if (i + 1) % every == 0:
                float(loss)

    return step


def torch_step(sizes, batch):
    import torch

    x, t, ws = batch_of(sizes, batch)
    x, t = torch.from_numpy(x), torch.from_numpy(t)
    params = []
    for w in ws:
        params.append(torch.from_numpy(w.copy()).requires_grad_())
        params.append(torch.zeros(w.shape[0]).requires_grad_())

    def step(n, every):
        for i in range(n):
            h = x
            for k in range(0, len(params), 2):
                h = torch.nn.functional.linear(h, params[k], params[k + 1])
                if k + 2 < len(params):
                    h = torch.relu(h)
            loss = torch.nn.functional.cross_entropy(h, t)
            loss.backward()
            with torch.no_grad():
                for p in params:
                    p -= p.grad * 0.01
                    p.grad = None
            if (i + 1) % every == 0:
                float(loss)

    return step


class ChainerStep:
    """Real Chainer in a process of its own: on NumPy, or on the daemon at an address."""

    def __init__(self, where):
        script = os.path.join(os.path.dirname(__file__), "chainer_step.py")
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", script, where],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()
        self.counts = {}  # of the last run of each size: commands and round trips of a step

    def _answer(self):
        return json.loads(self._process.stdout.readline())

    def run(self, name, n, every):
        print(name, n, every, file=self._process.stdin, flush=True)
        answer = self._answer()
        self.counts[f"{name}, loss every {every}"] = answer
        return answer["seconds"]


def timed_step(step, n, every):
    start = time.perf_counter()
    step(n, every)
    return (time.perf_counter() - start) / n


# --- Small things --------------------------------------------------------------------------------


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
    for _ in range(n):
        a + a
    session.synchronize()
    return (time.perf_counter() - start) / n


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


# --- The run -------------------------------------------------------------------------------------


def native_cases(path):
    """Numbers that a C++ program prints as JSON {name: [seconds per unit, ...]}, one round a call."""
    return json.loads(subprocess.run([path], check=True, capture_output=True).stdout)


def make_cases(unix, tcp, chainers):
    cases = {}
    for name, (sizes, batch), n in (("small", STEP_SMALL, 100), ("large", STEP_LARGE, 10)):
        makers = {
            "chx unix": lambda s=sizes, b=batch: chx_step(unix, s, b),
            "chx tcp": lambda s=sizes, b=batch: chx_step(tcp, s, b),
            "torch": lambda s=sizes, b=batch: torch_step(s, b),
        }
        for peer, make in makers.items():
            step = make()
            step(2, 1)
            for every in (1, 100) if name == "small" else (1,):
                cases[f"step {name}, loss every {every}: {peer}"] = (
                    lambda step=step, n=n, every=every: timed_step(step, n, every)
                )
        for peer, chainer in chainers.items():
            for every in (1, 100) if name == "small" else (1,):
                cases[f"step {name}, loss every {every}: {peer}"] = (
                    lambda c=chainer, s=name, n=n, every=every: c.run(s, n, every)
                )
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
    parser.add_argument("--native", help="the C++ benchmark program")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", default="bench.json")
    args = parser.parse_args()
    tcp = chx.connect(args.tcp)
    unix = chx.connect(args.unix)
    chainers = {"chainer": ChainerStep("numpy"), "chainer on chx": ChainerStep(args.unix)}
    cases = make_cases(unix, tcp, chainers)
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
        "chainer_counts": chainers["chainer on chx"].counts,
        "spread": {name: [min(t), max(t)] for name, t in times.items()},
    }
    with open(args.out, "w") as file:
        json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
