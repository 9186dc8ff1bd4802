"""Runs whose daemon is killed while it writes, or cannot write: what they give is as if not.

CHX_FAULTS_ROUNDS: how often; more than in CI by hand.
"""

import os
import resource
import signal
import time

import chx
import pytest

from .daemon import wait_until
from .runs import NAME
from .whole_runs import LONG, fit, found, gates_of, kill_under_way, let_end, uninterrupted

pytest_plugins = ["tests.integration.whole_runs"]

ROUNDS = int(os.environ.get("CHX_FAULTS_ROUNDS", 2))


def unfinished(keeper):
    """The file that is being written, if there is one: what is left of others goes as a daemon begins."""
    return [name for name in os.listdir(keeper.folder) if not name.endswith(".session")]


def test_killed_while_it_writes(keeper, rng):
    """As soon as a file is seen that is not whole; it is left so."""
    seed = rng.randrange(1000)
    want = uninterrupted(seed, **LONG)
    gates = gates_of(rng, want[0])
    session = chx.connect(keeper.address, session=NAME)
    session.save("large", chx.ones((1 << 18,)))  # whose file takes a while
    run = fit(session, seed, snapshot_every=20, pause_at=gates, **LONG)

    def kill():
        """Whether there was a moment for it. The daemon stands while it is seen that it is one."""
        end = time.monotonic() + 0.02
        while time.monotonic() < end:
            if unfinished(keeper):
                keeper.daemon.freeze()
                if unfinished(keeper):
                    keeper.daemon.kill()
                    return True
                keeper.daemon.process.send_signal(signal.SIGCONT)
        return False

    for _ in range(ROUNDS):
        session, run = kill_under_way(rng, keeper, run, gates, kill=kill)
    let_end(run)
    assert found(session, run) == want
    session.discard()


def test_no_room_for_snapshots(keeper, rng):
    """The run goes on; the last snapshot that was whole is that of the next daemon."""
    seed = rng.randrange(1000)
    want = uninterrupted(seed, **LONG)
    gates = gates_of(rng, want[0])
    session = chx.connect(keeper.address, session=NAME)
    run = fit(session, seed, snapshot_every=20, pause_at=gates, **LONG)
    assert wait_until(keeper.files)
    for _ in range(ROUNDS):
        process = keeper.daemon.process.pid
        _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
        resource.prlimit(process, resource.RLIMIT_FSIZE, (rng.choice((0, 1000, 5000)), hard))
        session, run = kill_under_way(rng, keeper, run, gates)
    let_end(run)
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
