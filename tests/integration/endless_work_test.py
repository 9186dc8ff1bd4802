"""Work that does not end, of a client that is gone or goes on, beside one that must not notice."""

import signal
import subprocess
import sys
import textwrap
import time

import chx
import numpy as np
import pytest

from .daemon import Daemon

HOG = """
    import chx, sys
    chx.connect(sys.argv[1])
    kept = chx.ones((64 << 20,), "float32")
    total = chx.sum(chx.broadcast_to(chx.ones((), "uint8"), (1 << 50,)))
    print("works", flush=True)
    total.item()
"""


def endless_sum(log):
    """Of 2^log elements that take no memory."""
    return chx.sum(chx.broadcast_to(chx.ones((), "uint8"), (1 << log,)))


def start_hog(daemon):
    """A client whose work the daemon has begun: the sum, which comes after the array."""
    at_rest = daemon.resident_bytes()
    hog = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOG), daemon.address], stdout=subprocess.PIPE
    )
    assert hog.stdout.readline() == b"works\n"
    end = time.monotonic() + 30
    while daemon.resident_bytes() < at_rest + (250 << 20):
        assert time.monotonic() < end
        time.sleep(0.05)
    return hog


def check_innocent(session):
    values = np.arange(1000.0)
    np.testing.assert_array_equal(chx.to_numpy(chx.array(values) + 1), values + 1)
    assert session.take_errors() == []


def test_a_killed_clients_work_ends_with_its_lease():
    with Daemon("--lease=1s") as daemon, chx.connect(daemon.address) as session:
        check_innocent(session)
        at_rest = daemon.resident_bytes()
        hog = start_hog(daemon)
        check_innocent(session)
        assert not daemon.await_idle(1.5)
        hog.kill()
        hog.wait()
        assert daemon.await_idle(20)
        assert daemon.resident_bytes() < at_rest + (100 << 20)
        check_innocent(session)


def test_a_stopped_client_keeps_its_work():
    """A client that is alive but silent has not hung up."""
    with Daemon("--lease=1s") as daemon:
        hog = start_hog(daemon)
        hog.send_signal(signal.SIGSTOP)
        assert not daemon.await_idle(4)
        hog.kill()
        hog.wait()
        assert daemon.await_idle(20)


def test_a_command_has_a_time_limit():
    with (
        Daemon("--max-command-time=300ms") as daemon,
        chx.connect(daemon.address) as session,
    ):
        total = endless_sum(50)
        with pytest.raises(TimeoutError, match="max-command-time"):
            total.item()
        session.take_errors()
        check_innocent(session)


def test_more_work_than_any_time_is_refused():
    with Daemon() as daemon, chx.connect(daemon.address) as session:
        total = endless_sum(60)
        with pytest.raises(ValueError, match="expects at most"):
            total.item()
        image = chx.broadcast_to(chx.zeros(1, "float32"), (1, 1, 1 << 28))
        for pool in (chx.max_pool, chx.average_pool):
            with pytest.raises(ValueError, match="expects at most"):
                pool(image, (1 << 27,), (1,)).sum().item()
        session.take_errors()
        check_innocent(session)


def test_hanging_up_the_terminal_does_not_end_the_daemon():
    with Daemon() as daemon, chx.connect(daemon.address) as session:
        daemon.process.send_signal(signal.SIGHUP)
        daemon.process.send_signal(signal.SIGPIPE)
        time.sleep(0.2)
        check_innocent(session)
        assert daemon.alive()
