"""A daemon that runs out of file descriptors: it refuses with a reason, and goes on."""

import contextlib
import resource
import socket
import time

import chx
import numpy as np
import pytest

from . import raw_frames
from .daemon import Daemon


def limited(soft, hard):
    """A daemon that may have so many descriptors."""
    return Daemon(
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
    )


def works(address):
    with chx.connect(address):
        np.testing.assert_array_equal(chx.to_numpy(chx.arange(5) + 1), np.arange(5) + 1)


def test_the_soft_limit_is_raised():
    with limited(64, 1000) as daemon, open(f"/proc/{daemon.process.pid}/limits") as file:
        [line] = [each for each in file if each.startswith("Max open files")]
        assert line.split()[3:5] == ["1000", "1000"]


@pytest.mark.parametrize("descriptors", [90, 256])
def test_silent_connections_do_not_close_the_door(descriptors):
    with limited(descriptors, descriptors) as daemon:
        silent = [raw_frames.connect(daemon.address) for _ in range(400)]
        start = time.monotonic()
        works(daemon.address)
        assert time.monotonic() - start < 10
        for each in silent:
            each.close()
        works(daemon.address)


def test_sessions_are_refused_with_a_reason_before_there_are_too_many():
    with limited(256, 256) as daemon:
        before = chx.connect(daemon.address)
        a = chx.arange(3)
        held = []
        with pytest.raises(ConnectionError, match="uid .* has .* connections"):
            for _ in range(256):
                held.append(raw_frames.open_session(daemon.address))
        assert len(held) > 50
        assert chx.to_numpy(a + 1).tolist() == [1, 2, 3]  # those there are go on
        for each in held:
            each.close()
        end = time.monotonic() + 10
        while True:
            with contextlib.suppress(ConnectionError):
                works(daemon.address)
                break
            assert time.monotonic() < end
        before.close()


def test_connecting_and_closing_leaves_nothing():
    with limited(256, 256) as daemon:
        for _ in range(1500):
            raw_frames.connect(daemon.address).close()
        works(daemon.address)


def test_silent_connections_for_segments_leave_shared_memory_working():
    with limited(200, 200) as daemon:
        silent = []
        for _ in range(300):
            each = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            each.connect(daemon.socket + ".shm")
            silent.append(each)
        with chx.connect(daemon.address):
            a = chx.zeros((100_000,))
            chx.to_numpy(a, copy=False)[:] = 1
            assert float(chx.sum(a)) == 100_000


def test_a_front_without_descriptors_lets_others_in(tmp_path):
    (tmp_path / "token").write_text("0123456789abcdef0123")
    with Daemon(
        f"--token-file={tmp_path}/token",
        listen="127.0.0.1:0",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200)),
    ) as daemon:
        silent = [raw_frames.connect(daemon.address) for _ in range(400)]
        with chx.connect(daemon.address, token="0123456789abcdef0123"):
            assert float(chx.ones(())) == 1
        for each in silent:
            each.close()
