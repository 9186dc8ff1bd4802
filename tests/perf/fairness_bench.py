"""How sessions share a daemon: host-bound ones with each other and by their tenants' weights, a small
one beside hogs, and an active one beside a thousand idle.
`tools/bench.sh fairness [equal] [weights] [hogs] [idle]`; prints tables for docs/performance.md and
writes nothing.

Each client is a process of its own. All cases of a part are interleaved in rounds; figures are
medians of the rounds. A round in which others on the machine used more than `--noise` of a core is
not counted: a scheduler cannot divide what it does not have.
"""

import argparse
import functools
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time

import chx
import numpy as np
from quiet import Others

SESSIONS = [1, 2, 4, 8]
WEIGHTS = {"heavy": 3, "light": 1}
HOGS = [0, 1, 4]
PAUSES = [0.0, 0.001, 0.25]  # seconds between a small client's steps
SETTLE_SECONDS = 1.0  # until hogs have something queued
IDLE = 1000


class Client:
    def __init__(self, address, *kind, token=""):
        script = os.path.join(os.path.dirname(__file__), "fairness_client.py")
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", script, address, *map(str, kind)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"CHX_TOKEN": token},
        )

    def wait(self):
        assert self.process.stdout.readline() == "ready\n"
        return self

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def kill(self):
        self.process.kill()
        self.process.wait()


