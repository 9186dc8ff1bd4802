"""Memory that client and daemon map, when processes die, go over TCP, or are not who they should be."""

import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import time

import chx
import numpy as np
import pytest

from .daemon import Daemon, wait_until
from .proxy import Proxy


@pytest.fixture(scope="module")
def daemon():
    with Daemon("--lease=1s", "--session-memory=256MiB") as daemon:
        yield daemon


def descriptors(daemon):
    count = 0
    for fd in os.listdir(f"/proc/{daemon.process.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            count += "memfd:chxd" in os.readlink(f"/proc/{daemon.process.pid}/fd/{fd}")
    return count


def shares(array):
    return type(chx.to_numpy(array, copy=False).base).__name__ == "SharedMemory"


def test_over_tcp_there_are_read_only_copies(daemon):
    with Daemon(listen="127.0.0.1:0") as remote, chx.connect(remote.address):
        values = np.arange(1 << 18, dtype="float32")
        a = chx.array(values)
        v = chx.to_numpy(a, copy=False)
        assert not v.flags.writeable
        np.testing.assert_array_equal(v, values)
        with pytest.raises(ValueError, match="read-only"):
            v[0] = 1
        assert memoryview(a).readonly and memoryview(a).nbytes == v.nbytes
        b = chx.asarray(v)
        b += 1
        np.testing.assert_array_equal(chx.to_numpy(a), values)
        assert descriptors(remote) == 0
        assert not os.path.exists(remote.socket + ".shm")


def test_without_the_second_socket_there_are_read_only_copies(daemon):
    with Proxy(daemon.socket) as proxy, chx.connect(proxy.address):
        values = np.arange(1 << 18, dtype="float32")
        a = chx.array(values)
        v = chx.to_numpy(a, copy=False)
        assert not v.flags.writeable
        np.testing.assert_array_equal(v, values)


def test_a_cut_stream_leaves_the_memory(daemon):
    with Proxy(daemon.socket) as proxy:
        os.symlink(daemon.socket + ".shm", proxy.path + ".shm")
        with chx.connect(proxy.address):
            a = chx.zeros((1000,))
            v = chx.to_numpy(a, copy=False)
            assert v.flags.writeable
            proxy.cut()
            a += 1
            assert (v == 1).all()
            v += 1
            assert (chx.to_numpy(a) == 2).all()


def test_the_socket_is_the_users_alone(daemon):
    mode = os.stat(daemon.socket + ".shm")
    assert stat.S_ISSOCK(mode.st_mode) and stat.S_IMODE(mode.st_mode) == 0o600


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_another_user_gets_nothing_even_if_the_mode_allows_it():
    with Daemon() as daemon:
        os.chmod(daemon.directory, 0o755)
        os.chmod(daemon.socket + ".shm", 0o666)
        for uid, answered in ((65534, False), (0, True)):
            pid = os.fork()
            if pid == 0:
                code = 2
                with contextlib.suppress(BaseException):
                    if uid:
                        code = 3  # there are no others in a user namespace of one
                        os.setgid(uid)
                        os.setuid(uid)
                        code = 2
                    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
                        connection.settimeout(5)
                        connection.connect(daemon.socket + ".shm")
                        code = 0
                        with contextlib.suppress(OSError):
                            connection.send((0x31786863).to_bytes(4, "little") + bytes(20))
                            code = 1 if connection.recv(64) else 0
                os._exit(code)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if code == 3:
                pytest.skip("this sandbox has one user only")
            assert code == answered


def test_the_socket_goes_with_the_daemon():
    with Daemon() as daemon:
        assert os.path.exists(daemon.socket + ".shm")
        daemon.process.send_signal(signal.SIGTERM)
        daemon.process.wait(timeout=20)
        assert not os.path.exists(daemon.socket + ".shm")


def test_a_client_killed_in_mid_copy_takes_nobody_along():
    code = """
        import chx, numpy as np, sys
        chx.connect(sys.argv[1])
        values = np.ones(8 << 20, "float32")
        a = chx.zeros((1000,))
        v = chx.to_numpy(a, copy=False)
        while True:
            b = chx.array(values)
            chx.to_numpy(b + 1)
            v += 1
            a += 1
            sys.stdout.write("x")
            sys.stdout.flush()
    """
    with (
        Daemon("--lease=1s", "--session-memory=256MiB") as daemon,
        chx.connect(daemon.address) as session,
    ):
        a = chx.zeros((1000,))
        v = chx.to_numpy(a, copy=False)
        for i in range(6):
            client = subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(code), daemon.address],
                stdout=subprocess.PIPE,
            )
            client.stdout.read(1 + i)
            time.sleep(0.003 * i)
            client.kill()
            client.wait()
            a += 1
            assert (v == i + 1).all()
        session.synchronize()
        # One segment: this session's. (The daemon may still hold a copy that it has just sent.)
        assert wait_until(lambda: descriptors(daemon) == 1, 30), descriptors(daemon)
        assert shares(chx.ones((3,)))
        assert daemon.alive()


