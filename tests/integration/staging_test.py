"""Values on their way through memory that both sides map, when much goes on or goes wrong."""

import gc
import os
import random
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
from .proxy import Proxy

SEED = int.from_bytes(os.urandom(4), "little")
KB = 1 << 10
MB = 1 << 20
# Around what is inline, a piece, a stage's half, all pieces under way, and large results.
SIZES = [65 * KB, MB - 1, MB, MB + 1, 2 * MB, 2 * MB + 1, 3 * MB + 7, 8 * MB, 9 * MB + 13, 33 * MB]


@pytest.fixture(scope="module")
def daemon():
    print("seed", SEED)
    with Daemon("--session-memory=512MiB") as daemon:
        yield daemon


def some_bytes(rng, size):
    return rng.integers(0, 256, size, np.uint8)


@pytest.mark.parametrize("size", SIZES)
def test_values_come_and_go(daemon, size):
    rng = np.random.default_rng(SEED)
    with chx.connect(daemon.address):
        for _ in range(3):
            values = some_bytes(rng, size)
            a = chx.array(values)
            np.testing.assert_array_equal(chx.to_numpy(a), values)  # as it came
            np.testing.assert_array_equal(chx.to_numpy(a + 1), values + np.uint8(1))  # private


@pytest.mark.parametrize("size", [100 * KB, 5 * MB])
def test_other_orders_and_dtypes(daemon, size):
    rng = np.random.default_rng(SEED)
    with chx.connect(daemon.address):
        for dtype in ("bool", "int64", "float16", "float32", "float64"):
            values = rng.standard_normal((7, size // 7 // np.dtype(dtype).itemsize)) * 50
            values = values.astype(dtype)
            a = chx.array(values)
            np.testing.assert_array_equal(chx.to_numpy(a.T), values.T)
            np.testing.assert_array_equal(chx.to_numpy(a[::2, ::-3]), values[::2, ::-3])
            np.testing.assert_array_equal(chx.to_numpy(a[3:]), values[3:])
            np.testing.assert_array_equal(chx.to_numpy(chx.array(values.T)), values.T)


def test_what_was_uploaded_is_what_it_was_at_the_call(daemon):
    """Many at once: no place is filled again before the daemon has copied what was there."""
    rng = random.Random(SEED)
    with chx.connect(daemon.address):
        values = np.empty(2 * MB, np.uint8)
        for _ in range(5):
            arrays = []
            for i in range(60):
                size = rng.randrange(66 * KB, 2 * MB)
                values[:size] = i
                arrays.append((size, chx.array(values[:size])))
            values[...] = 255
            for i, (size, array) in enumerate(arrays):
                assert array.shape == (size,)
                assert int(chx.amin(array)) == int(chx.amax(array)) == i


def test_threads(daemon):
    failures = []

    def work(number):
        rng = np.random.default_rng([SEED, number])
        try:
            for _ in range(15):
                values = some_bytes(rng, int(rng.integers(66 * KB, 6 * MB)))
                a = chx.array(values, device=session.devices[0])
                np.testing.assert_array_equal(chx.to_numpy(a + 1), values + np.uint8(1))
        except BaseException as error:
            failures.append(error)

    with chx.connect(daemon.address) as session:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures, failures


def test_across_a_cut_stream(daemon):
    rng = np.random.default_rng(SEED)
    with Proxy(daemon.socket) as proxy:
        os.symlink(daemon.socket + ".shm", proxy.path + ".shm")
        with chx.connect(proxy.address):
            values = some_bytes(rng, 20 * MB)
            kept = [
                (values[:MB] + np.uint8(i), chx.array(values[:MB] + np.uint8(i))) for i in (0, 1)
            ]
            a = chx.array(values) + 1
            for delay in (0.0005, 0.002, 0.004, 0.008):
                timer = threading.Timer(delay, proxy.cut)
                timer.start()
                np.testing.assert_array_equal(chx.to_numpy(a), values + np.uint8(1))
                kept.append((values[:MB], chx.array(values[:MB])))
                timer.join()
                proxy.cut()
            for expected, array in kept:
                np.testing.assert_array_equal(chx.to_numpy(array), expected)


def test_errors_come_with_the_value(daemon):
    with chx.connect(daemon.address):
        for count in (30_000, 3_000_000):
            x = chx.zeros((count,))
            bad = chx.zeros((10**9,))[:count] + x
            for _ in range(2):
                with pytest.raises(MemoryError, match="limit"):
                    chx.to_numpy(bad)
            x += 1
            np.testing.assert_array_equal(chx.to_numpy(x), np.ones(count))


def test_a_small_quota_has_small_stages_or_none():
    values = np.random.default_rng(SEED).standard_normal(400_000)  # 3.2 MB
    for memory, stages in (("8MiB", 0), ("20MiB", 2 * 20 * MB // 32)):
        with Daemon(f"--session-memory={memory}") as daemon, chx.connect(daemon.address) as session:
            for _ in range(4):
                np.testing.assert_array_equal(
                    chx.to_numpy(chx.array(values[:50_000]) * 2), values[:50_000] * 2
                )
            # Without stages, 400 KB are written to an array of their own, and read from one.
            assert shared_bytes(daemon) <= stages + 1 * MB
            np.testing.assert_array_equal(chx.to_numpy(chx.array(values)), values)
            with pytest.raises(MemoryError):
                chx.to_numpy(chx.zeros((6_000_000,)))
            session.synchronize()
            np.testing.assert_array_equal(chx.to_numpy(chx.array(values[:50_000])), values[:50_000])


def shared_bytes(daemon):
    """Of the files in memory that the daemon maps."""
    total = 0
    with open(f"/proc/{daemon.process.pid}/maps") as file:
        for line in file:
            if "memfd:chxd" in line:
                begin, end = line.split()[0].split("-")
                total += int(end, 16) - int(begin, 16)
    return total


def all_returned(daemon):
    for _ in range(500):
        if shared_bytes(daemon) == 0:
            return True
        time.sleep(0.02)
    return False


def test_nothing_is_left_of_a_session():
    with Daemon("--lease=1s") as daemon:
        code = f"""
            import chx, numpy as np, sys
            chx.connect({daemon.address!r})
            values = np.arange(3 << 18, dtype="float32")
            while True:
                chx.to_numpy(chx.array(values) + 1)
                chx.to_numpy(chx.array(values[:1 << 18]) + 1)
                sys.stdout.write("x")
                sys.stdout.flush()
        """
        client = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE
        )
        client.stdout.read(5)
        assert shared_bytes(daemon) >= 12 * MB
        client.kill()
        client.wait()
        assert all_returned(daemon)
        session = chx.connect(daemon.address)
        a = chx.array(np.ones(MB, np.uint8))
        chx.to_numpy(a + 1)
        assert shared_bytes(daemon) > 0 and own_stages() > 0
        session.close()
        assert all_returned(daemon) and own_stages() == 0
        del a


def own_stages():
    with open("/proc/self/maps") as file:
        return sum("memfd:chxd" in line for line in file)


def test_a_forked_child_has_no_stage(daemon):
    with chx.connect(daemon.address):
        values = np.arange(MB, dtype="float32")
        a = chx.array(values[: MB // 4])
        chx.to_numpy(a + 1)
        gc.collect()
        assert own_stages() == 2
        pid = os.fork()
        if pid == 0:
            os._exit(own_stages())
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        np.testing.assert_array_equal(chx.to_numpy(a + 1), values[: MB // 4] + 1)


def stopped(daemon):
    """Each of its threads: with many others on the machine the signal takes a while."""
    tasks = f"/proc/{daemon.process.pid}/task"
    for task in os.listdir(tasks):
        with open(f"{tasks}/{task}/stat") as file:
            if file.read().rsplit(")", 1)[1].split()[0] != "T":
                return False
    return True


def test_a_daemon_that_stops_answering_ends_the_fetch():
    with Daemon() as daemon:
        session = chx.connect(daemon.address)
        a = chx.array(np.ones(20 * MB, np.uint8)) + 1
        chx.to_numpy(a)
        daemon.process.send_signal(signal.SIGSTOP)
        while not stopped(daemon):
            time.sleep(0.01)
        threading.Timer(0.2, daemon.process.kill).start()
        with pytest.raises(ConnectionError):
            chx.to_numpy(a)
        with pytest.raises(ConnectionError):
            chx.array(np.ones(20 * MB, np.uint8))
        session.close()


def test_large_results_are_apart(daemon):
    """Memory of results is used again, but not while anybody has it."""
    with chx.connect(daemon.address):
        a = chx.zeros((9 * MB,))  # 36 MiB
        results = [chx.to_numpy(a + i) for i in range(4)]
        part = results[1][5:10]
        del results[1]
        addresses = {r.ctypes.data for r in results} | {part.ctypes.data - 20}
        for i in range(4, 8):
            r = chx.to_numpy(a + i)
            assert r.flags.writeable and r.ctypes.data not in addresses
            r += 1
            assert (r == i + 1).all()
        assert (part == 1).all()
        assert len(results) == 3
        for i, r in zip((0, 2, 3), results):
            assert (r == i).all()
        first = results.pop().ctypes.data
        again = [chx.to_numpy(a) for _ in range(2)]
        assert first in {r.ctypes.data for r in again} | addresses


def test_large_results_are_private_after_a_fork(daemon):
    with chx.connect(daemon.address):
        r = chx.to_numpy(chx.full((9 * MB,), 3.0))
        pid = os.fork()
        if pid == 0:
            r[...] = 4
            os._exit(0)
        os.waitpid(pid, 0)
        assert (r == 3).all()
