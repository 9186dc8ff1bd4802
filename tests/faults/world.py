"""One run: a daemon, clients, faults, and what must hold at the end."""

import collections
import contextlib
import glob
import os
import random
import re
import shutil
import signal
import tempfile
import time

from . import history
from .processes import TOKEN, Client, Daemon, make_certificate, wait_until
from .proxy import CUTS, FaultProxy

__all__ = ["TOKEN", "World", "wait_until"]


class World:
    """A daemon with innocent clients on its Unix socket, and others, which suffer.

    Args:
      transport: how the others connect: "unix", "tcp" or "tls".
      seed: of all that is drawn.
      lease: seconds.
      keeps_sessions: a session that was lost before its lease ended, or a transfer that failed while
        its session went on, is wrong.
      keeps_state: the daemon has a --state-dir.
      limits, flags, log: the daemon's.
    """

    def __init__(
        self,
        transport,
        seed,
        *flags,
        lease=5,
        keeps_sessions=True,
        keeps_state=False,
        limits=None,
        log=None,
    ):
        self.seed = seed
        self.draw = random.Random(seed)
        self.lease = lease
        self.keeps_sessions = keeps_sessions
        self.directory = tempfile.mkdtemp(prefix="chxd-faults-")
        self.roots = None
        flags = [f"--lease={lease}s", "--threads=2", *flags]
        self.keeps_state = keeps_state
        if keeps_state:
            flags.append(f"--state-dir={self.directory}/state")
        if transport == "tls":
            tls, self.roots = make_certificate(self.directory)
            flags += tls
        self.daemon = Daemon(self.directory, *flags, limits=limits, log=log)
        self.address = self.daemon.unix if transport == "unix" else self.daemon.tcp
        self.proxies = []
        self.clients = []
        self.innocents = []
        self.counts = collections.Counter()
        self.longest = {"innocent": 0.0, "other": 0.0}
        self.wrong = []
        self.kills = []
        self.stopped = []  # clients, for longer than their lease
        self.rest = None
        self._next_seed = seed * 1000

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for client in [*self.clients, *self.innocents]:
            client.signal(signal.SIGCONT)
            client.signal(signal.SIGKILL)
            client.process.wait()
        for proxy in self.proxies:
            proxy.close()
        self.daemon.stop(0 if kind else 30)
        if kind is None:
            shutil.rmtree(self.directory, ignore_errors=True)
        else:
            print(f"histories and logs are in {self.directory}", flush=True)

    def warm_up(self, seconds=0.5):
        """What one client of each kind leaves behind is rest."""
        others = [
            self._client(kind, self.address, seconds, self.roots) for kind in ("python", "c++")
        ]
        for client in [*others, self._client("python", self.daemon.unix, seconds)]:
            client.process.wait(120)
            broken = client.kind == "python" and not any(
                record[0] == "closed" for record in history.read(client.history)
            )
            if broken or client.process.returncode != 0 or not self.daemon.alive():
                raise AssertionError(
                    f"{client.name} without faults: {client.text()}; "
                    f"chxd: {self.daemon.process.poll()} {self.daemon.log()}"
                )
        wait_until(lambda: not self.daemon.sessions(), self.lease + 5)
        time.sleep(0.3)
        self.rest = self.daemon.usage()

    def proxy(self, weather):
        proxy = FaultProxy(self.address, self._seed(), self.directory, weather)
        self.proxies.append(proxy)
        return proxy

    def add_innocents(self, seconds, kinds=("python", "c++")):
        for kind in kinds:
            self.innocents.append(self._client(kind, self.daemon.unix, seconds))

    def add_clients(self, address, seconds, kinds, idle=0):
        for kind in kinds:
            self.clients.append(self._client(kind, address, seconds, self.roots, idle))

    def _client(self, kind, address, seconds, roots=None, idle=0):
        roots = None if address.startswith("unix:") else roots
        return Client(
            kind, address, self._seed(), seconds, self.directory, roots, idle, self.keeps_state
        )

    def add_taker(self, address, seconds):
        """A client that takes a named session up again and again (takers.py)."""
        roots = None if address.startswith("unix:") else self.roots
        return Client("taker", address, self._seed(), seconds, self.directory, roots)

    def finish_takers(self, takers, grace):
        """The turns that they noted, for history.check_turns."""
        end = time.monotonic() + grace
        turns = []
        for taker in takers:
            if not wait_until(lambda t=taker: t.process.poll() is not None, end - time.monotonic()):
                taker.signal(signal.SIGUSR1)
                time.sleep(0.5)
                self.wrong.append(f"{taker.name} hangs: {taker.text()}")
                taker.signal(signal.SIGKILL)
                taker.process.wait()
            elif taker.process.returncode != 0:
                self.wrong.append(f"{taker.name}: {taker.text()}")
            turns += history.read(taker.history) if os.path.exists(taker.history) else []
        self.counts["turns"] += len(turns)
        return [turn[1] for turn in turns]

    def kill_daemon(self):
        """kill -9; remembers when, and when the last snapshot of before was written."""
        written = 0.0
        for path in glob.glob(f"{self.directory}/state/*.session"):
            with contextlib.suppress(FileNotFoundError):
                written = max(written, os.stat(path).st_mtime)
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.kills.append((time.time(), written))
        self.counts["kill daemon"] += 1

    def end_or_kill_daemon(self):
        """One as often as the other, beginning with SIGTERM; its status, if there is one."""
        self.counts["ends"] += 1
        return self.daemon.stop() if self.counts["ends"] % 2 else self.kill_daemon()

    def restart_for(self, seconds, end_daemon, most_pause=1.0):
        """The daemon ends again and again, by `end_daemon`, and is started on the same addresses."""
        end = time.monotonic() + seconds
        wait_until(self.daemon.sessions, 30)
        while True:
            time.sleep(self.draw.uniform(0.2, most_pause))
            status = end_daemon()
            if status:
                self.wrong.append(f"chxd exits with {status}: {self.daemon.log()[-2000:]}")
            self.counts["restarts"] += 1
            time.sleep(self.draw.uniform(0, 0.4))
            self.daemon.restart()
            if time.monotonic() > end - 1:
                return

    def _seed(self):
        self._next_seed += 1
        return self._next_seed

    def stop_for(self, pids, seconds):
        """SIGSTOP, and SIGCONT later."""
        for pid in pids:
            self._signal(pid, signal.SIGSTOP)
        time.sleep(seconds)
        for pid in pids:
            self._signal(pid, signal.SIGCONT)

    @staticmethod
    def _signal(pid, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def torment(self, seconds, kinds, most_pause=0.5):
        """Faults of processes at random times: "stop client", "kill client", "stop front", "kill front",
        "stop daemon". A client that is killed is followed by another."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0.2:
            time.sleep(min(left, self.draw.uniform(0.05, most_pause)))
            fault = self.draw.choice(kinds)
            running = [client for client in self.clients if client.process.poll() is None]
            pause = self.draw.uniform(0.02, 0.7)
            if fault.endswith("client") and not running:
                continue
            self.counts[fault] += 1
            if fault == "stop client":
                self.stop_for([self.draw.choice(running).process.pid], pause)
            elif fault == "kill client":
                self.draw.choice(running).signal(signal.SIGKILL)
                kind = self.draw.choice(("python", "c++"))
                self.add_clients(self.address, max(0.5, end - time.monotonic()), [kind])
            elif fault == "stop front":
                self.stop_for(self.daemon.children(), pause)
            elif fault == "kill front":
                for pid in self.daemon.children():
                    self._signal(pid, signal.SIGKILL)
            elif fault == "stop daemon":
                self.stop_for([self.daemon.process.pid], pause)

    def finish(self, grace=60):
        """Waits for all clients and checks their histories; nobody may hang, crash or see a wrong value."""
        end = time.monotonic() + grace
        for client in [*self.clients, *self.innocents]:
            if not wait_until(
                lambda c=client: c.process.poll() is not None, end - time.monotonic()
            ):
                client.signal(signal.SIGUSR1)  # Python clients say where
                time.sleep(0.5)
                self.wrong.append(f"{client.name} hangs: {client.text()}")
                client.signal(signal.SIGKILL)
                client.process.wait()
            elif client.process.returncode != 0 and not client.killed:
                self.wrong.append(
                    f"{client.name} exits with {client.process.returncode}: {client.text()}"
                )
            check = self._check_python if client.kind == "python" else self._check_cpp
            check(client)

    def _check_python(self, client):
        innocent = client in self.innocents
        records = history.read(client.history) if os.path.exists(client.history) else []
        try:
            for kind, count in history.check(records, client.name).items():
                self.counts[kind] += count
        except history.Wrong as error:
            self.wrong.append(str(error))
        for number, record in enumerate(records):
            if record[0] == "wrong":
                self.wrong.append(f"{client.name}: record {number}: {record[1]}")
            if record[0] in ("lost", "refused", "raised", "raised read"):
                text = record[1] if record[0] in ("lost", "refused") else record[2]
                text = re.sub(r"[\d.]+ bytes|/\S+|[\d.]+:\d+", "*", text)
                self.counts["error: " + text[:110]] += 1
                if innocent:
                    self.wrong.append(f"innocent {client.name}: {record}")
            if record[0] == "lost":
                self._check_lost(client, record[1], record[2])
            if record[0].startswith("raised") and self.keeps_sessions:
                self.wrong.append(f"{client.name}: record {number}: {record}")
            if record[0] == "waited":
                who = "innocent" if innocent else "other"
                self.longest[who] = max(self.longest[who], record[1])
        if innocent and not any(record[0] == "closed" for record in records):
            self.wrong.append(f"innocent {client.name} did not get to its end")

    def _check_lost(self, client, text, silence):
        """A session may be lost when the daemon has not been reached for its lease."""
        # One that was stopped may read after that what had come before: it heard from the daemon.
        if self.keeps_sessions and silence < self.lease - 0.5 and client not in self.stopped:
            self.wrong.append(f"{client.name}: lost after {silence:.1f} s: {text}")

    def _check_cpp(self, client):
        innocent = client in self.innocents
        found = dict(re.findall(r"(\w+) ([\d.e+-]+)(?= |$)", client.text().strip().split("\n")[-1]))
        if "calls" not in found:
            if not client.killed:
                self.wrong.append(f"{client.name}: {client.text()}")
            return
        for name, kind in (
            ("calls", "call"),
            ("reads", "answer"),
            ("sessions", "open"),
            ("lost", "lost"),
        ):
            self.counts[kind] += int(found[name])
        self.counts["refused"] += int(found["refused"])
        self.counts["raised"] += int(found["failed_transfers"])
        self.counts["not closed"] += int(found["not_closed"])
        if self.keeps_sessions and int(found["failed_transfers"]):
            self.wrong.append(f"{client.name}: {client.text()}")
        for silence, text in re.findall(r"lost after ([\d.e+-]+) s: (.*)", client.text()):
            self._check_lost(client, text, float(silence))
        who = "innocent" if innocent else "other"
        self.longest[who] = max(self.longest[who], float(found["longest_wait"]))
        if innocent and any(
            int(found[name]) for name in ("lost", "refused", "failed_transfers", "not_closed")
        ):
            self.wrong.append(f"innocent {client.name}: {client.text()}")

    def check_rest(self, seconds=10, descriptors=8, threads=16, mebibytes=96):
        """Within its lease and some seconds all is as before: sessions, descriptors, threads, memory."""
        if not self.daemon.alive():
            self.wrong.append(
                f"chxd died: {self.daemon.process.poll()}, {self.daemon.log()[-2000:]}"
            )
            return
        if not wait_until(lambda: not self.daemon.sessions(), self.lease + seconds):
            self.wrong.append(f"sessions stay: {self.daemon.sessions()}")
        bounds = {"descriptors": descriptors, "threads": threads, "resident": mebibytes}

        def excess():
            now = self.daemon.usage()
            return {
                name: f"{now[name]}, {self.rest[name]} at rest"
                for name, bound in bounds.items()
                if now[name] > self.rest[name] + bound
            }

        wait_until(lambda: not excess(), seconds)
        self.wrong += [f"{name} stay: {text}" for name, text in excess().items()]
        self.counts["resident MiB above rest"] = (
            self.daemon.usage()["resident"] - self.rest["resident"]
        )

    def check_end(self):
        """SIGTERM ends it, and it has complained of nothing."""
        status = self.daemon.stop()
        if status != 0:
            self.wrong.append(f"chxd exits with {status}: {self.daemon.log()[-2000:]}")
        for word in ("Check failed", "Sanitizer", "terminate called", "Assertion"):
            if word in self.daemon.log():
                self.wrong.append(f"chxd's log: {self.daemon.log()[-2000:]}")

    def cuts(self):
        """How many connections have been cut so far."""
        return sum(proxy.counts[way] for proxy in self.proxies for way in CUTS)

    def report(self, name):
        """A line of what happened; raises if anything was wrong."""
        for proxy in self.proxies:
            for what, count in proxy.counts.items():
                self.counts[f"proxy: {what}"] += count
        counts = ", ".join(f"{key} {self.counts[key]}" for key in sorted(self.counts))
        waits = ", ".join(f"{who} {seconds:.2f} s" for who, seconds in self.longest.items())
        print(f"{name}, seed {self.seed}: {counts}; longest waits: {waits}", flush=True)
        if self.wrong:
            raise AssertionError(f"{name}, seed {self.seed}:\n" + "\n".join(self.wrong))
