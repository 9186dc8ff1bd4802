"""A real chxd for tests."""

import os
import re
import signal
import subprocess
import tempfile
import time


def wait_until(condition, seconds=10):
    """Whether it has become true within that time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


def _is_stopped(task):
    try:
        with open(f"{task}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "T"
    except OSError:  # it has ended meanwhile
        return True


class Daemon:
    """Started with flags; `address` is where it listens."""

    def __init__(self, *flags, listen=None, preexec_fn=None, stderr=subprocess.PIPE):
        self.directory = tempfile.mkdtemp(prefix="chxd-test-")
        self.socket = os.path.join(self.directory, "chxd.sock")
        listen = listen or f"unix:{self.socket}"
        identified = any(flag.startswith(("--token-file", "--tenants")) for flag in flags)
        if not listen.startswith("unix:") and not identified:
            flags = ("--allow-unauthenticated-loopback", *flags)
        command = [os.path.abspath(os.environ["CHX_CHXD"]), f"--listen={listen}", *flags]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, preexec_fn=preexec_fn
        )
        line = self.process.stdout.readline().decode()
        if not line.startswith("chxd ready"):
            raise RuntimeError(self.process.stderr.read().decode())
        self.addresses = line.split()[2:]
        self.address = self.addresses[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def freeze(self):
        """Stops it, until SIGCONT or SIGKILL; returns when no thread of it runs."""
        self.process.send_signal(signal.SIGSTOP)
        threads = f"/proc/{self.process.pid}/task"
        assert wait_until(lambda: all(_is_stopped(f"{threads}/{t}") for t in os.listdir(threads)))

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(r"VmRSS:\s+(\d+) kB", file.read())[1]) * 1024

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def await_idle(self, seconds):
        """Whether it stops computing in that time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            before = self.cpu_seconds()
            time.sleep(1)
            # Also where others want the processors, it has more than that while it computes.
            if self.cpu_seconds() - before < 0.05:
                return True
        return False

    def alive(self):
        return self.process.poll() is None


class Keeper:
    """One daemon after another, with the same folder and address."""

    def __init__(self, tmp_path, *flags, tcp=False):
        self.folder = str(tmp_path / "state")
        self.flags = (f"--state-dir={self.folder}", *flags)
        self.daemon = Daemon(*self.flags, listen="127.0.0.1:0" if tcp else None)
        self.address = self.daemon.address

    def terminate(self):
        self.daemon.process.send_signal(signal.SIGTERM)
        assert self.daemon.process.wait(60) == 0, self.daemon.process.stderr.read()

    def start(self, *flags):
        self.daemon = Daemon(*self.flags, *flags, listen=self.address)

    def restart(self):
        self.terminate()
        self.start()

    def files(self):
        return sorted(name for name in os.listdir(self.folder) if name.endswith(".session"))
