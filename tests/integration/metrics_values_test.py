"""Metrics that move with what sessions do: memory, spilled arrays, caches, turns, repeated windows."""

import os
import threading

import chx
import pytest

from .daemon import wait_until
from .observed import Observed

MIB = 1 << 20
SHOWN = ("--metrics-listen=127.0.0.1:0", "--metrics-open")
LOCAL = ("local", "default")


def array_memory(samples, state):
    return samples.get(("chxd_array_memory_bytes", "local", "native:0", state, "default"), 0)


@pytest.fixture
def folder(tmp_path):
    yield tmp_path
    assert list(tmp_path.iterdir()) == []


def test_memory_and_what_is_spilled(folder):
    flags = ["--memory=448MiB", "--session-memory=96MiB", f"--spill-dir={folder}"]
    with Observed(*SHOWN, *flags) as daemon:
        rest, _ = daemon.metrics()
        assert rest[("chxd_memory_limit_bytes",)] == 448 * MIB
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        assert 64 * MIB < rest[("chxd_device_memory_bytes", "native:0")] <= total
        assert array_memory(rest, "spilled") == 0
        with chx.connect(daemon.address) as session:
            first = chx.ones((32 * MIB,), "uint8")
            session.synchronize()
            one, _ = daemon.metrics()
            grown = one[("chxd_memory_used_bytes",)] - rest[("chxd_memory_used_bytes",)]
            assert 32 * MIB <= grown < 64 * MIB
            more = [chx.full((32 * MIB,), n, "uint8") for n in range(4)]
            session.synchronize()
            assert session.take_errors() == []
            full, _ = daemon.metrics()
            spilled, live = array_memory(full, "spilled"), array_memory(full, "live")
            # All five arrays are there, and no more of them in memory than the session may have.
            assert spilled >= (5 * 32 - 96) * MIB
            assert live + spilled >= 5 * 32 * MIB and live <= 96 * MIB
            assert full[("chxd_memory_used_bytes",)] <= 448 * MIB
            assert int(first[0]) == 1 and [int(each[-1]) for each in more] == [0, 1, 2, 3]
            del first, more
            session.synchronize()
            freed, _ = daemon.metrics()
            assert array_memory(freed, "spilled") == 0
        used = ("chxd_memory_used_bytes",)
        assert wait_until(lambda: daemon.metrics()[0][used] <= rest[used] + MIB)


def test_trims_are_counted():
    """A session at its limit gives back what it keeps for arrays of other sizes."""
    with Observed(*SHOWN, "--session-memory=64MiB") as daemon:
        key = ("chxd_trims_total", "local", "native:0", "default")
        with chx.connect(daemon.address) as session:
            before = daemon.metrics()[0].get(key, 0)
            for n in (40, 24, 48, 32):
                a = chx.ones((n * MIB,), "uint8")
                session.synchronize()
                del a
                session.synchronize()
            assert session.take_errors() == []
            assert daemon.metrics()[0][key] > before


def test_waits_for_turns():
    """More sessions than cores compute: at any time some wait."""
    with Observed(*SHOWN, "--threads=1") as daemon:
        rest, _ = daemon.metrics()
        seconds = ("chxd_turn_wait_seconds_total", *LOCAL)
        assert rest[("chxd_turn_waiting",)] == 0
        stop = threading.Event()

        def work():
            with chx.connect(daemon.address) as session:
                x = chx.ones((700, 700), device=session.devices[0])
                while not stop.is_set():
                    for _ in range(4):
                        x = (x @ x) * (1 / 700)
                    session.synchronize()

        threads = [threading.Thread(target=work) for _ in range(2 * (os.cpu_count() or 1) + 3)]
        for thread in threads:
            thread.start()
        most = 0

        def is_seen():
            nonlocal most
            now, _ = daemon.metrics()
            most = max(most, now[("chxd_turn_waiting",)])
            return most > 0 and now.get(seconds, 0) > rest.get(seconds, 0) + 0.05

        seen = wait_until(is_seen, 60)
        stop.set()
        for thread in threads:
            thread.join()
        assert seen, (most, daemon.metrics()[0].get(seconds))
        assert most <= len(threads)
        assert wait_until(lambda: daemon.metrics()[0][("chxd_turn_waiting",)] == 0)


@pytest.mark.parametrize("recognize", [True, False])
def test_repeated_windows_are_counted(recognize):
    flag = f"--recognize-windows={'true' if recognize else 'false'}"
    with Observed(*SHOWN, flag) as daemon, chx.connect(daemon.address):
        key = ("chxd_repeated_windows_total", *LOCAL)
        before = daemon.metrics()[0].get(key, 0)
        w = chx.zeros((16, 4), "float32")
        x, y = chx.ones((32, 16), "float32"), chx.ones((32, 4), "float32")
        for _ in range(200):  # steps of linear regression, which read their loss
            error = x @ w - y
            loss = (error * error).sum()
            w -= (x.T @ error) * 0.001
            float(loss)
        windows = daemon.metrics()[0].get(key, 0) - before
        # All but the first, from which it learns.
        assert 150 < windows <= 200 if recognize else windows == 0
