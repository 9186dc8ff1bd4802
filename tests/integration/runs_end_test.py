"""How runs end, what they survive, and what is refused."""

import gc
import os
import signal
import time

import chx
import numpy as np
import pytest
from chx import _core

from .daemon import Daemon, wait_until
from .runs import ENDLESS, NAME, endless, endless_step, in_another_process

pytest_plugins = ["tests.integration.runs"]


def test_goes_on_without_its_client(daemon):
    process = in_another_process(
        daemon,
        """
        w = chx.zeros((4,))
        session.save("w", w)
        @chx.jit
        def step(x):
            w.__iadd__(chx.sum(x, axis=0))
            return chx.sum(w)
        run = runs.start(step, chx.ones((8, 4)), batch_size=2, steps=10**9, name="long",
                         log_every=1000, time_limit=100)
        print("started", flush=True)
        time.sleep(100)
        """,
        wait=False,
    )
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(3)  # three times the lease
    with chx.connect(daemon.address, session=NAME) as session:
        assert session.taken_up
        run = chx.runs.attach("long")
        assert run.state == "running"
        before = run.step
        assert wait_until(lambda: run.step > before)
        w = session.load("w")
        run.pause()
        assert chx.to_numpy(w).tolist() == [2.0 * run.step] * 4
        events = run.events()
        assert (events[0].kind, events[0].number, events[0].step) == ("started", 0, 1)
        logged = run.metrics()
        assert logged["step"][0] == 1000
        # Means of 1000 steps, whose sums are 8, 16, ...
        np.testing.assert_array_equal(logged["loss"], 8 * logged["step"] - 8 * 499.5)
        with pytest.raises(ValueError, match="'other'"):
            chx.runs.attach("other")
        run.resume()
    # And once more, in a process that leaves as it should.
    last = in_another_process(
        daemon, "run = runs.attach('long'); run.stop(); print(run.wait().reason, run.step)"
    )
    reason, step = last.split()
    assert reason == "stopped"
    assert int(step) > before
    # It has ended; what has happened is there for who comes next.
    time.sleep(2)
    with chx.connect(daemon.address, session=NAME) as session:
        assert chx.runs.attach("long").step == int(step)
        session.discard()


def test_an_error_ends_it():
    """Where the session's memory is used up, for one."""
    with Daemon("--session-memory=48m") as daemon, chx.connect(daemon.address):
        w = chx.zeros((1 << 20,))
        _, run = None, chx.runs.start(
            lambda x: chx.sum(w * chx.sum(x)), chx.ones((4, 1 << 20)), batch_size=2, steps=ENDLESS
        )  # fmt: skip
        assert run.state == "running"
        run.pause()
        kept = []
        with pytest.raises(chx.OutOfMemoryError):
            while True:
                kept.append(chx.ones((1 << 16,)))
                chx._core.Session.synchronize(w.device.backend._session)
                float(kept[-1][0])
        run.resume()
        with pytest.raises(chx.ChainerxError, match="memory"):
            run.wait(60)
        assert run.events()[-1].reason == "error"
        del kept
        assert float(chx.sum(chx.ones(3))) == 3.0


def test_interrupting_a_call_does_not_cancel_a_run(session):
    _, run = endless()
    for _ in range(20):
        session.cancel()
    before = run.step
    assert wait_until(lambda: run.step > before)
    assert run.state == "running"
    run.stop()


def threads(daemon):
    return len(os.listdir(f"/proc/{daemon.process.pid}/task"))


@pytest.mark.parametrize("end", ["close", "kill", "pause and close"])
def test_ends_with_its_session(daemon, end):
    def open_and_end():
        session = chx.connect(daemon.address)
        _, run = endless()
        assert run.state == "running"
        if end == "kill":
            with chx.admin.connect(daemon.address) as admin:
                (listed,) = admin.sessions()
                admin.kill(listed.number)
            with pytest.raises(ConnectionError, match="killed"):
                run.wait(30)
            return
        if end.startswith("pause"):
            run.pause()
        session.close()

    before = threads(daemon)
    for _ in range(5):
        open_and_end()
    gc.collect()  # of clients, connections
    assert wait_until(lambda: threads(daemon) <= before + 2)
    assert daemon.alive()


@pytest.mark.parametrize("paused", [False, True])
def test_ends_with_the_daemon(paused):
    with Daemon("--lease=2s") as daemon:
        process = in_another_process(
            daemon,
            f"""
            w = chx.zeros((4,))
            session.save("w", w)
            run = runs.start(chx.jit(lambda x: w.__iadd__(chx.sum(x, axis=0)).sum()),
                             chx.ones((8, 4)), batch_size=2, steps=10**9)
            if {paused}: run.pause()
            """,
            wait=False,
        )
        process.wait(60)
        daemon.process.send_signal(signal.SIGTERM)
        daemon.process.wait(20)
        assert daemon.process.returncode == 0


