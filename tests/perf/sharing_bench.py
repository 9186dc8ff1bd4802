"""How sessions share a daemon: host-bound ones with each other, a small one beside hogs, and an active
one beside a thousand idle. `tools/bench.sh sharing [fair] [hogs] [idle]`; prints tables for
docs/performance.md and writes nothing.

Each client is a process of its own. All cases of a part are interleaved in rounds; figures are
medians of the rounds. A round in which others on the machine used more than `--noise` of a core is
not counted: a scheduler cannot divide what it does not have.
"""

import argparse
import contextlib
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
HOGS = [0, 1, 4]
IDLE = 1000


class Client:
    def __init__(self, address, *kind):
        script = os.path.join(os.path.dirname(__file__), "sharing_client.py")
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", script, address, *map(str, kind)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
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

    def clients(self, count, *kind):
        clients = [Client(self.address, *kind) for _ in range(count)]
        return [client.wait() for client in clients]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self._folder.cleanup()


class Rounds:
    """Runs cases until each has been run often enough without noise."""

    def __init__(self, args, daemon):
        self._args = args
        self._daemon = daemon
        self.noisy = 0

    def run(self, clients, others=()):
        """The clients' answers to one run at the same time; None if it was noisy."""
        mine = [self._daemon, *clients, *others]
        watch = Others([one.process.pid for one in mine])
        start = time.perf_counter()
        for client in clients:
            client.ask("run", self._args.seconds)
        answers = [client.answer() for client in clients]
        cores = watch.cores(time.perf_counter() - start)
        if cores <= self._args.noise:
            return answers
        self.noisy += 1
        return None

    def interleave(self, cases):
        """Answers of each case, by its name. `cases`: functions that call run."""
        results = {name: [] for name in cases}
        deadline = time.monotonic() + self._args.patience
        while any(len(got) < self._args.rounds for got in results.values()):
            if time.monotonic() > deadline:
                print(f"others use this machine: {self.noisy} rounds were not counted")
                break
            for name, case in cases.items():
                if len(results[name]) < self._args.rounds and (answers := case()) is not None:
                    results[name].append(answers)
        return results


def median(values):
    return float(np.median(values)) if values else float("nan")


def fair(args, chxd):
    """Equal host-bound sessions."""
    for every in (1, 100):
        daemon = Daemon(chxd)
        try:
            clients = daemon.clients(max(SESSIONS), "steps", every)
            rounds = Rounds(args, daemon.process_holder)
            cases = {n: lambda n=n: rounds.run(clients[:n]) for n in SESSIONS}
            results = rounds.interleave(cases)
        finally:
            daemon.kill()
        rates = {n: [[a["steps"] for a in round_] for round_ in results[n]] for n in SESSIONS}
        aggregate = {n: median([sum(r) / args.seconds for r in rates[n]]) for n in SESSIONS}
        best = max(aggregate.values())
        print(f"\n| sessions, loss read every {every} | " + " | ".join(map(str, SESSIONS)) + " |")
        print("|---" * (len(SESSIONS) + 1) + "|")
        rows = {
            "steps/s, together": lambda n: f"{aggregate[n]:,.0f}",
            "÷ best": lambda n: f"{aggregate[n] / best:.2f}",
            "min ÷ max": lambda n: f"{median([min(r) / max(r) for r in rates[n]]):.2f}",
        }
        for name, cell in rows.items():
            print(f"| {name} | " + " | ".join(cell(n) for n in SESSIONS) + " |", flush=True)


def beside_hogs(args, chxd):
    """A small client's step beside sessions that queue large products without end."""
    daemon = Daemon(chxd)
    try:
        rounds = Rounds(args, daemon)
        small = daemon.clients(1, "steps", 1)
        results = {}
        hogs = []
        for count in HOGS:
            new = daemon.clients(count - len(hogs), "hog")
            for hog in new:
                hog.ask("hog")
            hogs += new
            time.sleep(1)
            case = {
                (count, pause): lambda pause=pause: rounds.run_paused(small, hogs, pause)
                for pause in (0, 1)
            }
            results |= rounds.interleave(case)
    finally:
        daemon.kill()
    return results
