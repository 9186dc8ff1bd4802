"""Programs that are repeated 10^9 times beside a session that must not notice, and how they end."""

import contextlib
import statistics
import subprocess
import sys
import textwrap
import time

import chx
import numpy as np
import pytest

from .daemon import Daemon

TIMES = 10**9
HOGS = 6  # more than a small machine has cores, each with a session of its own
ROUNDS = 60

HOG = """
    import chx, sys
    chx.connect(sys.argv[1])
    count = chx.zeros((), "int64")

    @chx.jit
    def step(x):
        count.__iadd__(1)
        return x + 1

    x = chx.ones(3)
    step(x)
    result = step.repeat(10**9, x)
    print("works", flush=True)
    chx.to_numpy(result)
"""


def scalar():
    """A plan of one small operator."""
    return lambda x: x + 1, [chx.ones(3)]


def no_elements():
    """Whose kernels have nothing to do."""
    return lambda x: chx.tanh(x) + 1, [chx.ones((0, 3))]


def in_place():
    """Writes to an array of the session."""
    count = chx.zeros((), "int64")

    def step(x):
        count.__iadd__(1)
        return x

    return step, [chx.ones(3)]


def by_commands():
    """Arguments that share their memory have no plan."""
    x = chx.ones(3)
    return lambda x, y: x * y, [x, x[:]]


def gradients():
    """A step of training."""
    w = chx.ones((3, 3)).require_grad()

    def step(x):
        w.cleargrad()
        loss = chx.mean((x @ w) ** 2)
        loss.backward()
        v = w.as_grad_stopped()
        v -= 1e-3 * w.grad
        return loss

    return step, [chx.ones((2, 3))]


def fused():
    """A pass over several operators, by blocks and threads."""
    return lambda x: chx.sum(chx.tanh(x * 0.5) + x), [chx.ones((600, 1000))]


PROGRAMS = [scalar, no_elements, in_place, by_commands, gradients, fused]


def start(make):
    """Repeats a program in the default session. Gives the result, which is far away."""
    function, arguments = make()
    step = chx.jit(function)
    step(*arguments)
    return step.repeat(TIMES, *arguments)


def check_innocent(session):
    """Its values are right; gives how long each round took."""
    values = np.arange(1000.0)
    seconds = []
    for i in range(ROUNDS):
        began = time.monotonic()
        array = chx.array(values, device=session.devices[0])
        np.testing.assert_array_equal(chx.to_numpy(array + i), values + i)
        seconds.append(time.monotonic() - began)
    assert session.take_errors() == []
    return seconds


@pytest.mark.parametrize("make", PROGRAMS)
def test_others_work_and_it_can_be_cancelled_and_closed(make):
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(Daemon())
        innocent = stack.enter_context(chx.connect(daemon.address))
        check_innocent(innocent)
        hogs, results = [], []
        for _ in range(HOGS):
            hogs.append(stack.enter_context(chx.connect(daemon.address)))
            results.append(start(make))
        assert not daemon.await_idle(1.5)
        seconds = check_innocent(innocent)
        print(f"{make.__name__}: {statistics.median(seconds):.4f} s, at most {max(seconds):.4f} s")
        assert statistics.median(seconds) < 0.1
        assert max(seconds) < 2
        # Cancelled, it fails and its session goes on.
        began = time.monotonic()
        hogs[0].cancel()
        with pytest.raises(chx.CancelledError):
            chx.to_numpy(results[0])
        assert time.monotonic() - began < 5
        hogs[0].take_errors()
        check_innocent(hogs[0])
        # Closed, it ends. The others go on until then.
        assert not daemon.await_idle(1.5)
        for hog in hogs[1:]:
            began = time.monotonic()
            hog.close()
            assert time.monotonic() - began < 5
        assert daemon.await_idle(20)
        check_innocent(innocent)


@pytest.mark.parametrize("make", PROGRAMS)
def test_it_has_a_time_limit(make):
    with Daemon("--max-command-time=300ms") as daemon, chx.connect(daemon.address) as session:
        result = start(make)
        with pytest.raises(TimeoutError, match="max-command-time"):
            chx.to_numpy(result)
        session.take_errors()
        check_innocent(session)


def test_a_killed_clients_program_ends_with_its_lease():
    with Daemon("--lease=1s") as daemon, chx.connect(daemon.address) as session:
        hog = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(HOG), daemon.address], stdout=subprocess.PIPE
        )
        assert hog.stdout.readline() == b"works\n"
        assert not daemon.await_idle(1.5)
        hog.kill()
        hog.wait()
        assert daemon.await_idle(20)
        check_innocent(session)


def test_a_program_of_nothing_takes_no_time():
    with Daemon() as daemon, chx.connect(daemon.address):
        x = chx.ones(3)
        step = chx.jit(lambda x: x)
        step(x)
        began = time.monotonic()
        assert chx.to_numpy(step.repeat(2**40, x)).tolist() == [1, 1, 1]
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("times", [2**40 + 1, 2**62])
def test_more_times_than_any_life_are_refused(times):
    with Daemon() as daemon, chx.connect(daemon.address) as session:
        x = chx.ones(3)
        step = chx.jit(lambda x: x + 1)
        step(x)
        with pytest.raises(ValueError, match="expects 0 to"):
            chx.to_numpy(step.repeat(times, x))
        session.take_errors()
        check_innocent(session)