def test_a_daemon_killed_leaves_the_views():
    with Daemon() as daemon:
        session = chx.connect(daemon.address)
        v = chx.to_numpy(chx.full((100000,), 3.0), copy=False)
        daemon.kill()
        assert (v == 3).all()
        v[...] = 4
        assert (v == 4).all()
        with contextlib.suppress(Exception):
            session.close()


def test_sessions_see_nothing_of_each_other(daemon):
    size = 1 << 22
    for _ in range(3):
        with chx.connect(daemon.address):
            v = chx.to_numpy(chx.full((size,), 77, "uint8"), copy=False)
            chx.to_numpy(chx.array(np.full(size, 77, "uint8")))
            assert (v == 77).all()
        with chx.connect(daemon.address):
            for bytes_ in (100, size):
                fresh = chx.empty((bytes_,), "uint8")
                assert 77 not in chx.to_numpy(fresh, copy=False)


def test_the_quota_counts_shared_memory(daemon):
    """256 MiB: what is moved into shared memory is not counted away."""
    with chx.connect(daemon.address):
        kept = []
        views = []
        with pytest.raises(MemoryError):
            for _ in range(40):
                kept.append(chx.full((2 << 20,), 1.0, "float64"))  # 16 MiB
                views.append(chx.to_numpy(kept[-1], copy=False))
                chx.to_numpy(kept[-1][:1])
        assert 6 <= len(kept) <= 17
        assert all((v == 1).all() for v in views)
        del kept, views
    with chx.connect(daemon.address):
        assert shares(chx.full((8 << 20,), 1.0))


def test_freed_memory_is_given_back_though_it_is_mapped(daemon):
    """A client cannot keep memory beyond its quota by holding on to what it has freed."""
    with chx.connect(daemon.address) as session:
        session.synchronize()
        for _ in range(12):
            big = chx.array(np.ones(12 << 20, "float32"))  # 48 MiB
            assert shares(big)
            del big
            whole = chx.full((20 << 20,), 1.0, "float64")  # 160 MiB, private: 48 must go
            chx.to_numpy(whole[:1])
            del whole
        with open("/proc/self/smaps_rollup") as file:
            shmem = [int(line.split()[1]) for line in file if line.startswith("Pss_Shmem:")][0]
        assert shmem < 200 << 10


def test_descriptors_are_bounded(daemon):
    with chx.connect(daemon.address):
        values = np.zeros(65 << 10, "float32")
        kept = [chx.array(values) for _ in range(700)]
        chx.to_numpy(kept[-1])
        assert descriptors(daemon) <= 512 + 8
        assert shares(kept[0]) and shares(kept[-1])
        for array in kept[::50]:
            assert not chx.to_numpy(array).any()
    assert wait_until(lambda: descriptors(daemon) < 100)
    assert daemon.alive()
