"""A chxd of this process alone."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping

# The package chx, which the wheel ships with the daemon.
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# What a session may hold: a share of the machine's memory, or the container's.
DEFAULT_MEMORY = "80%"


def _size(memory: str | float | None) -> str:
    """The flag's text. 4e9 is a number of bytes, 0.5 a share."""
    if isinstance(memory, float) and memory > 1 and memory.is_integer():
        memory = int(memory)
    return DEFAULT_MEMORY if memory is None else str(memory)


def find_chxd() -> str:
    """The path of the daemon that a private one is an instance of."""
    candidates = [os.environ.get("CHX_CHXD")]
    candidates.append(os.path.join(_PACKAGE, "bin", "chxd"))
    candidates.append(shutil.which("chxd"))
    for path in candidates:
        if path and os.access(path, os.X_OK):
            return os.path.abspath(path)
    raise FileNotFoundError(
        "there is no chxd to start: give connect() an address, or set $CHX_SERVER to one or "
        "$CHX_CHXD to the daemon's path"
    )


# Those that run.
_running: set[PrivateDaemon] = set()


class PrivateDaemon:
    """It ends when it is stopped, and with the process, however that ends."""

    process: subprocess.Popen[bytes] | None = None
    sessions = 0  # that need it

    def __init__(
        self,
        devices: str,
        plugins: Mapping[str, str | os.PathLike[str]] | None,
        memory: str | float | None,
    ) -> None:
        chxd = find_chxd()
        self.directory = tempfile.mkdtemp(prefix="chx-")
        self.address = f"unix:{self.directory}/chxd.sock"
        self.lifeline: int | None
        read_end, self.lifeline = os.pipe()  # neither is inherited by what is started
        _running.add(self)
        command = [
            chxd,
            f"--devices={devices}",
            f"--listen={self.address}",
            f"--lifeline-fd={read_end}",
            # All is for one process: its sessions share what --memory leaves them.
            f"--session-memory={_size(memory)}",
        ]
        if plugins:
            paths = (f"{name}={os.path.abspath(path)}" for name, path in plugins.items())
            command.append(f"--plugins={','.join(paths)}")
        try:
            self.process = subprocess.Popen(
                command, pass_fds=[read_end], stdout=subprocess.PIPE, start_new_session=True
            )
        finally:
            os.close(read_end)
        assert self.process.stdout is not None  # a pipe
        line = self.process.stdout.readline().decode()
        if not line.startswith("chxd ready"):
            self.stop()
            reason = line.strip() or "it has said nothing"
            raise ConnectionError(f"chxd did not start: {reason} ({' '.join(command)})")

    def release(self) -> None:
        """Ends with the last session that needs it."""
        self.sessions -= 1
        if self.sessions == 0:
            self.stop()

    def leave(self) -> None:
        """In a forked child, which must not keep the daemon alive."""
        lifeline, self.lifeline = self.lifeline, None
        if lifeline is not None:
            os.close(lifeline)

    def stop(self) -> None:
        """Waits for its end. Again, or in a forked child: nothing."""
        lifeline, self.lifeline = self.lifeline, None
        if lifeline is None:
            return
        _running.discard(self)
        os.close(lifeline)
        if self.process is not None:
            try:
                self.process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            if self.process.stdout is not None:
                self.process.stdout.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def _leave_all() -> None:
    for daemon in list(_running):
        daemon.leave()
    _running.clear()


def _stop_all() -> None:
    for daemon in list(_running):
        daemon.stop()


os.register_at_fork(after_in_child=_leave_all)
# Before that of the sessions, which end first: handlers run in reverse order.
atexit.register(_stop_all)
