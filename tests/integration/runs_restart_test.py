"""Runs go on in the next daemon, where they were: all that they give is as if nothing had been."""

import os
import threading
import time

import chx
import numpy as np
import pytest

from .daemon import Daemon, Keeper, wait_until
from .runs import NAME, endless, endless_step
from .whole_runs import (
    LONG,
    fit,
    found,
    gates_of,
    kill_under_way,
    let_end,
    restart_under_way,
    uninterrupted,
    warnings,
)

pytest_plugins = ["tests.integration.whole_runs"]


@pytest.mark.parametrize("evaluations", [5, 150])
def test_goes_on_after_sigterm(keeper, rng, evaluations):
    """Also in the middle of an evaluation: with 150 of them for 60 steps most moments are."""
    seed = rng.randrange(1000)
    options = LONG | {"evaluations": evaluations}
    want = uninterrupted(seed, **options)
    gates = gates_of(rng, want[0])
    session = chx.connect(keeper.address, session=NAME)
    run = fit(session, seed, pause_at=gates, **options)
    seen = []
    watcher = threading.Thread(target=lambda: seen.extend(run))
    watcher.start()
    for _ in range(3):
        restart_under_way(rng, keeper, run, gates)
    let_end(run)
    # Its client has never gone; another one takes the session up and sees all.
    watcher.join(120)
    assert [event.number for event in seen] == list(range(len(seen)))
    with chx.connect(keeper.address, session=NAME) as second:
        again = chx.runs.attach("fit")
        assert found(second, again) == want
        assert [event.number for event in again] == [event.number for event in seen]
        assert len(warnings(again)) == 3
        second.discard()


def test_goes_on_after_kill(keeper, rng):
    """From the last snapshot, several times."""
    seed = rng.randrange(1000)
    want = uninterrupted(seed, **LONG)
    gates = gates_of(rng, want[0])
    session = chx.connect(keeper.address, session=NAME)
    run = fit(session, seed, snapshot_every=50, pause_at=gates, **LONG)
    for number in range(4):
        session, run = kill_under_way(rng, keeper, run, gates)
        assert len(warnings(run)) <= number + 1
    let_end(run)
    assert found(session, run) == want
    session.discard()


def test_snapshots_by_time(keeper, rng):
    """As those by steps; and the daemon goes on with them after a restart."""
    seed = rng.randrange(1000)
    want = uninterrupted(seed, **LONG)
    gates = gates_of(rng, want[0])
    session = chx.connect(keeper.address, session=NAME)
    run = fit(session, seed, snapshot_seconds=0.005, pause_at=gates, **LONG)

    def written():
        return max(
            os.stat(os.path.join(keeper.folder, name)).st_mtime_ns for name in keeper.files()
        )

    for number in range(3):
        before = written() if number else 0
        session, run = kill_under_way(
            rng, keeper, run, gates, lambda before=before: written() > before
        )
    let_end(run)
    assert found(session, run) == want
    session.discard()


def other_orders(rng):
    """Options of fit(): rows that are given, and minibatches of those that are left over."""
    given = np.random.default_rng(rng.randrange(2**32)).integers(0, 600, size=(12000, 10))
    marked = sorted(rng.sample(range(1, 12001), 1600))
    marked_steps = {"log_at": marked, "evaluate_at": marked[::4]}
    return {
        "rows": marked_steps | {"rows": given, "evaluated": 203, "patience": 200},
        "rest": LONG | {"batch_size": 17, "evaluated": 197},
        "equal weights": {"batch_size": 599, "epochs": 5000, "evaluate_every": 5, "patience": 500}
        | {"evaluated": 23, "evaluate_weights": "minibatches"},
    }


@pytest.mark.parametrize("kind", ["rows", "rest", "equal weights"])
@pytest.mark.parametrize("killed", [True, False])
def test_other_orders_of_rows(keeper, rng, kind, killed):
    """Also with the weights of an evaluation that is under way."""
    seed = rng.randrange(1000)
    options = other_orders(rng)[kind]
    want = uninterrupted(seed, **options)
    gates = gates_of(rng, want[0])
    session = chx.connect(keeper.address, session=NAME)
    run = fit(session, seed, snapshot_every=50 if killed else None, pause_at=gates, **options)
    for number in range(3):
        if killed:
            session, run = kill_under_way(rng, keeper, run, gates)
        else:
            restart_under_way(rng, keeper, run, gates)
        assert len(warnings(run)) <= number + 1
    let_end(run)
    session = chx.connect(keeper.address, session=NAME)
    assert found(session, chx.runs.attach("fit")) == want
    session.discard()


def test_pauses_at_steps_of_ones_choice(keeper, rng):
    """Once at each, wherever the daemon was restarted."""
    session = chx.connect(keeper.address, session=NAME)
    w = chx.zeros((4,))
    session.save("w", w)
    marked = sorted(rng.sample(range(2, 5000), 4))
    chx.runs.start(
        endless_step(w), chx.ones((8, 4)), batch_size=2, steps=5000, log_at=[1], pause_at=marked
    )
    for step in marked:
        if rng.random() < 0.5:
            keeper.restart()
        run = chx.runs.attach()
        assert wait_until(lambda run=run: run.state == "paused")
        assert run.step == step
        keeper.restart()
        assert (run.state, run.step) == ("paused", step)
        run.resume()
    assert run.wait(60).step == 5000
    assert [event.step for event in run.events() if event.kind == "paused"] == marked
    session = chx.connect(keeper.address, session=NAME)
    assert chx.to_numpy(session.load("w")).tolist() == [10000.0] * 4
    session.discard()


