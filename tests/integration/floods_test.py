"""Strangers on the network and processes of the daemon's user flood it; others notice little. $CHX_FLOOD_SECONDS is for longer
floods than CI's, with 10,000 idle connections and 1,024 idle sessions."""

import contextlib
import os
import re
import subprocess
import sys
import threading
import time

import chx
import pytest

from . import raw_frames
from .daemon import Daemon
from .tls_proxy import Authority

SECONDS = float(os.environ.get("CHX_FLOOD_SECONDS", 0.5))
LONG = "CHX_FLOOD_SECONDS" in os.environ
TOKEN = "0123456789abcdef0123"
MEGABYTE = 1 << 20
HEALTH = raw_frames.text(9, b"")
KINDS = [
    "rapid_reset",
    "continuation",
    "settings",
    "ping",
    "empty_frames",
    "windows",
    "slow_loris",
    "idle",
]


class Guarded:
    """A daemon with a token, reached by `way`, "tls", "plain" or "unix", and how to connect to it."""

    def __init__(self, way, folder):
        tls = way == "tls"
        (folder / "token").write_text(TOKEN)
        # All come from one address here.
        flags = [f"--token-file={folder}/token", "--max-sessions-per-peer=2000", "--lease=4s"]
        self.tls = tls
        self.options = {"token": TOKEN}
        if tls:
            authority = Authority()
            certificate, key = authority.issue("DNS:localhost,IP:127.0.0.1")
            flags += [f"--tls-cert={certificate}", f"--tls-key={key}"]
            self.options["tls_roots"] = authority.roots
        listen = f"unix:{folder}/s" if way == "unix" else "127.0.0.1:0"
        self.daemon = Daemon(*flags, listen=listen)
        self.address = self.daemon.address
        with self.connect():
            pass
        time.sleep(0.2)
        self.rest = self.resident_bytes()

    def connect(self):
        return chx.connect(self.address, **self.options)

    def processes(self):
        """The daemon's and its helpers'."""
        daemon = self.daemon.process.pid
        yield daemon
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:
                if int(file.read().rsplit(")", 1)[1].split()[1]) == daemon:
                    yield int(name)

    def resident_bytes(self):
        total = 0
        for process in self.processes():
            with contextlib.suppress(OSError), open(f"/proc/{process}/status") as file:
                # A process that ends has none any more.
                found = re.search(r"VmRSS:\s+(\d+) kB", file.read())
                total += int(found[1]) * 1024 if found else 0
        return total


@pytest.fixture(scope="module", params=["tls", "plain", "unix"])
def guarded(request, tmp_path_factory):
    guarded = Guarded(request.param, tmp_path_factory.mktemp("flood"))
    with guarded.daemon:
        yield guarded


class Watch:
    """Beside a flood: the daemon's memory, an innocent client's sums, and how long it takes others to
    come in."""

    def __init__(self, guarded):
        self.guarded = guarded
        self.peak = 0
        self.wrong = []
        self.steps = 0
        self.opened = []
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=each) for each in (self._count, self._measure)]

    def __enter__(self):
        self.session = self.guarded.connect()
        self.x = chx.zeros((), "int64")
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        self.session.close()

    def _measure(self):
        while not self.stop.is_set():
            self.peak = max(self.peak, self.guarded.resident_bytes())
            time.sleep(0.05)

    def _count(self):
        while not self.stop.is_set():
            self.x += 1
            self.steps += 1
            if self.steps % 10 == 0 and int(self.x) != self.steps:
                self.wrong.append((int(self.x), self.steps))

    def newcomer(self):
        start = time.monotonic()
        with self.guarded.connect():
            assert float(chx.ones(()) + 1) == 2
        self.opened.append(time.monotonic() - start)

    def check(self, kind):
        grown = (self.peak - self.guarded.rest) / MEGABYTE
        print(
            f"{kind}: {grown:.0f} MB above {self.guarded.rest / MEGABYTE:.0f}, a newcomer after "
            f"{max(self.opened):.2f} s at most, {self.steps} steps of the innocent client"
        )
        assert not self.wrong
        assert self.steps > 0
        assert grown < 256
        # One second on a machine that does nothing else.
        assert max(self.opened) < 10


def goes_back_to_rest(guarded):
    end = time.monotonic() + 10
    while guarded.resident_bytes() > 1.1 * guarded.rest + 16 * MEGABYTE:
        assert time.monotonic() < end, (guarded.resident_bytes(), guarded.rest)
        time.sleep(0.1)


def attack(kind, guarded, processes=1):
    tls = ["tls"] if guarded.tls else []
    command = [sys.executable, "-m", "tests.integration.floods", kind, guarded.address]
    return [
        subprocess.Popen([*command, str(SECONDS), *tls], stdout=subprocess.PIPE)
        for _ in range(processes)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_flood(kind, guarded):
    with Watch(guarded) as watch:
        attackers = attack(kind, guarded, 4 if LONG else 1)
        while not watch.opened or any(each.poll() is None for each in attackers):
            watch.newcomer()
            time.sleep(0.1)
        counts = [int(each.communicate()[0]) for each in attackers]
    assert all(count > 0 for count in counts), "the flood did not reach the daemon"
    watch.check(kind)
    goes_back_to_rest(guarded)
    assert guarded.daemon.alive()


def test_idle_sessions_leave_room_for_others(guarded):
    token = TOKEN.encode()
    sessions = []
    with Watch(guarded) as watch:
        for _ in range(1024 if LONG else 150):
            sessions.append(raw_frames.open_session(guarded.address, token, guarded.tls))
        watch.newcomer()
    watch.check(f"{len(sessions)} idle sessions")
    for session in sessions:
        session.close()
    time.sleep(4)  # the lease
    goes_back_to_rest(guarded)


def test_a_peer_has_its_share_of_sessions(tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    flags = (f"--token-file={tmp_path}/token", "--max-sessions=12", "--max-sessions-per-peer=8")
    socket = f"unix:{tmp_path}/s"
    with Daemon(*flags, listen=f"127.0.0.1:0,{socket}") as daemon:
        held = [raw_frames.open_session(daemon.address, TOKEN.encode()) for _ in range(8)]
        with pytest.raises(ConnectionError, match="has 8 sessions.*--max-sessions-per-peer"):
            raw_frames.open_session(daemon.address, TOKEN.encode())
        # Another peer: this machine's user.
        held += [raw_frames.open_session(socket, TOKEN.encode()) for _ in range(4)]
        with pytest.raises(ConnectionError, match="12 sessions.*--max-sessions"):
            raw_frames.open_session(socket, TOKEN.encode())


def test_closing_waits_for_a_connection():
    """Strangers have all but one when a session that has called nothing is closed, and leave soon."""
    with Daemon("--max-sessions=2") as daemon, contextlib.ExitStack() as strangers:
        session = chx.connect(daemon.address)
        taken = []
        with contextlib.suppress(AssertionError):
            while len(taken) < 100:
                peer = strangers.enter_context(raw_frames.connect(daemon.address))
                peer.sendall(raw_frames.hello() + raw_frames.frame(raw_frames.CALL, HEALTH))
                code, message = raw_frames.status(raw_frames.receive(peer)[1])
                assert code == 0, message
                taken.append(peer)
        assert 0 < len(taken) < 100
        leave = threading.Timer(0.2, taken[0].close)
        leave.start()
        session.close()
        leave.join()
