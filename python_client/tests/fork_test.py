"""Processes that fork after they have connected, over each kind of connection."""

import gc
import multiprocessing
import os
import sys
import threading
import time

import chx
import numpy as np
import pytest

sys.path.insert(0, os.getcwd())  # the runfiles
from tests.integration.daemon import Daemon

LISTENS = {"unix": None, "tcp": "127.0.0.1:0"}


@pytest.fixture(params=LISTENS)
def address(request):
    with Daemon(listen=LISTENS[request.param]) as daemon:
        yield daemon.address


def in_child(work, seconds=20):
    """Runs work() in a forked child; None, or what it raised there."""
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            os.write(writable, repr(error).encode())
        os._exit(1)
    os.close(writable)
    end = time.monotonic() + seconds
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            return "it hung"
        time.sleep(0.005)
    with os.fdopen(readable, "rb") as file:
        return file.read().decode() or None


def test_a_child_connects_anew_and_the_parent_goes_on(address):
    with chx.connect(address):
        a = chx.arange(5)

        def work():
            with chx.connect(address):
                assert float(chx.ones((3,)).sum()) == 3
                big = np.arange(1 << 18)
                np.testing.assert_array_equal(chx.to_numpy(chx.array(big)), big)

        for _ in range(3):
            assert in_child(work) is None
            a += 1
        assert a.tolist() == [3, 4, 5, 6, 7]


def test_what_is_the_parents_raises_at_once_in_the_child(address):
    with chx.connect(address) as session:
        a = chx.ones((3,))
        big = chx.ones((1 << 18,))
        a.sum().item()
        uses = [
            lambda: a.sum(),
            lambda: a[0].item(),
            lambda: chx.to_numpy(big),
            lambda: chx.array(np.ones(1 << 18), device=session.devices[0]),
            lambda: session.synchronize(),
            lambda: session.flush(),
        ]

        def work():
            for use in uses:
                start = time.monotonic()
                with pytest.raises(ConnectionError, match="fork"):
                    use()
                assert time.monotonic() - start < 2
            for use in (session.stats, session.take_errors, lambda: session.settings):
                with pytest.raises(ConnectionError, match="fork"):
                    use()
            session.close()

        assert in_child(work) is None
        assert float(a.sum()) == 3 and float(big.sum()) == 1 << 18


def test_forks_while_threads_compute(address):
    with chx.connect(address):
        stop = threading.Event()
        failures = []

        def compute():
            x = chx.zeros((), "int64")
            count = 0
            while not stop.is_set():
                x += 1
                count += 1
                if count % 50 == 0 and int(x) != count:
                    failures.append((int(x), count))

        threads = [threading.Thread(target=compute) for _ in range(3)]
        for thread in threads:
            thread.start()

        def work():
            with chx.connect(address):
                assert float(chx.ones((3,)).sum()) == 3

        try:
            for _ in range(8):
                assert in_child(work) is None
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert not failures


def square(arguments):
    address, i = arguments
    with chx.connect(address):
        return float((chx.full((10,), i) * i).sum())


def test_a_pool_after_connecting(address):
    with chx.connect(address):
        a = chx.ones((3,))
        float(a.sum())
        with multiprocessing.get_context("fork").Pool(4) as pool:
            want = [10.0 * i * i for i in range(16)]
            assert pool.map(square, [(address, i) for i in range(16)]) == want
        assert float(a.sum()) == 3


def test_a_closed_session_leaves_no_descriptor_and_no_thread(address):
    def cycle():
        with chx.connect(address):
            chx.to_numpy(chx.array(np.ones(100_000)))  # its connection for bulk data, too

    def count():
        gc.collect()  # of tests before this one
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    cycle()
    descriptors, threads = count()
    for _ in range(200):
        cycle()
    assert count()[0] <= descriptors and count()[1] <= threads


def test_a_child_begins_as_a_new_process():
    """Whatever the parent's defaults are: also without connecting, and where it has closed one."""
    with chx.connect():
        x = chx.ones(3)
        assert x.tolist() == [1.0] * 3
        chx.set_default_device(x.device)

        def work():
            y = chx.zeros(2)  # with a private daemon of the child's
            assert y.tolist() == [0.0] * 2 and y.device is not x.device
            assert chx.get_default_device() is y.device
            assert chx.get_default_context() is y.device.context
            with pytest.raises(ConnectionError, match="fork"):
                x.tolist()
            chx._core._get_default_session().close()
            with pytest.raises(ConnectionError, match="closed"):
                chx.zeros(2)

        assert in_child(work) is None
        assert x.tolist() == [1.0] * 3
    assert in_child(lambda: chx.zeros(2).tolist()) is None
    with pytest.raises(ConnectionError, match="closed"):
        chx.zeros(2)