def test_a_paused_one_stays_paused(keeper, rng):
    seed = rng.randrange(1000)
    want = uninterrupted(seed)
    session = chx.connect(keeper.address, session=NAME)
    step = rng.randrange(1, want[0])
    run = fit(session, seed, pause_at=[step])
    assert wait_until(lambda: run.state == "paused")
    assert run.step == step
    for _ in range(2):
        keeper.restart()
        assert (run.state, run.step) == ("paused", step)
    session = chx.connect(keeper.address, session=NAME)
    run = chx.runs.attach("fit")
    assert (run.state, run.step) == ("paused", step)
    kinds = [event.kind for event in run.events()]
    assert kinds.count("paused") == 1 and kinds.count("resumed") == 0
    run.resume()
    assert found(session, run) == want
    session.discard()


def test_each_step_is_made_once(keeper, rng):
    """What a run writes is of the step that it says, whenever the daemon ends."""
    session = chx.connect(keeper.address, session=NAME)
    w, run = endless(snapshot_every=1000)
    session.save("w", w)
    for number in range(6):
        # A daemon that is killed before it has written anything leaves nothing.
        assert wait_until(lambda run=run: run.step > 1000 and keeper.files())
        time.sleep(rng.random() / 20)
        if number % 2:
            keeper.restart()
        else:
            keeper.daemon.kill()
            keeper.start()
            session = chx.connect(keeper.address, session=NAME)
            run = chx.runs.attach()
        run.pause()
        assert chx.to_numpy(session.load("w")).tolist() == [2.0 * run.step] * 4
        run.resume()
    run.stop()
    session.discard()


def test_without_a_client(keeper):
    """Nobody has the session, neither before nor after."""
    session = chx.connect(keeper.address, session=NAME)
    w, run = endless(log_every=10**6)
    session.save("w", w)
    session.close()
    keeper.restart()
    time.sleep(0.1)
    session = chx.connect(keeper.address, session=NAME)
    run = chx.runs.attach()
    assert run.state == "running"
    (told,) = warnings(run)
    assert wait_until(lambda: run.step > told.step)
    # Its programs are its own: the client may have as many as ever.
    assert float(chx.jit(lambda x: chx.sum(x))(chx.ones(3))) == 3.0
    run.stop()
    kinds = [event.kind for event in run.events() if event.kind != "log"]
    assert kinds == ["started", "warning", "ended"]
    session.discard()


def test_orders_and_limits_stay(tmp_path):
    """Eight of a session; what was asked of them counts in the next daemon, as the time limit does."""
    keeper = Keeper(tmp_path, "--lease=1h")
    session = chx.connect(keeper.address, session=NAME)
    for number in range(7):
        endless(name=f"run{number}")
    endless(name="short", time_limit=3.0)
    keeper.restart()
    with pytest.raises(chx.OutOfMemoryError, match="8 runs"):
        endless(name="more")
    assert chx.runs.attach("short").wait(60).reason == "time limit"
    runs = {run.name: run for run in chx.runs.list()}
    assert len(runs) == 8
    for number in range(7):
        runs[f"run{number}"].stop()
    endless(name="more")[1].stop()
    session.discard()
    keeper.daemon.kill()


def test_snapshots_need_a_place(rng):
    with Daemon() as daemon, chx.connect(daemon.address):
        with pytest.raises(ValueError, match="--state-dir"):
            endless(snapshot_every=10)
        with pytest.raises(ValueError, match="1 step"):
            endless(snapshot_every=0)
        with pytest.raises(ValueError, match="--state-dir"):
            endless(snapshot_seconds=0.5)
        for wrong in (0, -1.0, float("nan")):
            with pytest.raises(ValueError, match="snapshot_seconds above 0"):
                endless(snapshot_seconds=wrong)
        assert chx.runs.list() == []


def test_snapshots_are_whole(keeper, rng):
    """A run that asks for one at each step is not kept from its steps, and each file can be read."""
    session = chx.connect(keeper.address, session=NAME)
    big = chx.ones((1 << 20,))
    w, run = endless(snapshot_every=1)
    session.save("w", {"w": w, "big": big})
    assert wait_until(keeper.files)
    written = set()
    while len(written) < 3:
        written.add(os.stat(os.path.join(keeper.folder, keeper.files()[0])).st_ino)
        before = run.step
        assert wait_until(lambda before=before: run.step > before)
    keeper.daemon.kill()
    keeper.start()
    session = chx.connect(keeper.address, session=NAME)
    run = chx.runs.attach()
    run.stop()
    assert chx.to_numpy(session.load("w")["w"]).tolist() == [2.0 * run.step] * 4
    session.discard()
