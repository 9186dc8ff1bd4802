"""Work that is given up: by cancel(), and by Ctrl-C in a wait."""

import asyncio
import subprocess
import sys
import textwrap
import threading
import time

import chx
import numpy as np
import pytest


@pytest.fixture(scope="module")
def session():
    with chx.connect() as session:
        yield session


@pytest.fixture
def x(session):
    x = chx.full((1000, 1000), 1e-3)
    x.sum().item()
    return x


def work(x):
    """More than any of these tests takes, and less than the daemon takes in at once."""
    y = x
    for _ in range(600):
        y = y @ x
    return y


def assert_goes_on(session, x):
    """The session is as it was, and has nothing else to do."""
    start = time.monotonic()
    np.testing.assert_allclose(chx.to_numpy(x), np.full((1000, 1000), 1e-3, "f"))
    assert round((x @ x).sum().item()) == 1000
    session.synchronize()
    assert time.monotonic() - start < 20


def test_what_was_called_becomes_errors(session, x):
    before = x + 1
    before.sum().item()
    y = work(x)
    after = y + 1
    session.cancel()
    start = time.monotonic()
    for array in (y, after, y.sum()):
        with pytest.raises(chx.CancelledError):
            array.tolist()
    assert time.monotonic() - start < 20
    assert before[0, 0].item() == np.float32(1.001)
    assert_goes_on(session, x)


def test_what_is_called_afterwards_runs(session, x):
    for _ in range(3):
        y = work(x)
        session.cancel()
        assert (x[0, :3] * 2).tolist() == [np.float32(2e-3)] * 3
        with pytest.raises(chx.CancelledError):
            y.sum().item()


def test_uploads_before_and_after_a_cancel_arrive(session, x):
    """As many as go round in the memory that they pass through, which requests give back: the first
    one of these is cancelled before anybody waits for it."""
    values = [np.full(200_000, i, "float32") for i in range(12)]
    chx.to_numpy(chx.array(values[0]))
    y = work(x)
    arrays = [chx.array(values[0])]
    session.cancel()
    arrays += [chx.array(v) for v in values[1:]]
    for array, value in zip(arrays, values, strict=True):
        np.testing.assert_array_equal(chx.to_numpy(array), value)
    with pytest.raises(chx.CancelledError):
        y.tolist()
    assert_goes_on(session, x)


def test_with_nothing_to_cancel(session, x):
    session.take_errors()
    session.cancel()
    chx.cancel()
    assert_goes_on(session, x)
    assert session.take_errors() == []


def test_the_default_session(session, x):
    y = work(x)
    chx.cancel()
    with pytest.raises(chx.CancelledError):
        y.sum().item()


def test_other_sessions_go_on(session, x):
    with chx.connect(session.address) as other:
        mine = chx.ones(3)
        assert mine.tolist() == [1.0] * 3
        y = x @ x
        chx.cancel()  # of this one, which has nothing to do
        assert (mine + 1).tolist() == [2.0] * 3
        assert round(y.sum().item()) == 1000
        much = work(chx.full((1000, 1000), 1e-3))
        session.cancel()
        assert much.device is other.devices[0]
        other.cancel()
        with pytest.raises(chx.CancelledError):
            much.sum().item()
    chx._core._set_default_session(session)


def test_gradients(session, x):
    w = chx.array(chx.to_numpy(x)).require_grad()
    (w * 2).sum().backward()
    assert w.grad[0, 0].item() == 2
    w.cleargrad()
    work(w).sum().backward()
    session.cancel()
    with pytest.raises(chx.GradientError, match="no gradient"):  # backward() has made none
        w.grad.sum().item()
    w.cleargrad()
    (w * 3).sum().backward()
    assert w.grad[0, 0].item() == 3


def test_those_who_wait_are_told(session, x):
    y = work(x)
    seen = []

    def wait(read):
        try:
            seen.append(read())
        except Exception as error:
            seen.append(error)

    reads = [y[0, 0].item, lambda: chx.to_numpy(y), lambda: chx.to_numpy(y, copy=False)]
    threads = [threading.Thread(target=wait, args=(read,)) for read in reads]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    session.cancel()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert len(seen) == 3 and all(isinstance(s, chx.CancelledError) for s in seen), seen
    assert_goes_on(session, x)


