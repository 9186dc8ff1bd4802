"""The daemon's log: what operators read there, and what clients cannot do to it."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import chx
import pytest

from . import raw_frames
from .daemon import wait_until

CHXD = os.path.abspath(os.environ["CHX_CHXD"])
TOKEN = "0123456789abcdef-secret"
EVIL = 'x\n{"level":"info","message":"session opened"}\r\x1b[2J\u2028"} level=error'


class Logged:
    """A daemon whose standard error is a file."""

    def __init__(self, folder, *flags):
        self.path = pathlib.Path(folder, "log")
        self.socket = f"{folder}/chxd.sock"
        (pathlib.Path(folder) / "token").write_text(TOKEN)
        with self.path.open("wb") as log:
            self.process = subprocess.Popen(
                [CHXD, f"--listen=unix:{self.socket},127.0.0.1:0"]
                + [f"--token-file={folder}/token", *flags],
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.addresses = self.process.stdout.readline().decode().split()[2:]

    def text(self):
        return self.path.read_bytes().decode()  # UTF-8, or an error

    def lines(self):
        return [json.loads(line) for line in self.text().splitlines()]

    def about(self, message):
        return [line for line in self.lines() if line["message"] == message]

    def soon(self, message, number=1):
        """The lines with this message, of which there are to be so many."""
        assert wait_until(lambda: len(self.about(message)) >= number), self.text()
        return self.about(message)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@pytest.fixture
def logged(tmp_path_factory):
    with contextlib.ExitStack() as stack:

        def start(*flags):
            daemon = Logged(tmp_path_factory.mktemp("log"), *flags)
            stack.callback(daemon.process.wait)
            stack.callback(daemon.process.kill)
            return daemon

        yield start


def test_a_session_from_start_to_end(logged):
    daemon = logged("--log-format=json", "--memory=1GiB", "--drain-timeout=1s")
    [started] = daemon.about("started")
    assert started["devices"] == "native:0" and started["memory"] == "1 GiB"
    assert started["listen"] == ",".join(daemon.addresses) and started["token"] is True
    assert started["level"] == "info" and started["pid"] == daemon.process.pid
    with chx.connect(daemon.addresses[1], token=TOKEN):
        a = chx.arange(1000)
        assert float((a + a).sum()) == 999000
    [opened] = daemon.soon("session opened")
    assert opened["session"] == 1 and opened["peer"] == "127.0.0.1"
    [ended] = daemon.soon("session ended")
    assert (ended["session"], ended["reason"]) == (1, "closed by its client")
    assert daemon.stop() == 0
    assert [line["message"] for line in daemon.lines()[-2:]] == ["draining", "ended"]
    # Operator calls, and what nobody did wrong, leave no lines.
    assert len(daemon.lines()) == 5, daemon.text()


def test_refusals_leases_and_memory(logged):
    daemon = logged(
        "--log-format=json", "--lease=0.1s", "--session-memory=8MiB", "--max-sessions=1"
    )
    unix, tcp = daemon.addresses
    with pytest.raises(PermissionError):
        chx.connect(tcp, token="0123456789abcdef-wrong")
    [refused] = daemon.soon("client refused")
    assert (refused["process"], refused["peer"]) == ("chxd-front", "127.0.0.1")
    assert refused["reason"] == "no valid token" and refused["level"] == "warning"
    with pytest.raises(PermissionError):
        chx.connect(unix, token="0123456789abcdef-wrong")
    refused = daemon.soon("client refused", 2)[1]
    assert refused["process"] == "chxd" and refused["peer"] == f"uid {os.getuid()}"
    with chx.connect(unix, token=TOKEN):
        with pytest.raises(chx.OutOfMemoryError):
            chx.to_numpy(chx.zeros((10_000_000,)))
        [full] = daemon.soon("out of memory")
        assert full["session"] == 1 and "8 MiB" in full["reason"]
        with pytest.raises((chx.ChainerxError, ConnectionError)):
            chx.connect(tcp, token=TOKEN)
        assert "--max-sessions" in daemon.soon("client refused", 3)[2]["reason"]
    daemon.soon("session ended")
    # One that opens a session and goes away.
    with raw_frames.connect(tcp) as peer:
        peer.sendall(raw_frames.hello(TOKEN.encode()) + raw_frames.open_call())
        peer.recv(1)
        daemon.soon("session opened", 2)
    assert daemon.soon("session ended", 2)[1]["reason"] == "its lease has run out"
    assert TOKEN not in daemon.text() and "-wrong" not in daemon.text()


@pytest.mark.parametrize("form", ["json", "text"])
def test_clients_forge_no_lines(logged, form):
    daemon = logged(f"--log-format={form}", "--log-level=debug")
    with raw_frames.connect(daemon.addresses[1]) as peer:
        name = EVIL.encode()
        peer.sendall(raw_frames.hello(TOKEN.encode()) + raw_frames.open_call(name))
        peer.recv(1)
    assert wait_until(
        lambda: "session opened session=1" in daemon.text() or '"session":1' in daemon.text()
    )
    text = daemon.text()
    assert not [c for c in text if c != "\n" and (ord(c) < 32 or 0x7F <= ord(c) < 0xA0)]
    assert "\u2028" not in text
    lines = text.splitlines()
    assert len([line for line in lines if "session opened" in line]) == 1, text
    assert len([line for line in lines if "started" in line]) == 1, text
    if form == "json":
        [opened] = daemon.about("session opened")
        assert opened["level"] == "info" and "level=error" in opened["client"]


def test_floods_fill_no_disk(logged):
    """Each wrong token, and each peer that is no client, would be a line."""
    daemon = logged("--log-format=json")
    began = time.monotonic()
    for i in range(150):
        with raw_frames.connect(daemon.addresses[1]) as peer:
            peer.sendall(
                raw_frames.hello(b"0123456789-%d" % i) if i % 2 else b"GET / HTTP/1.1\r\n\r\n"
            )
            peer.recv(1000)
    daemon.soon("client refused")
    with chx.connect(daemon.addresses[1], token=TOKEN):
        pass
    daemon.soon("session ended")
    refused = daemon.about("client refused")
    assert 20 <= len(refused) <= 21 + time.monotonic() - began, len(refused)


def test_a_helper_that_dies_is_named(logged):
    daemon = logged("--log-format=json")
    tasks = pathlib.Path(f"/proc/{daemon.process.pid}/task")

    def children():
        return {pid for task in tasks.iterdir() for pid in (task / "children").read_text().split()}

    assert wait_until(children)
    [front] = children()
    os.kill(int(front), signal.SIGKILL)
    [line] = daemon.soon("the front process has ended and is started again")
    assert line["level"] == "warning"


def test_levels(logged):
    daemon = logged("--log-level=warning")
    with chx.connect(daemon.addresses[0], token=TOKEN):
        pass
    assert daemon.stop() == 0
    assert daemon.text() == ""


def test_nobody_needs_to_read_it(logged, tmp_path):
    """A pipe that is full, as one is whose reader hangs, holds up no client."""
    read_end, write_end = os.pipe()
    daemon = subprocess.Popen(
        [CHXD, f"--listen=unix:{tmp_path}/s", "--log-level=debug"],
        stdout=subprocess.PIPE,
        stderr=write_end,
    )
    try:
        daemon.stdout.readline()
        os.set_blocking(write_end, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(write_end, b"x" * 100)
        os.set_blocking(write_end, True)
        for _ in range(20):
            with chx.connect(f"unix:{tmp_path}/s"):
                assert float(chx.ones(3).sum()) == 3
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(30) == 0
    finally:
        daemon.kill()
        daemon.wait()
        os.close(read_end)
        os.close(write_end)


def test_a_private_daemon_leaves_the_terminal_alone():
    program = "import chx; chx.connect(); print(float(chx.ones(3).sum()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3.0\n", "")