class Daemon:
    def __init__(self, chxd, *flags):
        self._folder = tempfile.TemporaryDirectory()
        self.address = f"unix:{self._folder.name}/s"
        self.process = subprocess.Popen(
            [chxd, f"--listen={self.address}", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.process.stdout.readline()

    def memory(self):
        """Bytes in physical memory, as it is the daemon's alone."""
        with open(f"/proc/{self.process.pid}/smaps_rollup") as file:
            lines = dict(line.split(":") for line in file.readlines()[1:])
        return 1024 * int(lines["Pss"].split()[0])

    def kill(self):
        self.process.kill()
        self.process.wait()
        self._folder.cleanup()


def tenants_of(weights):
    """A tenants file: each one's token is its name."""
    lines = ["tenants:"]
    for name, weight in weights.items():
        digest = hashlib.sha256(name.encode()).hexdigest()
        lines += [f"- name: {name}", f"  weight: {weight}", f"  tokens: [{{sha256: {digest}}}]"]
    return "\n".join(lines) + "\n"


class Bench:
    """Runs cases in turns until each has been run often enough without noise."""

    def __init__(self, args):
        self.args = args
        limits = [f"--max-sessions={2 * IDLE}", f"--max-sessions-per-peer={2 * IDLE}"]
        self.tenants = tempfile.NamedTemporaryFile("w", suffix=".yaml")
        self.tenants.write(tenants_of(WEIGHTS))
        self.tenants.flush()
        self.daemon = Daemon(args.chxd, f"--tenants={self.tenants.name}", *limits)
        self.clients = []
        self.noisy = 0

    def add(self, count, *kind, tenant="light"):
        clients = [Client(self.daemon.address, *kind, token=tenant) for _ in range(count)]
        self.clients += clients
        return [client.wait() for client in clients]

    def run(self, clients, pause=0.0):
        """The clients' answers to one run at the same time; None if others were too busy."""
        others = Others([one.process.pid for one in [self.daemon, *self.clients]])
        start = time.perf_counter()
        for client in clients:
            client.ask("run", self.args.seconds, pause)
        answers = [client.answer() for client in clients]
        if others.cores(time.perf_counter() - start) <= self.args.noise:
            return answers
        self.noisy += 1
        return None

    def interleave(self, cases):
        """Lists of what the functions `cases` return, by their names."""
        results = {name: [] for name in cases}
        end = time.monotonic() + self.args.patience
        while time.monotonic() < end:
            late = [name for name in cases if len(results[name]) < self.args.rounds]
            if not late:
                break
            for name in late:
                answers = cases[name]()
                if answers is not None:
                    results[name].append(answers)
        return results

    def close(self):
        for client in self.clients:
            client.kill()
        self.daemon.kill()
        if self.noisy:
            print(f"\n{self.noisy} rounds were not counted: others used the cores.")


def median(values):
    return float(np.median(values)) if len(values) else float("nan")


def print_table(title, columns, rows):
    print(f"\n| {title} | " + " | ".join(map(str, columns)) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name, cells in rows.items():
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def equal_sessions(bench):
    for every in (1, 100):
        clients = bench.add(max(SESSIONS), "steps", every)
        cases = {n: lambda n=n, clients=clients: bench.run(clients[:n]) for n in SESSIONS}
        results = bench.interleave(cases)
        steps = {n: [[a["steps"] for a in answers] for answers in results[n]] for n in SESSIONS}
        together = {n: median([sum(s) / bench.args.seconds for s in steps[n]]) for n in SESSIONS}
        best = max(together.values())
        rows = {
            "steps/s together": [f"{together[n]:,.0f}" for n in SESSIONS],
            "÷ best": [f"{together[n] / best:.2f}" for n in SESSIONS],
            "min ÷ max": [f"{median([min(s) / max(s) for s in steps[n]]):.2f}" for n in SESSIONS],
        }
        print_table(f"sessions, loss read every {every}", SESSIONS, rows)


def weighted_sessions(bench):
    """Sessions of two tenants: the heavy one's share of all steps is to be 3/4, however many it has."""
    for every in (1, 100):
        clients = {name: bench.add(4, "steps", every, tenant=name) for name in WEIGHTS}

        def run(heavy, light, clients=clients):
            return bench.run(clients["heavy"][:heavy] + clients["light"][:light])

        counts = [(2, 2), (4, 2), (2, 4), (4, 4)]
        cases = {pair: functools.partial(run, *pair) for pair in counts}
        results = bench.interleave(cases)
        share = {}
        for heavy, light in counts:
            runs = [[a["steps"] for a in answers] for answers in results[heavy, light]]
            share[heavy, light] = median([sum(r[:heavy]) / sum(r) for r in runs])
        columns = [f"{heavy} and {light}" for heavy, light in counts]
        rows = {"the heavy one's share": [f"{share[pair]:.2f}" for pair in counts]}
        print_table(f"sessions of weights 3 and 1, loss read every {every}", columns, rows)


def beside_hogs(bench):
    (small,) = bench.add(1, "steps", 1)
    results = {}
    hogs = 0
    for count in HOGS:
        for hog in bench.add(count - hogs, "hog"):
            hog.ask("hog")
        hogs = count
        time.sleep(SETTLE_SECONDS)
        cases = {(count, pause): lambda pause=pause: bench.run([small], pause) for pause in PAUSES}
        results |= bench.interleave(cases)
    for pause in PAUSES:
        alone = median([answers[0]["p99"] for answers in results[0, pause]])
        rows = {}
        for which in ("p50", "p99"):
            values = [median([a[0][which] for a in results[n, pause]]) for n in HOGS]
            rows[f"{which}, µs"] = [f"{1e6 * value:.0f}" for value in values]
        rows["p99 ÷ alone"] = [f"{value / alone:.2f}" for value in values]
        print_table(f"hogs beside a step, {1e3 * pause:g} ms between steps", HOGS, rows)


def beside_idle(bench):
    (active,) = bench.add(1, "steps", 1)
    alone = bench.interleave({0: lambda: bench.run([active])})[0]
    before = bench.daemon.memory()
    idle = []
    for _ in range(IDLE):
        idle.append(chx.connect(bench.daemon.address, token="light"))
        float(chx.ones((16, 16), device=idle[-1].devices[0]).sum())
    kib = (bench.daemon.memory() - before) / 1024 / IDLE
    beside = bench.interleave({IDLE: lambda: bench.run([active])})[IDLE]
    rates = [median([answers[0]["p50"] for answers in runs]) for runs in (alone, beside)]
    rows = {
        "memory of each idle one, KiB": ["", f"{kib:.0f}"],
        "a step's median, µs": [f"{1e6 * rate:.1f}" for rate in rates],
        "÷ alone": ["1.00", f"{rates[1] / rates[0]:.2f}"],
    }
    print_table("idle sessions beside an active one", [0, IDLE], rows)


PARTS = {
    "equal": equal_sessions,
    "weights": weighted_sessions,
    "hogs": beside_hogs,
    "idle": beside_idle,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--chxd", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--noise", type=float, default=0.05)
    parser.add_argument("--patience", type=float, default=300, help="seconds for each table")
    args = parser.parse_args()
    for part in args.parts:
        bench = Bench(args)
        try:
            PARTS[part](bench)
        finally:
            bench.close()
    os._exit(0)  # the sessions are gone with their daemon


if __name__ == "__main__":
    main()