def test_awaited_reads_are_told(session, x):
    async def main():
        read = asyncio.create_task(work(x).tolist_async())
        await asyncio.sleep(0.1)
        session.cancel()
        with pytest.raises(chx.CancelledError):
            await read
        assert await x[0, :1].tolist_async() == [np.float32(1e-3)]

    asyncio.run(main())


def test_a_closed_session_has_nothing_to_cancel(session):
    other = chx.connect(session.address)
    chx._core._set_default_session(session)
    other.close()
    with pytest.raises(ConnectionError, match="closed"):
        other.cancel()


INTERRUPTED = """
    import os, signal, sys, threading, time
    import chx

    session = chx.connect(cancel_on_interrupt={keep} is False)
    x = chx.full((1000, 1000), 1e-3)
    before = x.sum()
    before.item()
    y = x
    for _ in range({steps}):
        y = y @ x
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        {read}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    start = time.monotonic()
    print(round(before.item()))
    print(time.monotonic() - start < 20)
    try:
        print(round(y.sum().item()))
    except chx.CancelledError:
        print("cancelled")
    print(round((x @ x).sum().item()))
"""


def run(**values):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED.format(**values))],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    "read",
    [
        "y.sum().item()",
        "chx.to_numpy(y)",
        "chx.to_numpy(y, copy=False)",
        "session.synchronize()",
        "session.devices[0].synchronize()",
        "repr(y)",
    ],
)
def test_control_c_cancels(read):
    expected = ["interrupted", "1000", "True", "cancelled", "1000"]
    assert run(read=read, keep=False, steps=600) == expected


def test_control_c_may_leave_the_work_alone():
    result = run(read="y.sum().item()", keep=True, steps=100)
    assert result == ["interrupted", "1000", "True", "1000", "1000"]


BLOCKED = """
    import os, signal, threading, time
    import chx
    import numpy as np
    from chx.chainerx import _core

    session = chx.connect()
    x = chx.full((2000, 2000), 5e-4)
    before = x.sum()
    before.item()

    def work(count):
        y = x
        for _ in range(count):
            y = y @ x

    class Triple:
        def apply(self, x):
            y = chx.array(3 * chx.to_numpy(x))
            _core._function_node_forward(self, [x], [y], [], [])
            return y

        def _backward_chainerx(self, targets, grads, inputs, outputs):
            return [grads[0] * 3]

    def interrupt():
        # As soon as the client sends nothing any more: it waits.
        before = None
        while before != (before := session.stats()["commands"]):
            time.sleep(0.5)
        global start
        start = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    w = chx.ones((3,)).require_grad()
    {prepare}
    threading.Thread(target=interrupt).start()
    try:
        {wait}
    except KeyboardInterrupt:
        print("interrupted")
    print(time.monotonic() - start < 10)
    print(round(before.item()), w.sum().item(), round((x @ x).sum().item()))
    try:
        print(w.grad)  # there or not, but told
    except chx.CancelledError:
        pass
    (w * w).sum().backward()
    print(chx.array([1.0, 2.0]).tolist())
"""

# What waits, after what: each would wait for minutes.
WAITS = {
    "a full stream": ("", "work(100_000)"),
    "random numbers behind a full stream": (
        "",
        "[(x @ x, chx.random.normal(size=3)) for _ in range(100_000)]",
    ),
    "a question about a graph": (
        "(w * w).sum().backward(enable_double_backprop=True); work(600)",
        "w.grad.is_backprop_required()",
    ),
    "backward through a function": (
        "y = Triple().apply(w).sum(); work(600)",
        "y.backward()",
    ),
    "small uploads": ("a = np.ones(200_000, 'f'); work(600)", "[chx.array(a) for _ in range(12)]"),
    "a large upload": ("a = np.ones(5_000_000, 'f'); work(600)", "chx.array(a)"),
}


@pytest.mark.parametrize("what", WAITS)
def test_control_c_ends_every_wait(what):
    prepare, wait = WAITS[what]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BLOCKED).format(prepare=prepare, wait=wait)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == ["interrupted", "True", "2000 3.0 2000"]
    assert lines[-1] == "[1.0, 2.0]"
