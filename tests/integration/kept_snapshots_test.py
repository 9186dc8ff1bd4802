"""The last snapshots of a session stay: one that is damaged costs what is newer than the one before.

CHX_FAULTS_ROUNDS: how often each; more than in CI by hand.
"""

import contextlib
import os
import signal

import chx
import pytest
from chx import admin

from .daemon import Keeper, wait_until
from .runs import NAME
from .whole_runs import fit, found, uninterrupted

pytest_plugins = ["tests.integration.whole_runs"]

ROUNDS = int(os.environ.get("CHX_FAULTS_ROUNDS", 1))


class Keeping(Keeper):
    """Daemons that keep some snapshots of each session."""

    def __init__(self, tmp_path, count, *flags):
        super().__init__(tmp_path, "--lease=1h", f"--state-keep={count}", *flags)

    def older(self):
        """Files of those before the newest, the newest of them first."""
        names = [name for name in os.listdir(self.folder) if name.endswith(".older")]
        return sorted(names, key=lambda name: int(name.split(".")[1]), reverse=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def damage(self, name, rng):
        """Cuts it off, or changes a bit."""
        size = os.path.getsize(self.path(name))
        at = rng.randrange(size)
        if rng.random() < 0.5:
            os.truncate(self.path(name), at)
            return
        with open(self.path(name), "r+b") as file:
            file.seek(at)
            (byte,) = file.read(1)
            file.seek(at)
            file.write(bytes([byte ^ 1 << rng.randrange(8)]))

    def snapshot(self):
        with admin.connect(self.address) as node:
            node.snapshot()


@pytest.fixture
def keeper(request, tmp_path):
    made = Keeping(tmp_path, getattr(request, "param", 2))
    yield made
    made.daemon.kill()


def test_a_cut_off_one_is_passed_over(keeper, rng):
    session = chx.connect(keeper.address, session=NAME)
    w = chx.zeros((1000,))
    session.save("w", w)
    for number in range(4):
        w.fill(number)
        assert float(w.sum()) == 1000 * number
        keeper.snapshot()
        assert (len(keeper.files()), len(keeper.older())) == (1, min(number, 1))
    keeper.daemon.kill()
    newest = keeper.path(keeper.files()[0])
    os.truncate(newest, rng.randrange(os.path.getsize(newest)))
    for _ in range(2):  # the next daemon is of the same mind
        keeper.start()
        session = chx.connect(keeper.address, session=NAME)
        assert session.taken_up
        assert chx.to_numpy(session.load("w")).tolist() == [2.0] * 1000
        keeper.daemon.kill()
    keeper.start()
    chx.connect(keeper.address, session=NAME).discard()
    assert wait_until(lambda: os.listdir(keeper.folder) == ["lock"])


def test_the_log_says_so(keeper):
    with chx.connect(keeper.address, session=NAME) as session:
        session.save("w", chx.ones((3,)))
        keeper.snapshot()
    keeper.terminate()
    (newest,), (older,) = keeper.files(), keeper.older()
    os.truncate(keeper.path(newest), 100)
    keeper.start()
    keeper.terminate()
    log = keeper.daemon.process.stderr.read().decode()
    (line,) = (line for line in log.splitlines() if "snapshot damaged" in line)
    for part in ("error", keeper.path(newest), "it ends early", older):
        assert part in line, line
    assert "session restored" in log
    keeper.start()


@pytest.mark.parametrize("killed", [True, False])
def test_a_client_that_was_told_more_is_told_so(keeper, rng, killed):
    chx.connect(keeper.address, session=NAME)
    w = chx.zeros((1000,))
    assert float(w.sum()) == 0
    keeper.snapshot()
    w += 1
    assert float(w.sum()) == 1000
    if killed:
        keeper.snapshot()
        keeper.daemon.kill()
    else:
        keeper.terminate()
    keeper.damage(keeper.files()[0], rng)
    keeper.start()
    with pytest.raises(ConnectionError, match="restored from a snapshot of .*UTC.*connect again"):
        float(w.sum())


def test_a_client_that_was_told_no_more_goes_on(keeper, rng):
    session = chx.connect(keeper.address)
    w = chx.zeros((1000,))
    w += 1
    assert float(w.sum()) == 1000
    keeper.snapshot()
    keeper.terminate()
    keeper.damage(keeper.files()[0], rng)
    keeper.start()
    w += 1
    assert float(w.sum()) == 2000
    session.close()
    assert wait_until(lambda: not keeper.files() and not keeper.older())


@pytest.mark.parametrize(("keeper", "damaged"), [(2, 1), (4, 3)], indirect=["keeper"])
def test_a_run_goes_on_from_the_one_before(keeper, rng, damaged):
    """To the same results, with the steps made again that only the damaged ones have."""
    seed = rng.randrange(1000)
    want = uninterrupted(seed)
    session = chx.connect(keeper.address, session=NAME)
    run = fit(session, seed, snapshot_every=20)
    for _ in range(ROUNDS):
        for _ in range(damaged + 1):
            keeper.snapshot()
        keeper.daemon.kill()
        names = [keeper.files()[0], *keeper.older()]
        for name in names[:damaged]:
            keeper.damage(name, rng)
        keeper.start()
        session = chx.connect(keeper.address, session=NAME)
        run = chx.runs.attach("fit")
    assert found(session, run) == want
    session.discard()
    assert wait_until(lambda: not keeper.files() and not keeper.older())


# What the daemon is killed at; snapshots kept; unfinished files, and other files, that are then there.
POINTS = {
    "before the former one has its other name": ("before linkat .session", 2, 1, 2),
    "when the former one has its other name": ("after linkat .session", 2, 1, 2),
    "between fsync and rename": ("before renameat .session.tmp", 1, 1, 1),
    "between fsync and rename, of two": ("before renameat .session.tmp", 2, 1, 2),
    "after rename": ("after renameat .session.tmp", 1, 0, 1),
    "after rename, of two": ("after renameat .session.tmp", 2, 0, 3),
    "before the oldest one goes": ("before unlinkat .older", 2, 0, 3),
    "when the oldest one is gone": ("after unlinkat .older", 2, 0, 2),
}


@pytest.mark.parametrize("point", POINTS)
def test_killed_between_two_calls(tmp_path, rng, point, monkeypatch):
    """The new snapshot is there or the former one, nothing is lost, and no unfinished file stays."""
    asked, count, unfinished, whole = POINTS[point]
    order = tmp_path / "order"
    seed = rng.randrange(1000)
    want = uninterrupted(seed)
    monkeypatch.setenv("LD_PRELOAD", os.path.abspath(os.environ["KILL_AT"]))
    monkeypatch.setenv("CHX_KILL_AT", str(order))
    keeper = Keeping(tmp_path, count)

    def unfinished_files():
        return [name for name in os.listdir(keeper.folder) if name.endswith(".tmp")]

    try:
        session = chx.connect(keeper.address, session=NAME)
        run = fit(session, seed, snapshot_every=20)
        for _ in range(ROUNDS):
            for _ in range(count):
                keeper.snapshot()
            (tmp_path / "new").write_text(asked)
            (tmp_path / "new").rename(order)
            with contextlib.suppress(ConnectionError):
                keeper.snapshot()
            assert keeper.daemon.process.wait(60) == -signal.SIGKILL
            order.unlink()
            assert len(unfinished_files()) == unfinished
            names = [*keeper.files(), *keeper.older()]
            assert len({os.stat(keeper.path(name)).st_ino for name in names}) == whole
            assert len(keeper.files()) == 1
            keeper.start()
            # The run goes on: those of its next snapshots come and go.
            assert wait_until(lambda: not unfinished_files())
            session = chx.connect(keeper.address, session=NAME)
            run = chx.runs.attach("fit")
        assert found(session, run) == want
        session.discard()
        assert wait_until(lambda: os.listdir(keeper.folder) == ["lock"])
    finally:
        keeper.daemon.kill()
