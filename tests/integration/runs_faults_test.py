"""Runs whose daemon is killed while it writes, or cannot write: what they give is as if not.

CHX_FAULTS_ROUNDS: how often; more than in CI by hand.
"""

import os
import resource

import chx
import pytest

from .daemon import wait_until
from .runs import NAME
from .whole_runs import fit, found, uninterrupted

pytest_plugins = ["tests.integration.whole_runs"]

ROUNDS = int(os.environ.get("CHX_FAULTS_ROUNDS", 2))


def unfinished(keeper):
    """The file that is being written, if there is one."""
    return [name for name in os.listdir(keeper.folder) if not name.endswith(".session")]


def attached(keeper):
    session = chx.connect(keeper.address, session=NAME)
    return session, chx.runs.attach("fit")


def test_killed_while_it_writes(keeper, rng):
    """As soon as a file is seen that is not whole; some such moments pass before one is seen."""
    seed = rng.randrange(1000)
    want = uninterrupted(seed)
    session = chx.connect(keeper.address, session=NAME)
    run = fit(session, seed, snapshot_every=20)
    assert wait_until(keeper.files)
    before = set(unfinished(keeper))
    for _ in range(ROUNDS):
        wait_until(
            lambda run=run, old=before: set(unfinished(keeper)) - old or run.state == "ended"
        )
        keeper.daemon.kill()
        keeper.start()
        before = set(unfinished(keeper))
        session, run = attached(keeper)
    assert found(session, run) == want
    session.discard()


def test_no_room_for_snapshots(keeper, rng):
    """The run goes on; the last snapshot that was whole is that of the next daemon."""
    seed = rng.randrange(1000)
    want = uninterrupted(seed)
    session = chx.connect(keeper.address, session=NAME)
    run = fit(session, seed, snapshot_every=20)
    assert wait_until(keeper.files)
    for _ in range(ROUNDS):
        process = keeper.daemon.process.pid
        _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
        resource.prlimit(process, resource.RLIMIT_FSIZE, (rng.choice((0, 1000, 5000)), hard))
        step = run.step
        wait_until(lambda run=run, to=step + 100: run.step >= to or run.state == "ended")
        assert keeper.files()
        keeper.daemon.kill()
        keeper.start()
        session, run = attached(keeper)
    assert found(session, run) == want
    session.discard()


def test_a_snapshot_that_is_cut_off(keeper, rng):
    """Its client is told so, and the file is kept; other sessions are as ever."""
    seed = rng.randrange(1000)
    session = chx.connect(keeper.address, session=NAME)
    run = fit(session, seed, snapshot_every=20)
    assert wait_until(keeper.files)
    keeper.daemon.kill()
    (name,) = keeper.files()
    path = os.path.join(keeper.folder, name)
    os.truncate(path, rng.randrange(1, os.path.getsize(path)))
    keeper.start()
    with pytest.raises((chx.ChainerxError, ConnectionError)):
        run.wait(60)
    with pytest.raises(chx.ChainerxError, match="the snapshot is damaged: .* it is kept there"):
        chx.connect(keeper.address, session=NAME)
    assert keeper.files() == [name]
    with chx.connect(keeper.address, session="another") as other:
        want = found(other, fit(other, seed))
        other.discard()
    assert want == uninterrupted(seed)
