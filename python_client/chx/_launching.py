"""python -m chx launch: the ranks of a process group, as processes on this machine."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from chx._runtime.daemon import PrivateDaemon

# Seconds between looks at the ranks, and what those get that are told to end.
_INTERVAL, _GRACE = 0.05, 10.0


def launch(
    size: int,
    program: list[str],
    devices: str | None,
    memory: str | None,
    daemons: Sequence[str] = (),
    meet_at: str = "",
) -> int:
    """Runs `python -m chx run PROGRAM...` as each rank, and waits for all.

    They use the daemon of $CHX_SERVER, or else one that ends with them. Where a rank fails, the others
    are ended.

    Args:
      size: how many ranks.
      program: the arguments of `python -m chx run`.
      devices: of a daemon that is started; None: one native device.
      memory: what each rank may hold in it; None: its share of 80 % of the machine's.
      daemons: addresses of daemons that there are, which get ranks in turn, in blocks of equal size.
      meet_at: the --peer-address of one of them.

    Returns:
      The exit status: 0, or that of the rank that failed first; 128 + the signal that ended it.
    """
    env = {
        **os.environ,
        "WORLD_SIZE": str(size),
        "CHX_GROUP_NAME": f"launched by {os.getpid()}",
        "CHX_GROUP_SECRET": secrets.token_hex(16),
    }
    daemon = None
    if daemons:
        env["CHX_GROUP_ADDRESS"] = meet_at
    elif not env.get("CHX_SERVER"):
        daemon = PrivateDaemon(devices or "native:0", None, memory or f"{80 / size:.3g}%")
        env["CHX_SERVER"] = daemon.address
    ranks: list[subprocess.Popen[bytes]] = []

    def forward(number: int, _frame: Any) -> None:
        for rank in ranks:
            rank.send_signal(number)

    before = signal.signal(signal.SIGTERM, forward)
    command = [sys.executable, "-m", "chx", "run", *program]
    try:
        for rank in range(size):
            if daemons:
                env["CHX_SERVER"] = daemons[rank * len(daemons) // size]
            ranks.append(subprocess.Popen(command, env={**env, "RANK": str(rank)}))
        return _wait(ranks)
    except KeyboardInterrupt:
        # A terminal has sent it to the ranks, too.
        return 128 + signal.SIGINT
    finally:
        _end(ranks)
        signal.signal(signal.SIGTERM, before)
        if daemon is not None:
            daemon.stop()


def _wait(ranks: list[subprocess.Popen[bytes]]) -> int:
    """Until all have ended, or one has failed."""
    while True:
        statuses = [rank.poll() for rank in ranks]
        for number, status in enumerate(statuses):
            if status:
                print(f"chx launch: rank {number} has failed: {status}", file=sys.stderr)
                return status if status > 0 else 128 - status
        if None not in statuses:
            return 0
        time.sleep(_INTERVAL)


def _end(ranks: list[subprocess.Popen[bytes]]) -> None:
    running = [rank for rank in ranks if rank.poll() is None]
    for rank in running:
        rank.terminate()
    deadline = time.monotonic() + _GRACE
    for rank in running:
        try:
            rank.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            rank.kill()
            rank.wait()
