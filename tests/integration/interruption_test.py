"""Signals while a call waits for the daemon: Ctrl-C must not have to wait."""

import signal
import subprocess
import sys
import textwrap
import threading
import time

import chx
import numpy as np
import pytest

from .daemon import Daemon


class Alarm(Exception):
    pass


@pytest.fixture(scope="module")
def session():
    with Daemon("--threads=1") as daemon, chx.connect(daemon.address) as session:
        yield session


@pytest.fixture
def alarm():
    def ring(number, frame):
        raise Alarm

    former = signal.signal(signal.SIGALRM, ring)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 0.3)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, former)


def work():
    """Some seconds of it, enqueued."""
    a = chx.full((1500, 1500), 1 / 1500)
    for _ in range(40):
        a = chx.dot(a, a)
    return a


WAITS = {
    "item": lambda session, a: a[0, 0].item(),
    "synchronize": lambda session, a: session.synchronize(),
    "to_numpy": lambda session, a: chx.to_numpy(a),
    "view": lambda session, a: chx.to_numpy(a, copy=False),
    "in another thread's wait": lambda session, a: session.synchronize(),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_signal_ends_a_wait_and_the_session_goes_on(session, alarm, name):
    chx.to_numpy(chx.ones((300, 300)))  # its stage is there
    a = work()
    other = threading.Thread(target=lambda: a[1, 1].item())
    if name.startswith("in another"):
        other.start()
        time.sleep(0.1)
    start = time.monotonic()
    alarm()
    with pytest.raises(Alarm):
        WAITS[name](session, a)
    interrupted = time.monotonic() - start
    np.testing.assert_allclose(chx.to_numpy(a), np.full((1500, 1500), 1 / 1500), rtol=1e-4)
    # The daemon had most of its work still before it.
    assert interrupted < (time.monotonic() - start) / 2
    if other.ident is not None:
        other.join()
    for _ in range(3):
        values = np.random.default_rng(7).normal(size=(300, 300))
        np.testing.assert_array_equal(chx.to_numpy(chx.array(values)), values)
    assert session.take_errors() == []


def test_a_handler_that_raises_nothing_is_run_in_time(session):
    rung = []
    former = signal.signal(signal.SIGALRM, lambda *_: rung.append(time.monotonic()))
    try:
        a = work()
        start = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        assert abs(a[0, 0].item() * 1500 - 1) < 1e-4
        assert len(rung) == 1 and rung[0] - start < (time.monotonic() - start) / 2
    finally:
        signal.signal(signal.SIGALRM, former)


def test_a_handler_may_use_the_session(session):
    """It waits within the wait, for what comes later."""
    seen = []
    former = signal.signal(signal.SIGALRM, lambda *_: seen.append(chx.to_numpy(chx.ones(99999))))
    try:
        for wait in (WAITS["item"], WAITS["to_numpy"], WAITS["view"]):
            a = work()
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            wait(session, a)
        assert len(seen) == 3 and all((values == 1).all() for values in seen)
    finally:
        signal.signal(signal.SIGALRM, former)


def test_control_c_is_a_keyboard_interrupt():
    code = """
        import chx, sys
        from tests.integration.interruption_test import work
        chx.connect(sys.argv[1])
        a = work()
        print("waits", flush=True)
        try:
            a[0, 0].item()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    with Daemon() as daemon:
        client = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), daemon.address], stdout=subprocess.PIPE
        )
        assert client.stdout.readline() == b"waits\n"
        time.sleep(0.2)
        client.send_signal(signal.SIGINT)
        assert client.stdout.readline() == b"interrupted\n"
        client.wait(30)


def test_a_signal_ends_a_transfer_and_the_session_goes_on(alarm):
    with Daemon(listen="127.0.0.1:0") as daemon, chx.connect(daemon.address):
        values = np.random.default_rng(7).normal(size=1_000_000)
        a = chx.array(values)
        for transfer in (lambda: chx.array(values), lambda: chx.to_numpy(a)):
            daemon.process.send_signal(signal.SIGSTOP)
            alarm()
            with pytest.raises(Alarm):
                transfer()
            daemon.process.send_signal(signal.SIGCONT)
            np.testing.assert_array_equal(chx.to_numpy(a), values)
