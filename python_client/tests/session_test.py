"""Sessions, daemons, devices, threads, forks, errors."""

import contextlib
import inspect
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import chx
import numpy as np
import pytest


def run(program, **kwargs):
    """Runs a program in a Python of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **kwargs,
    )


def wait_until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def session():
    """A session with a daemon of its own."""
    previous = chx._core._get_default_session()
    session = chx.connect()
    yield session
    with contextlib.suppress(ConnectionError):  # some tests kill the daemon
        session.close()
    chx._core._set_default_session(previous)


def test_first_use_connects():
    done = run("import chx; print(chx.ones(3).tolist())")
    assert done.stdout == "[1.0, 1.0, 1.0]\n", done.stderr


def test_environment_names_the_server(session):
    done = run(
        "import chx; s = chx.connect(); print(s.address, chx.zeros(1).tolist())",
        env={**os.environ, "CHX_SERVER": session.address, "CHX_CHXD": "/nonexistent"},
    )
    assert done.stdout == f"{session.address} [0.0]\n", done.stderr


def test_nobody_at_the_address(tmp_path):
    with pytest.raises(ConnectionError, match="nobody.sock"):
        chx.connect(f"unix:{tmp_path}/nobody.sock")


def test_no_daemon_to_start():
    done = run(
        "import chx; chx.connect()",
        env={**os.environ, "CHX_CHXD": "/nonexistent", "PATH": "/usr/bin"},
    )
    assert done.returncode == 1 and "CHX_CHXD" in done.stderr.splitlines()[-1]


def test_context_manager_closes(is_running):
    with chx.connect() as session:
        daemon = session._daemon.process.pid
        directory = session._daemon.directory
        a = chx.ones(3)
        assert a.tolist() == [1.0] * 3
    assert not is_running(daemon) and not os.path.exists(directory)
    with pytest.raises(ConnectionError):
        a.tolist()
    assert a.shape == (3,)
    session.close()  # again
    for use in (lambda: chx.zeros(2), lambda: chx.random.seed(0), chx.get_default_device):
        with pytest.raises(ConnectionError, match=r"call chx.connect\(\) again"):
            use()
    with chx.connect():
        assert chx.zeros(2).tolist() == [0.0, 0.0]


def test_two_sessions(session):
    a = chx.ones(2)
    other = chx.connect(session.address)
    b = chx.zeros(2)
    with pytest.raises(chx.ContextError):
        a + b
    assert b.device is other.devices[0] and a.device is session.devices[0]
    c = chx.zeros(2, device=a.device)
    assert (a + c).tolist() == [1.0, 1.0]
    other.close()
    assert a.tolist() == [1.0, 1.0]


def test_default_device_of_a_closed_session():
    first = chx.connect()
    chx.set_default_device(first.devices[0])
    first.close()
    with pytest.raises(ConnectionError, match="closed"):
        chx.zeros(2)
    with chx.connect():
        assert chx.zeros(2).tolist() == [0.0, 0.0]


def test_private_daemon_ends_with_a_normal_exit(is_running):
    done = run("import chx; chx.zeros(1); print(chx.connect()._daemon.process.pid)")
    wait_until(lambda: not is_running(int(done.stdout)))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
def test_private_daemon_ends_with_a_killed_process(sig, is_running):
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import chx, os, time\ns = chx.connect()\n"
            "if os.fork() == 0: time.sleep(600)\n"  # holds none of it open
            "print(s._daemon.process.pid, flush=True); time.sleep(600)",
        ],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        daemon = int(process.stdout.readline())
        assert is_running(daemon)
        process.send_signal(sig)
        process.wait()
        wait_until(lambda: not is_running(daemon))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def test_daemon_killed(session):
    a = chx.ones(3)
    a.tolist()
    session._daemon.process.kill()
    with pytest.raises(ConnectionError, match="lost the session|closed"):
        a.tolist()
    assert a.shape == (3,)


def test_metadata_is_answered_while_the_daemon_sleeps(session):
    x = chx.array(np.arange(6.0).reshape(2, 3)).require_grad()
    w = chx.array(np.full((3, 3), 0.1)).require_grad()
    chx.to_numpy(x)
    daemon = session._daemon.process.pid
    os.kill(daemon, signal.SIGSTOP)
    try:
        start = time.monotonic()
        y = x
        for i in range(50):
            y = chx.tanh(y @ w)
            assert (y.shape, y.dtype, y.strides) == ((2, 3), np.float64, (24, 8))
            assert y.is_backprop_required() and y.device is x.device
            if i % 10 == 0:
                line = inspect.currentframe().f_lineno + 2
                with pytest.raises(chx.DimensionError) as error:
                    y @ chx.zeros((4, 4), "float64")
                assert error.traceback[0].lineno + 1 == line
        loss = y.sum()
        loss.backward()
        assert w.grad is w.grad and w.grad.shape == (3, 3)
        assert x.grad is not None and x.grad.dtype == np.float64
        assert not loss.is_grad_required() and loss.ndim == 0
        with pytest.raises(IndexError):
            y[2]
        assert time.monotonic() - start < 5
    finally:
        os.kill(daemon, signal.SIGCONT)
    values = np.arange(6.0).reshape(2, 3)
    for _ in range(50):
        values = np.tanh(values @ np.full((3, 3), 0.1))
    np.testing.assert_allclose(chx.to_numpy(y), values)
    assert np.isfinite(chx.to_numpy(w.grad)).all()


def test_the_interpreter_runs_while_one_thread_waits(session, paused):
    a = chx.zeros(3)
    a.tolist()
    with paused(session):
        result = []
        waiter = threading.Thread(target=lambda: result.append(a.tolist()))
        waiter.start()
        start = time.monotonic()
        while time.monotonic() - start < 0.3:  # the waiter must not hold the GIL
            assert a.shape == (3,)
        assert (a + 1).dtype == np.float32
        assert not result and waiter.is_alive()
    waiter.join(10)
    assert result == [[0.0] * 3]


def test_a_late_error_names_the_line(session):
    a = chx.arange(3)
    line = inspect.currentframe().f_lineno + 1
    bad = chx.take(a, chx.array([1, 7]), 0)
    inherits = bad + 1
    good = a + 1
    for array in (inherits, bad, inherits):
        with pytest.raises(IndexError) as error:
            chx.to_numpy(array)
        text = str(error.value)
        assert "take" in text and "7" in text and f"session_test.py:{line}" in text
    assert good.tolist() == [1, 2, 3]
    assert any("take" in text for text in session.take_errors())


def test_lines_of_operators_functions_and_methods(session):
    a, far = chx.arange(3), chx.array([9])
    calls = [
        lambda: a.take(far, 0),
        lambda: chx.take(a=a, indices=far, axis=0),
        lambda: -chx.take(a, far, 0),
    ]
    for call in calls:
        line = call.__code__.co_firstlineno
        with pytest.raises(IndexError, match=f"session_test.py:{line}"):
            call().item()


def test_too_much_memory(session):
    with chx.connect(memory="256MiB") as small:
        device = small.devices[0]
        big = [chx.zeros(1 << 24, device=device) for _ in range(5)]  # 320 MiB
        with pytest.raises(chx.OutOfMemoryError) as error:
            for array in big:
                array[0].item()
        assert "session_test.py" in str(error.value)
        del big, array
        assert chx.ones(2, device=device).tolist() == [1.0, 1.0]
    chx._core._set_default_session(session)


def test_devices(session):
    device = chx.get_device("native:0")
    assert device is session.devices[0] is chx.get_device("native") is chx.get_device("native", 0)
    assert device is chx.get_device(device) is chx.get_device() is chx.get_default_device()
    assert (device.name, device.index, repr(device), str(device)) == ("native:0", 0) + (
        "native:0",
    ) * 2
    assert device.backend is device.backend is chx.get_backend("native")
    assert device.backend.name == repr(device.backend) == "native"
    assert device.backend.get_device(0) is device and device.backend.get_device_count() == 1
    with pytest.raises(IndexError):
        device.backend.get_device(1)
    with pytest.raises(chx.BackendError):
        chx.get_backend("no_such_backend")
    assert chx.zeros(2).device is device and chx.zeros(2, device="native:0").device is device
    assert device.synchronize() is None
    with pytest.raises(chx.BackendError):
        chx.get_device("no_such_backend:0")
    with pytest.raises(IndexError):
        chx.get_device("native:99")
    with pytest.raises(TypeError):
        chx.get_device(3.5)
    with pytest.raises(TypeError):
        type(device)()


def test_default_devices(session):
    """Those of two sessions serve as two devices."""
    (first,) = session.devices
    other = chx.connect(session.address)
    (second,) = other.devices
    chx._core._set_default_session(session)
    assert first is not second and first.backend is not second.backend
    with chx.using_device(second) as scope:
        assert scope.device is second and chx.zeros(1).device is second
        with chx.using_device(first):
            assert chx.zeros(1).device is first
        assert chx.array(3).device is second and chx.random.normal().device is second
        seen = []
        thread = threading.Thread(target=lambda: seen.append(chx.get_default_device()))
        thread.start()
        thread.join()
        assert seen == [first]
    with scope:  # again
        assert chx.get_default_device() is second
    assert chx.get_default_device() is first
    chx.set_default_device(second)
    assert chx.get_default_device() is second
    chx.set_default_device(None)
    assert chx.get_default_device() is first
    other.close()


def test_to_device(session):
    a = chx.array([1.0, 2.0]).require_grad()
    b = a.to_device(a.device)
    assert b is not a and b.device is a.device
    (b * 2).backward()
    assert a.grad.tolist() == [2.0, 2.0]
    other = chx.connect(session.address)
    assert a.to_device("native:0").device is a.device  # of the array's own session
    with pytest.raises(chx.ContextError):
        a.to_device(other.devices[0])
    other.close()
    with pytest.raises(chx.BackendError):
        a.to_device("no_such_backend")


def test_threads_work_on_shared_arrays(session):
    w = chx.array(np.full((4, 4), 0.5)).require_grad()
    failures = []

    def work(seed):
        try:
            x = np.random.default_rng(seed).normal(size=(3, 4))
            a = chx.array(x)
            for _ in range(100):
                y = chx.tanh(a @ w)
                (g,) = chx.grad([y], [w])
                t = np.tanh(x @ np.full((4, 4), 0.5))
                np.testing.assert_allclose(chx.to_numpy(y), t)
                np.testing.assert_allclose(chx.to_numpy(g), x.T @ (1 - t * t))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_backward_from_threads_adds_up(session):
    w = chx.zeros(3).require_grad()

    def work():
        for _ in range(200):
            (w * 1).backward()
            w.grad  # noqa: B018

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert w.grad.tolist() == [800.0] * 3


def test_modes_are_a_threads_own(session):
    seen = []
    with chx.no_backprop_mode():
        thread = threading.Thread(target=lambda: seen.append(chx.is_backprop_required()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_fork():
    done = run(
        """
        import os, sys
        import chx
        s = chx.connect()
        a = chx.ones(3)
        a.tolist()
        pid = os.getpid()
        child = os.fork()
        if child == 0:
            shape = a.shape
            for use in [lambda: a + 1, lambda: a.tolist(), lambda: chx.zeros(2, device=a.device),
                        lambda: chx.random.normal(device=a.device), lambda: a.device.synchronize(),
                        lambda: chx.array(a, device=a.device, copy=True), s.synchronize, s.stats,
                        s.flush, s.take_errors, lambda: s.settings]:
                try:
                    use()
                except ConnectionError as error:
                    assert f"opened in process {pid}" in str(error), error
                else:
                    print("used", flush=True)
            del a
            print("child", shape, flush=True)
            sys.exit(7)  # runs the exit handlers
        _, status = os.waitpid(child, 0)
        print("parent", os.waitstatus_to_exitcode(status), (a + 1).tolist())
        """
    )
    assert done.stdout == "child (3,)\nparent 7 [2.0, 2.0, 2.0]\n", done.stdout + done.stderr


def test_connecting_after_a_fork():
    """A child of a process that has a session either connects or says why it does not."""
    done = run(
        """
        import os
        import chx
        a = chx.ones(3)
        a.tolist()
        child = os.fork()
        if child == 0:
            try:
                with chx.connect():
                    print(chx.zeros(2).tolist(), flush=True)
            except ConnectionError as error:
                print("refused:", error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print("parent", a.tolist())
        """
    )
    child, parent = done.stdout.splitlines()
    assert child == "[0.0, 0.0]" or child.startswith("refused:"), done.stdout + done.stderr
    assert parent == "parent [1.0, 1.0, 1.0]", done.stdout + done.stderr


def test_subprocess_inherits_nothing(session):
    listing = subprocess.run(
        ["ls", "-l", "/proc/self/fd"], capture_output=True, text=True, check=True, close_fds=False
    ).stdout
    lifeline = os.readlink(f"/proc/self/fd/{session._daemon.lifeline}")
    assert lifeline.startswith("pipe:") and lifeline not in listing
