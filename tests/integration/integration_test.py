"""Real processes: order, errors, leases, limits, several clients, clients and daemons that die."""

import contextlib
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

from .daemon import Daemon, wait_until


def run_client(code, address, **kwargs):
    """A client in a process of its own; returns the Popen."""
    code = f"import chx, sys, time\nimport numpy as np\nsession = chx.connect({address!r})\n" + (
        textwrap.dedent(code)
    )
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, **kwargs)


@pytest.fixture(scope="module")
def daemon():
    with Daemon("--lease=1s", "--session-memory=256MiB") as daemon:
        yield daemon


def test_commands_take_effect_in_order(daemon):
    with chx.connect(daemon.address):
        a = chx.zeros((4,))
        for i in range(2000):
            a += i
            a *= 0.5
        want = 0.0
        for i in range(2000):
            want = np.float32((np.float32(want) + np.float32(i)) * np.float32(0.5))
        assert a.tolist() == [want] * 4


def test_late_errors_name_their_root_cause_and_line(daemon):
    with chx.connect(daemon.address) as session:
        x = chx.zeros((3, 4)).require_grad()
        loss = chx.softmax_cross_entropy(x, chx.array([0, 9, 1]))  # the failing line
        line = sys._getframe().f_lineno - 1
        total = chx.sum(chx.exp(loss))
        with pytest.raises(IndexError) as error:
            float(total)
        assert "[softmax_cross_entropy]" in str(error.value)
        assert "float32(3, 4), int64(3,)" in str(error.value)
        assert f"integration_test.py:{line}" in str(error.value)
        assert len(session.take_errors()) == 1
        assert float(chx.sum(chx.ones((3,)))) == 3


def test_a_session_has_its_memory_and_no_more(daemon):
    with chx.connect(daemon.address):
        held = [chx.ones((1 << 20,), "float64") for _ in range(40)]  # 320 MiB
        with pytest.raises(chx.OutOfMemoryError, match="limit"):
            chx.to_numpy(held[-1])
        assert float(held[0][0]) == 1
        del held
        assert float(chx.sum(chx.ones((1 << 20,)))) == 1 << 20
    assert daemon.resident_bytes() < 600 << 20


