"""The processes of a run: the daemon under test and its clients, and what /proc says of them."""

import contextlib
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import time

TOKEN = "a-token-for-the-fault-harness"


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not (result := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return result


def make_certificate(directory):
    """A self-signed one for 127.0.0.1; returns the flags and the path for clients."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", "tls.key", "-out", "tls.crt"]
    subprocess.run(command, cwd=directory, check=True, capture_output=True)
    certificate = os.path.join(directory, "tls.crt")
    return [f"--tls-cert={certificate}", f"--tls-key={directory}/tls.key"], certificate


def list_sessions(path):
    """The names of a daemon's sessions, by a client that knows no more of the protocol (proto/chxd.proto)."""

    def frame(kind, payload):
        return struct.pack("<II", len(payload), kind) + payload

    def fields(message):
        """(number, value) of a protobuf message."""
        position = 0

        def varint():
            nonlocal position
            value = shift = 0
            while True:
                byte = message[position]
                position += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value

        while position < len(message):
            key = varint()
            if key & 7 == 0:
                yield key >> 3, varint()
                continue
            size = {1: 8, 5: 4}.get(key & 7)
            size = varint() if size is None else size
            yield key >> 3, message[position : position + size]
            position += size

    hello = bytes([8, 1, 16, 99, 26, len(TOKEN)]) + TOKEN.encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(path)
        connection.sendall(frame(3, hello) + frame(4, bytes([7 << 3 | 2, 0])))
        with connection.makefile("rb") as stream:
            header = stream.read(8)
            if len(header) < 8:
                raise ValueError("the connection is cut")
            reply = dict(fields(stream.read(struct.unpack("<II", header)[0])))
    if 6 not in reply:
        raise ValueError(f"{reply}")
    sessions = [dict(fields(value)) for number, value in fields(reply[6]) if number == 1]
    return [session.get(1, b"").decode(errors="replace") for session in sessions]


class Daemon:
    """A chxd on a Unix socket and on TCP, with a token.

    Args:
      directory: for its socket, token and log.
      flags: more flags.
      limits: {resource.RLIMIT_...: value} for the process.
      log: where its stderr goes, if not to a file in the directory.
    """

    def __init__(self, directory, *flags, limits=None, log=None):
        self.socket = os.path.join(directory, "chxd.sock")
        self.log_path = os.path.join(directory, "chxd.log")
        token = os.path.join(directory, "token")
        with open(token, "w") as file:
            file.write(TOKEN)
        self._command = [os.path.abspath(os.environ["CHX_CHXD"]), f"--token-file={token}", *flags]
        self._limits = limits or {}
        self._log = log or self.log_path
        self.start(f"--listen=unix:{self.socket},127.0.0.1:0")

    def start(self, listen):
        def limit():
            for which, value in self._limits.items():
                resource.setrlimit(which, (value, value))

        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                [*self._command, listen], stdout=subprocess.PIPE, stderr=log, preexec_fn=limit
            )
        line = self.process.stdout.readline().decode()
        if not line.startswith("chxd ready"):
            raise RuntimeError(f"chxd does not start: {self.log()}")
        self.unix, self.tcp = line.split()[2:4]

    def restart(self):
        """On the same addresses, after its death."""
        self.start(f"--listen=unix:{self.socket},{self.tcp}")

    def log(self):
        if not os.path.exists(self.log_path):
            return ""
        with open(self.log_path, "rb") as file:
            return file.read().decode(errors="replace")

    def alive(self):
        return self.process.poll() is None

    def children(self):
        """Process ids: those of its front process."""
        pids = []
        with contextlib.suppress(FileNotFoundError):
            for task in os.listdir(f"/proc/{self.process.pid}/task"):
                with (
                    contextlib.suppress(FileNotFoundError),
                    open(f"/proc/{self.process.pid}/task/{task}/children") as file,
                ):
                    pids += [int(pid) for pid in file.read().split()]
        return pids

    def usage(self):
        """Descriptors, threads and resident MiB of the daemon and its children, summed up."""
        total = {"descriptors": 0, "threads": 0, "resident": 0}
        for pid in [self.process.pid, *self.children()]:
            with contextlib.suppress(FileNotFoundError):
                with open(f"/proc/{pid}/status") as file:
                    status = file.read()
                total["descriptors"] += len(os.listdir(f"/proc/{pid}/fd"))
                total["threads"] += int(re.search(r"Threads:\s+(\d+)", status)[1])
                total["resident"] += int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) // 1024
        return total

    def sessions(self):
        """What the daemon's list has: the names; or one entry that says why there is no answer."""
        try:
            return list_sessions(self.socket)
        except (OSError, ValueError) as error:
            return [f"ListSessions fails: {error}"]

    def stop(self, seconds=30):
        """By SIGTERM; returns its exit status, or None if it had to be killed."""
        if self.alive():
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
        finally:
            self.process.stdout.close()


class Client:
    """A client in a process of its own. `kind`: "python" (tests/faults/workload.py) or "c++"."""

    def __init__(self, kind, address, seed, seconds, directory, roots=None, idle=0, private=False):
        self.kind = kind
        self.name = f"{kind}-{seed}"
        self.history = os.path.join(directory, self.name + ".history")
        self.output = os.path.join(directory, self.name + ".out")
        if kind == "python":
            command = [sys.executable, "-m", "tests.faults.workload", f"--address={address}"]
            command += [f"--history={self.history}", f"--seed={seed}", f"--seconds={seconds}"]
            command += [f"--token={TOKEN}"]
            command += [f"--tls-roots={roots}"] if roots else []
            command += [f"--idle={idle}"]
            # What is written into memory, without a command, is in no batch that is sent again.
            command += ["--private-memory"] if private else []
        elif kind == "taker":
            command = [sys.executable, "-m", "tests.faults.takers", f"--address={address}"]
            command += [f"--history={self.history}", f"--seed={seed}", f"--seconds={seconds}"]
            command += [f"--token={TOKEN}"] + ([f"--tls-roots={roots}"] if roots else [])
        else:
            command = [os.path.abspath(os.environ["CHX_CPP_CLIENT"]), address]
            command += [str(seconds), str(seed), TOKEN] + ([roots] if roots else [])
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        self.killed = False

    def signal(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.killed = self.killed or number == signal.SIGKILL

    def text(self):
        """The end of what it has printed."""
        with open(self.output, "rb") as file:
            return file.read().decode(errors="replace")[-2000:]
