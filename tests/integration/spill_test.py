"""Arrays that a session has no memory for lie in files, and nobody can tell but by their speed."""

import os
import pathlib
import random
import re
import subprocess

import chx
import numpy as np
import pytest

from .daemon import Daemon, wait_until

MIB = 1 << 20


@pytest.fixture
def folder(tmp_path):
    """On a disk, also where /tmp is memory."""
    kind = subprocess.check_output(["stat", "-f", "-c", "%T", tmp_path], text=True).strip()
    if kind not in {"tmpfs", "ramfs"}:
        yield tmp_path
        return
    path = pathlib.Path(f"/var/tmp/chxd-spill-{os.getpid()}")
    path.mkdir()
    yield path
    path.rmdir()


def files_of(daemon, folder):
    """Files in the folder that the daemon has mapped."""
    maps = pathlib.Path(f"/proc/{daemon.process.pid}/maps").read_text()
    return [line for line in maps.splitlines() if f" {folder}/" in line]


def test_a_session_computes_with_three_times_its_memory(folder):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = np.random.default_rng(seed)
    flags = ["--memory=448MiB", "--session-memory=96MiB", f"--spill-dir={folder}"]
    with Daemon(*flags) as daemon, chx.connect(daemon.address) as session:
        expected = [rng.standard_normal(1 << 20) for _ in range(36)]  # 8 MiB each
        held = [chx.array(each) * 1 for each in expected]
        for _ in range(100):
            i, j = (int(k) for k in rng.integers(0, len(held), 2))
            held[i] = held[i] * 0.5 + held[j]
            expected[i] = expected[i] * 0.5 + expected[j]
        assert daemon.resident_bytes() < 448 * MIB
        assert files_of(daemon, folder)
        for have, want in zip(held, expected, strict=True):
            assert (chx.to_numpy(have) == want).all()
        # A graph over all of them, and its gradients.
        x = chx.array(np.float64(2)).require_grad()
        total = sum(((x * each).sum() for each in held), chx.array(0.0))
        total.backward()
        assert np.isclose(x.grad.item(), sum(each.sum() for each in expected))
        del held, total, x, have
        session.synchronize()
        assert wait_until(lambda: not files_of(daemon, folder))
        assert not os.listdir(folder), "files have no names"


def test_a_step_on_more_than_the_memory(folder):
    """By its commands, for which what waits is moved away. A run has all of a step or nothing."""
    flags = ["--session-memory=96MiB", f"--spill-dir={folder}"]
    with Daemon(*flags) as daemon, chx.connect(daemon.address):
        held = [chx.full((1 << 22,), i, "float32") for i in range(8)]  # 16 MiB each
        count = chx.zeros((), "float32")

        @chx.jit
        def step(x):
            count.__iadd__(1)
            return sum(chx.sum(each * x) for each in held)

        x = chx.ones((1,), "float32")
        for _ in range(3):
            assert step(x).item() == 28 * (1 << 22)
        why = r"a run needs [0-9.]+ MiB at once on native:0, more than the limit of 96 MiB"
        (declined,) = step.cache_info().unplanned
        assert re.fullmatch(why, declined), declined
        assert declined in step.explain()
        with pytest.raises(chx.OutOfMemoryError, match=why):
            chx.runs.start(step, x, batch_size=1, steps=10)
        assert count.item() == 4  # start() makes the first step
        # What fits now is planned and started now.
        del held[4:]
        step.cache_clear()
        step(x)
        assert "runs by a plan" in step.explain()
        run = chx.runs.start(step, x, batch_size=1, steps=10)
        assert run.wait(60).reason == "done" and count.item() == 15


def test_without_room_there_an_error_and_nothing_lost(folder):
    flags = ["--session-memory=64MiB", f"--spill-dir={folder}", "--spill-size=64MiB"]
    with Daemon(*flags) as daemon, chx.connect(daemon.address):
        held = []
        with pytest.raises(chx.OutOfMemoryError):
            for i in range(40):
                held.append(chx.full((1 << 20,), i, "float64"))
                held[-1][0].item()
        del held[-1]
        assert 12 <= len(held) <= 16, "8 MiB each, in memory and in files together"
        for i, array in enumerate(held):
            assert array[-1].item() == i


def test_a_killed_daemon_leaves_no_file(folder):
    with Daemon("--session-memory=32MiB", f"--spill-dir={folder}") as daemon:
        with chx.connect(daemon.address):
            held = [chx.full((1 << 20,), i, "float64") for i in range(12)]
            held[0][0].item()
            assert wait_until(lambda: files_of(daemon, folder))
            daemon.kill()
            held.clear()
        assert not os.listdir(folder)


@pytest.mark.parametrize("path", ["/dev/shm", "/no/such/folder"])
def test_a_folder_that_is_no_good_ends_the_start(path):
    with pytest.raises(RuntimeError, match=r"--spill-dir expects a folder on a disk"):
        Daemon(f"--spill-dir={path}")