def test_two_clients_at_once_do_not_see_each_other(daemon):
    first, second = chx.connect(daemon.address), chx.connect(daemon.address)
    results = {}

    def work(session, value):
        device = session.devices[0]
        a = chx.full((1000,), value, "float32", device)
        for _ in range(300):
            a = a * 1.0 + 0.0
        results[value] = chx.to_numpy(a)

    threads = [threading.Thread(target=work, args=args) for args in ((first, 1.0), (second, 2.0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (results[1.0] == 1).all()
    assert (results[2.0] == 2).all()
    a = chx.zeros((2,), device=first.devices[0])
    b = chx.zeros((2,), device=second.devices[0])
    with pytest.raises(chx.ContextError, match="one session"):
        a + b
    first.close()
    second.close()


def test_reused_memory_shows_nothing_of_another_session(daemon):
    secret = run_client(
        "x = [chx.full((100000,), 1234.5) for _ in range(20)]\nsession.synchronize()\nsession.close()",
        daemon.address,
    )
    assert secret.wait(30) == 0
    with chx.connect(daemon.address):
        for size in (10, 1000, 100000, 1000000):
            assert not (chx.to_numpy(chx.empty((size,))) == 1234.5).any()


@pytest.mark.parametrize("how", ["kill -9 in mid-batch", "exit without close"])
def test_memory_of_a_dead_client_is_freed_within_a_second_of_its_lease(daemon, how):
    before = daemon.resident_bytes()
    client = run_client(
        """
        held = [chx.ones((1 << 20,), "float64") for _ in range(16)]
        session.synchronize()
        print("ready", flush=True)
        while True:
            held[0] = held[0] + held[1]
        """,
        daemon.address,
    )
    assert client.stdout.readline() == b"ready\n"
    assert daemon.resident_bytes() > before + (100 << 20)
    client.send_signal(signal.SIGKILL if how.startswith("kill") else signal.SIGTERM)
    client.wait()
    assert wait_until(lambda: daemon.resident_bytes() < before + (64 << 20), 1 + 1 + 0.5)
    assert daemon.alive()


def test_a_killed_daemon_is_a_clear_error():
    with Daemon() as daemon:
        session = chx.connect(daemon.address)
        a = chx.ones((3,))
        assert float(a.sum()) == 3
        daemon.kill()
        start = time.monotonic()
        with pytest.raises(ConnectionError, match="lost the session with chxd"):
            for _ in range(100000):
                float((a + a).sum())
        assert time.monotonic() - start < 15
        with pytest.raises(ConnectionError):
            float(a.sum())
        session.close()


def test_nobody_at_the_address_is_a_clear_error():
    with pytest.raises(ConnectionError, match="cannot reach chxd at unix:/nonexistent"):
        chx.connect("unix:/nonexistent/chxd.sock")


def test_a_stopped_daemon_does_not_stop_the_building_of_graphs():
    """Shape, dtype, device, gradients' presence and errors are answered without the network."""
    with Daemon() as daemon:
        session = chx.connect(daemon.address)
        w = chx.ones((4, 4)).require_grad()
        device = w.device
        session.synchronize()
        daemon.process.send_signal(signal.SIGSTOP)
        x = w
        raised = 0
        for i in range(100):
            x = chx.tanh(x @ w) if i % 2 else x * 0.5
            if i % 10 == 0:
                with pytest.raises(chx.DimensionError, match="matmul"):
                    x @ chx.ones((3, 2))
                raised += 1
        loss = x.sum()
        assert raised == 10
        assert x.shape == (4, 4) and x.dtype == chx.float32 and x.strides == (16, 4)
        assert x.device is device and loss.is_backprop_required()
        assert w.grad is None
        loss.backward()
        grad = w.grad
        assert grad is not None and grad is w.grad and grad.shape == (4, 4)
        daemon.process.send_signal(signal.SIGCONT)
        reference = np.ones((4, 4), np.float32)
        y = reference
        for i in range(100):
            y = np.tanh(y @ reference) if i % 2 else y * np.float32(0.5)
        np.testing.assert_allclose(float(loss), y.sum(), rtol=1e-5)
        assert np.isfinite(chx.to_numpy(grad)).all()
        session.close()


def test_sigterm_drains():
    with Daemon("--drain-timeout=20s") as daemon:
        session = chx.connect(daemon.address)
        a = chx.ones((3,))
        session.synchronize()
        daemon.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert daemon.alive()
        assert float(a.sum()) == 3  # open streams go on
        assert session.draining
        with pytest.raises(ConnectionError, match="shutting down"):
            chx.connect(daemon.address)
        session.close()
        assert daemon.process.wait(5) == 0


def test_a_daemon_ends_though_a_kernel_does_not():
    """LAPACK cannot be interrupted, and takes a minute for this one."""
    with Daemon("--drain-timeout=0s") as daemon:
        session = chx.connect(daemon.address)
        x = chx.random.normal(0, 1, (4500, 4500))
        float(x[0, 0])

        def decompose():
            with pytest.raises(ConnectionError):
                chx.linalg.svd(x)

        thread = threading.Thread(target=decompose)
        thread.start()
        time.sleep(1)
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(20) in (0, 1)  # 1: the kernel did not stop in time
        thread.join()
        with contextlib.suppress(ConnectionError):
            session.close()


def test_the_socket_is_its_owners_alone(daemon):
    assert os.stat(daemon.socket).st_mode & 0o777 == 0o600


def test_a_tcp_listener_off_loopback_is_refused():
    with pytest.raises(RuntimeError, match="needs --tls-cert, --tls-key and --token-file"):
        Daemon(listen="0.0.0.0:0")


def test_tcp_on_loopback_with_a_token(tmp_path):
    token = tmp_path / "token"
    token.write_text("0123456789abcdef0123\n")
    with Daemon(f"--token-file={token}", listen="127.0.0.1:0") as daemon:
        with pytest.raises(chx.ChainerxError, match="valid token"):
            chx.connect(daemon.address)
        with pytest.raises(PermissionError, match="valid token") as refused:
            chx.connect(daemon.address, token="0123456789abcdef0124")
        assert type(refused.value) is chx.AuthenticationError
        with chx.connect(daemon.address, token="0123456789abcdef0123"):
            assert float(chx.ones(())) == 1


def test_a_cut_connection_resumes_exactly(tmp_path):
    """A proxy between client and daemon is cut again and again; nothing is lost or done twice."""
    from .proxy import Proxy

    with Daemon() as daemon, Proxy(daemon.socket) as proxy:
        session = chx.connect(proxy.address)
        a = chx.zeros((2,), "float64")
        for i in range(30):
            for _ in range(50):
                a += 1
            if i % 3 == 0:
                proxy.cut()
            if i % 5 == 0:
                assert float(a[0]) == 50 * (i + 1)
        assert a.tolist() == [1500, 1500]
        session.close()


def test_descriptors_that_are_closed_under_a_client(daemon):
    """As by a program that closes all that it does not know; the numbers are used again at once."""
    before = set(os.listdir("/proc/self/fd"))
    with chx.connect(daemon.address):
        stop = threading.Event()

        def close():
            while not stop.wait(0.03):
                for fd in set(os.listdir("/proc/self/fd")) - before:
                    with contextlib.suppress(OSError):
                        if os.readlink(f"/proc/self/fd/{fd}").startswith("socket:"):
                            os.close(int(fd))

        thread = threading.Thread(target=close)
        thread.start()
        try:
            a = chx.zeros((2,), "int64")
            end = time.monotonic() + 3  # three leases
            count = 0
            while time.monotonic() < end:
                for _ in range(20):
                    a += 1
                count += 20
                assert a.tolist() == [count, count]
        finally:
            stop.set()
            thread.join()


def test_a_forked_child_fails_loudly_and_harms_nothing(daemon):
    code = """
    import os
    a = chx.ones((3,))
    float(a.sum())
    pid = os.fork()
    if pid == 0:
        try:
            float(a.sum())
        except ConnectionError as error:
            assert "fork" in str(error), error
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert float(a.sum()) == 3
    session.close()
    print("fine", flush=True)
    """
    client = run_client(code, daemon.address)
    assert client.wait(30) == 0
    assert client.stdout.read() == b"fine\n"


def test_a_private_daemon_ends_with_its_process():
    code = (
        "import chx, os, signal\nsession = chx.connect()\nassert float(chx.ones(())) == 1\n"
        "print(session._daemon.process.pid, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    env = {k: v for k, v in os.environ.items() if k != "CHX_SERVER"}
    env["CHX_CHXD"] = os.path.abspath(env["CHX_CHXD"])
    client = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env)
    pid = int(client.stdout)

    def gone():
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().split()[2] == "Z"
        except FileNotFoundError:
            return True

    assert wait_until(gone, 5)


def test_values_larger_than_a_message_travel_both_ways(daemon):
    with chx.connect(daemon.address):
        values = np.random.default_rng(1).standard_normal((1000, 2003)).astype("float32")
        a = chx.array(values)
        np.testing.assert_array_equal(chx.to_numpy(a), values)
        np.testing.assert_array_equal(chx.to_numpy(a.T[::2]), values.T[::2])