def test_hostile_specs(session):
    w = chx.zeros((4,))
    step = endless_step(w)
    x = chx.ones((8, 4))
    step(x[:2])
    (recorded,) = step._recorded.values()
    loss = step(x[:2])

    def start(**changes):
        f = {
            "name": "run",
            "program": recorded.program,
            "data": [x],
            "batch_size": 2,
            "metrics": [("loss", 0)],
            "steps": 4,
            "shuffle": None,
            "rows": [],
            "done": 1,
            "first": [loss],
            "values": [],
            "log_every": 1,
            "evaluation": None,
            "evaluate_every": 0,
            "equal_weights": False,
            "marks": [],
            "rules": [],
            "time_limit": 0.0,
            "snapshot_every": 0,
            "snapshot_seconds": 0.0,
            "rest": None,
            "files": [],
        } | changes
        calls = (
            f["program"],
            f["data"],
            f["batch_size"],
            f["metrics"],
            f["rest"],
            f["files"],
            x.device,
        )
        _core._run_start(
            session,
            f["name"],
            calls,
            *[f[key] for key in list(f)[5:-2]],
        )

    part = (recorded.program, [x], 2, [("loss", 0)], None, [], x.device)
    longs = [chx.array(a, dtype="int64") for a in ([[8, 0]] * 3, [[0, 1]] * 2, [[5, 1]], [[2, 8]])]
    # Rows without elements cost nothing; what a run keeps of them does.
    many, most = (chx.zeros((2**n, 0), dtype="uint8") for n in (30, 61))
    for changes in [
        {"name": ""},
        {"name": "a b"},
        {"name": "x" * 129},
        {"data": []},
        {"data": [x, x]},
        {"data": [chx.ones(())]},
        {"data": [x] * 65},
        {"data": [None]},
        {"files": [("x.npy", "x")]},
        {"data": [None], "files": [("x.npy", "x")] * 2},
        {"data": [None], "files": [("x.npy", "x")]},  # the daemon has none
        {"batch_size": 0},
        {"batch_size": -(2**63)},
        {"batch_size": 9},
        {"batch_size": 2**62},
        {"data": [most], "batch_size": 2**61},
        {"data": [most], "shuffle": 1},
        {"data": [many], "shuffle": 1},
        {"metrics": [("loss", 1)]},
        {"metrics": [("loss", 2**31)]},
        {"metrics": [("", 0)]},
        {"metrics": [("loss", 0), ("again", 0)], "first": [loss, loss]},
        {"metrics": [("loss", 0)] * 65, "first": [loss] * 65},
        {"steps": 0},
        {"steps": -1},
        {"steps": 2**62},
        {"first": [w]},
        {"first": [loss, loss]},
        {"values": [chx.zeros((3, 1), dtype="int64")]},
        {"log_every": 0},
        {"log_every": -(2**63)},
        {"evaluation": part, "evaluate_every": 0},
        {"evaluation": (recorded.program, [x], 9, [], None, [], x.device)},
        {"evaluation": (recorded.program, [], 1, [], None, [], x.device), "evaluate_every": 1},
        {"evaluation": (*part[:4], recorded.program, *part[5:]), "evaluate_every": 1},
        {"rest": recorded.program},
        {"rest": recorded.program, "batch_size": 8},
        {"rows": longs[:1]},
        {"rows": longs[1:2]},
        {"rows": [x], "batch_size": 4, "steps": 9},
        {"rows": longs[:1], "shuffle": 1},
        {"rows": [chx.zeros((3, 0), dtype="int64")], "batch_size": 0},
        {"batch_size": 2**62, "rows": longs[:1]},
        {"batch_size": 2**40, "rows": longs[:1]},
        {"done": 0},
        {"done": -1},
        {"done": 5},
        {"done": 2**63 - 1},
        {"marks": longs[1:2]},
        {"marks": longs[2:3]},
        {"marks": longs[3:4]},
        {"marks": [x]},
        {"rules": [(4, False, 0, 0.0, 1)]},
        {"rules": [(2**32 - 1, False, 0, 0.0, 1)]},
        {"rules": [(0, True, 0, 0.0, 1)]},
        {"rules": [(0, False, 1, 0.0, 1)]},
        {"rules": [(3, False, 0, 0.0, 0)]},
        {"rules": [(0, False, 0, 0.0, 1)] * 65},
        {"time_limit": -1.0},
        {"time_limit": float("nan")},
        {"time_limit": float("inf")},
        {"snapshot_every": -1},
        {"snapshot_every": 1},  # the daemon has no place for it
        {"snapshot_seconds": -1.0},
        {"snapshot_seconds": float("nan")},
        {"snapshot_seconds": 1e10},
        {"snapshot_seconds": 1.0},
    ]:
        with pytest.raises((chx.ChainerxError, ValueError, TypeError), match=r"\[runs\]"):
            start(**changes)
        assert chx.runs.list() == []
    # Shapes that the program was not recorded for.
    start(data=[chx.ones((8, 3))])
    with pytest.raises(chx.ChainerxError, match="broadcast"):
        chx.runs.attach().wait(60)
    start()
    run = chx.runs.attach()
    assert run.wait(60).reason == "done"
    start(steps=2**40, log_every=2**62)  # absurd, and stopped
    with pytest.raises(ValueError, match="has not ended"):
        start()
    chx.runs.attach().stop()
    for number in range(70):  # of those that have ended, the oldest go
        start(name=f"run{number}", steps=1)
    assert len(chx.runs.list()) == 64
    for number in range(8):
        start(name=f"active{number}", steps=2**40)
    with pytest.raises(chx.OutOfMemoryError, match="8 runs"):
        start(name="more", steps=2)
    for run in chx.runs.list():
        run.stop()
    np.testing.assert_array_equal(chx.to_numpy(x), 1)
