"""A daemon that has ended is told from one that is away: its clients do not wait for the lease."""

import contextlib
import os
import threading
import time

import chx
import chx.admin
import numpy as np
import pytest

from .daemon import Daemon, wait_until
from .proxy import Proxy
from .tls_proxy import Authority

TOKEN = "0123456789abcdef0123"
# The lease is 30 s, and an hour here; no test is to be that slow on any machine.
LEASE = "--lease=1h"
SOON = 60


@pytest.fixture(params=["unix", "tcp", "tls"])
def connected(request, tmp_path):
    """(daemon, keyword arguments for connect)."""
    (tmp_path / "token").write_text(TOKEN)
    flags, options = [LEASE, f"--token-file={tmp_path}/token"], {"token": TOKEN}
    if request.param == "tls":
        authority = Authority()
        cert, key = authority.issue("IP:127.0.0.1")
        flags += [f"--tls-cert={cert}", f"--tls-key={key}"]
        options["tls_roots"] = authority.roots
    with Daemon(*flags, listen=None if request.param == "unix" else "127.0.0.1:0") as daemon:
        yield daemon, options


def test_calls_fail_soon(connected):
    daemon, options = connected
    session = chx.connect(daemon.address, **options)
    x = chx.ones((100_000,))
    assert float(x[0]) == 1
    daemon.kill()
    start = time.monotonic()
    for call in [lambda: float(x[1]), lambda: chx.to_numpy(x), lambda: chx.array(np.ones(300_000))]:
        with pytest.raises(ConnectionError, match="the daemon has ended"):
            call()
    session.close()
    assert time.monotonic() - start < SOON


def test_transfers_fail_soon(connected):
    """The first call after the end is one that needs a connection of its own."""
    daemon, options = connected
    chx.connect(daemon.address, **options)
    daemon.kill()
    start = time.monotonic()
    with pytest.raises(ConnectionError, match="the daemon has ended"):
        float(chx.array(np.ones(3_000_000))[0])
    assert time.monotonic() - start < SOON


def test_a_daemon_that_was_started_again_has_no_such_session(tmp_path):
    with Daemon(LEASE) as first:
        chx.connect(first.address)
        x = chx.ones(())
        assert float(x) == 1
        first.kill()
        with (
            Daemon(LEASE, listen=first.address),
            pytest.raises(ConnectionError, match="has no such session.*started again"),
        ):
            float(x + 1)


def test_a_private_daemon_that_is_killed():
    session = chx.connect()
    x = chx.ones(())
    session._daemon.process.kill()
    start = time.monotonic()
    with pytest.raises(ConnectionError, match="the daemon has ended"):
        float(x + 1)
    session.close()
    assert time.monotonic() - start < SOON


def test_who_waits_for_a_proxy_says_so():
    """It is away for longer than a daemon is given, and nothing is lost."""
    with (
        Daemon() as daemon,
        Proxy(daemon.socket) as proxy,
        chx.connect(proxy.address, reconnect=60),
    ):
        x = chx.ones(())
        assert float(x) == 1
        moved = proxy.path + ".away"
        os.rename(proxy.path, moved)
        proxy.cut()
        back = threading.Timer(1.5, os.rename, (moved, proxy.path))
        back.start()
        assert float(x + 1) == 2
        back.join()


def test_an_upload_tells_that_its_session_has_ended():
    """A transfer, on a connection of its own, may hear of it before the stream is cut."""
    values = np.ones(30_000)
    with Daemon(listen="127.0.0.1:0") as daemon, chx.admin.connect(daemon.address) as admin:
        for _ in range(20):
            session = chx.connect(daemon.address)
            chx.to_numpy(chx.ones(3))
            [number] = [each.number for each in admin.sessions()]
            killer = threading.Timer(0.02, admin.kill, (number,))
            killer.start()
            end = time.monotonic() + 30
            with pytest.raises(ConnectionError, match="lost the session .*killed by"):
                while time.monotonic() < end:
                    with contextlib.suppress(chx.CancelledError):  # one that was under way
                        chx.array(values)
            killer.join()
            session.close()
            assert wait_until(lambda: not admin.sessions())
