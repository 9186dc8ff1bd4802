"""Daemons whose sessions form process groups with each other."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import tempfile

from .daemon import Daemon


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def daemons(count, *flags, secret="s" * 32):
    """So many daemons, each with its `peer_address`; groups may meet at any of them."""
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (directory / "secret").write_text(secret)
        started = []
        for _ in range(count):
            peer_address = f"127.0.0.1:{free_port()}"
            daemon = Daemon(
                f"--peer-listen={peer_address}",
                "--peers=127.0.0.1:*",
                f"--peer-secret-file={directory / 'secret'}",
                *flags,
            )
            daemon.peer_address = peer_address
            started.append(stack.enter_context(daemon))
        yield started
