"""Runs: training that the daemon does by itself, and that outlives its client."""

import gc
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import chx
import numpy as np
import pytest
from chx import _core

from .daemon import Daemon, wait_until

NAME = "exp-7"
ENDLESS = 10**9


@pytest.fixture
def daemon():
    with Daemon("--lease=1s", "--memory=2g") as started:
        yield started


@pytest.fixture
def session(daemon):
    with chx.connect(daemon.address, session=NAME) as opened:
        yield opened
        opened.discard()


@pytest.fixture
def rng():
    seed = random.randrange(2**32)
    print("seed", seed)
    return np.random.default_rng(seed)


def problem(rng, rows=60, columns=5):
    x = rng.normal(size=(rows, columns)).astype("f")
    return x, (x @ rng.normal(size=(columns, 2))).astype("f")


def make_step(kind, start, seed=1):
    """A step, its parameters, and what steps need that are made one by one."""
    chx.random.seed(seed)
    w = chx.array(start).require_grad()
    b = chx.zeros((start.shape[1],)).require_grad()
    optimizer = (chx.optimizers.SGD(lr=0.03) if kind == "sgd" else chx.optimizers.Adam()).setup(
        [w, b]
    )

    def step(x, t):
        optimizer.cleargrads()
        if kind == "dropout":
            x = x * (chx.random.uniform(size=x.shape) < 0.8)
        loss = chx.mean((chx.tanh(x @ w + b) - t) ** 2)
        loss.backward()
        optimizer.update()
        return {"loss": loss, "size": chx.sum(w * w)}

    return step, (w, b), optimizer


def endless_step(w):
    """One that is never done with."""

    @chx.jit
    def step(x):
        w.__iadd__(chx.sum(x, axis=0))
        return chx.sum(w)

    return step


def endless(rows=8, **options):
    w = chx.zeros((4,))
    x = chx.ones((rows, 4))
    return w, chx.runs.start(endless_step(w), x, batch_size=2, steps=ENDLESS, **options)


def in_another_process(daemon, code, wait=True):
    """Runs code with `session` and `runs`; what it prints."""
    begin = (
        "import chx, sys, time, numpy as np\nfrom chx import runs\n"
        f"session = chx.connect({daemon.address!r}, session={NAME!r})\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", begin + textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    if not wait:
        return process
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return out.strip()


@pytest.mark.parametrize("kind", ["sgd", "adam", "dropout"])
@pytest.mark.parametrize("shuffle", [None, 5, 2**63 + 11])
def test_is_equal_to_a_loop(session, rng, kind, shuffle):
    data, targets = problem(rng)
    x, t = chx.array(data), chx.array(targets)
    start = rng.normal(size=(5, 2)).astype("f")
    rates = [float(r) for r in rng.uniform(0.001, 0.1, size=24)]

    step, params, optimizer = make_step(kind, start)
    rate = "lr" if kind == "sgd" else "alpha"
    run = chx.runs.start(
        step,
        (x, t),
        batch_size=10,
        epochs=4,
        shuffle=shuffle,
        log_every=1,
        schedule=lambda number: setattr(optimizer, rate, rates[number]),
    )
    assert run.wait().reason == "done"
    logged = run.metrics()
    assert sorted(logged) == ["epoch", "loss", "size", "step"]
    np.testing.assert_array_equal(logged["step"], np.arange(1, 25))
    np.testing.assert_array_equal(logged["epoch"], np.arange(1, 25) / 6)

    step, expected, other = make_step(kind, start)
    losses, sizes = [], []
    for number in range(24):
        order = np.arange(60) if shuffle is None else chx.runs.order(shuffle, number // 6, 60)
        rows = order[number % 6 * 10 :][:10]
        setattr(other, rate, rates[number])
        result = step(chx.array(data[rows]), chx.array(targets[rows]))
        losses.append(float(result["loss"]))
        sizes.append(float(result["size"]))
    assert logged["loss"].tolist() == losses
    assert logged["size"].tolist() == sizes
    for ours, theirs in zip(params, expected):
        assert chx.to_numpy(ours).tobytes() == chx.to_numpy(theirs).tobytes()
    assert optimizer.t == other.t


def philox(key, counter):
    """Philox4x32-10 by its definition, in Python's integers."""
    c = [counter >> 32 * i & 0xFFFFFFFF for i in range(4)]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [
            (p1 >> 32) ^ c[1] ^ k[0],
            p1 & 0xFFFFFFFF,
            (p0 >> 32) ^ c[3] ^ k[1],
            p0 & 0xFFFFFFFF,
        ]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def test_order_is_as_documented():
    # The known answer of Random123 for zeros.
    assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    for seed, epoch, rows in [(0, 0, 1), (3, 1, 7), (2**63 + 5, 2**33 + 9, 100)]:
        keys = []
        for row in range(rows):
            words = philox(seed, row // 2 | epoch % 2**32 << 64)
            keys.append(words[row % 2 * 2 + 1] << 32 | words[row % 2 * 2])
        expected = sorted(range(rows), key=keys.__getitem__)
        assert chx.runs.order(seed, epoch, rows).tolist() == expected


def test_evaluation(session, rng):
    data, targets = problem(rng)
    step, (w, b), _ = make_step("adam", rng.normal(size=(5, 2)).astype("f"))
    x, t = chx.array(data), chx.array(targets)
    seen = []

    def evaluate(x, t):
        return chx.mean((chx.tanh(x @ w + b) - t) ** 2), chx.sum(t)

    run = chx.runs.start(
        step,
        (x, t),
        batch_size=20,
        steps=8,
        evaluate=(evaluate, (x[:12], t[:12])),
        evaluate_batch_size=4,
        metrics=["loss"],
    )
    seen = [event.kind for event in run]
    assert seen == ["started", *["log", "evaluation"] * 3, "ended"]
    logged = run.metrics()
    # After the epochs, and the last step.
    assert logged["evaluation/step"].tolist() == [3, 6, 8]
    parts = [float(evaluate(x[i : i + 4], t[i : i + 4])[0]) for i in (0, 4, 8)]
    assert logged["evaluation/output0"][-1] == sum(parts) / 3
    np.testing.assert_allclose(logged["evaluation/output1"], targets[:12].sum() / 3, rtol=1e-5)


def test_pause_resume_and_stop(session):
    w, run = endless(log_every=50)
    assert run.state == "running"
    run.pause()
    assert run.state == "paused"
    step = run.step
    assert chx.to_numpy(w).tolist() == [2.0 * step] * 4  # between two steps
    time.sleep(0.05)
    assert run.step == step
    run.resume()
    assert wait_until(lambda: run.step > step)
    run.stop()
    assert run.state == "ended"
    assert run.wait().reason == "stopped"
    kinds = [event.kind for event in run]
    assert kinds[0] == "started"
    assert [k for k in kinds if k != "log"] == ["started", "paused", "resumed", "ended"]
    run.stop()  # again: nothing happens
    assert [r.name for r in chx.runs.list()] == ["run"]


@pytest.mark.parametrize(
    ("rule", "last"),
    [
        (chx.runs.above("loss", 75.0), 10),  # the sum grows by 8 in each step
        (chx.runs.below("loss", 9.0), 1),
        (chx.runs.nan("evaluation/loss"), 20),
        (chx.runs.no_improvement("evaluation/loss", 3), 16),
        (chx.runs.above("evaluation/loss", 90.0), 12),
    ],
)
def test_rules(session, rule, last):
    w = chx.zeros((4,))
    count = chx.zeros(())
    is_nan = rule == chx.runs.nan("evaluation/loss")

    def evaluate(x):
        total = chx.sum(w) + chx.sum(x)
        return {"loss": chx.where(chx.sum(w) > 150, np.nan, total) if is_nan else total}

    run = chx.runs.start(
        endless_step(w),
        chx.ones((8, 4)),
        batch_size=2,
        steps=ENDLESS,
        evaluate=(evaluate, chx.zeros((2, 4))),
        stop=[rule],
    )
    end = run.wait(60)
    assert (end.reason, end.step) == ("rule", last)
    assert end.message.startswith(rule.metric.replace("evaluation/", "evaluation: "))
    assert float(count) == 0


def test_time_limit(session):
    _, run = endless(time_limit=0.2)
    assert run.wait(60).reason == "time limit"


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


def test_keeps_what_its_client_releases(daemon, session, rng):
    """Also where another client has begun, and runs other programs in other modes."""
    data, targets = problem(rng)
    start = rng.normal(size=(5, 2)).astype("f")
    step, (w, _), _ = make_step("dropout", start)
    step, evaluated = chx.jit(step), []
    session.save("w", w)

    def evaluate(x):
        with chx.no_backprop_mode():
            return chx.sum(x @ w)

    x, t = chx.array(data), chx.array(targets)
    run = chx.runs.start(step, (x, t), batch_size=6, epochs=40, log_every=1,
                         evaluate=(evaluate, x))  # fmt: skip
    run.pause()
    step.cache_clear()
    del x, t, step, w
    session.flush()
    second = chx.connect(daemon.address, session=NAME)
    for _ in range(50):  # other handles, definitions and programs
        with chx.no_backprop_mode():
            evaluated.append(chx.jit(lambda a: a * 2)(chx.ones(100)))
    run = chx.runs.attach()
    run.resume()
    assert run.wait(60).reason == "done"
    first = chx.to_numpy(second.load("w"))

    step, (w, _), _ = make_step("dropout", start)
    for number in range(400):
        rows = slice(number % 10 * 6, number % 10 * 6 + 6)
        step(chx.array(data[rows]), chx.array(targets[rows]))
    assert first.tobytes() == chx.to_numpy(w).tobytes()
    handles = second.stats()
    assert handles is not None
    second.discard()
    second.close()


def test_others_are_answered(daemon, session):
    """A run takes no more than its share of the session, nor of the machine."""
    w, run = endless(rows=2000, log_every=1000)
    with chx.connect(daemon.address) as other:
        y = chx.ones(3, device=other.devices[0])
        for _ in range(50):
            assert float(chx.sum(y)) == 3.0
            assert float(chx.sum(w)) >= 0
        before = run.step
        assert wait_until(lambda: run.step > before)
        assert run.state == "running"
    run.stop()


def test_records_beside_it(session):
    w, run = endless()
    for number in range(20):
        assert float(chx.jit(lambda x, n=number: chx.sum(x) + n)(chx.ones(3))) == 3.0 + number
    before = run.step
    assert wait_until(lambda: run.step > before)
    run.stop()
    assert chx.to_numpy(w).tolist() == [2.0 * run.step] * 4


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


@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("paused", [False, True])
def test_ends_with_the_daemon(tmp_path, state, paused):
    flags = [f"--state-dir={tmp_path}"] if state else []
    with Daemon(*flags, "--lease=2s") as daemon:
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
    if not state:
        return
    with Daemon(*flags, "--lease=2s") as daemon:
        session = chx.connect(daemon.address, session=NAME)
        assert session.taken_up
        total = float(session.load("w")[0])
        run = chx.runs.attach()
        assert run.wait(1).reason == "daemon"
        assert total == 2.0 * run.step > 0  # each step that was made is there
        assert [event.kind for event in run][0] == "started"
        session.discard()
        session.close()


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
            "first": [loss],
            "values": [],
            "log_every": 1,
            "evaluation": None,
            "evaluate_every": 0,
            "rules": [],
            "time_limit": 0.0,
        } | changes
        calls = (f["program"], f["data"], f["batch_size"], f["metrics"])
        _core._run_start(
            session,
            f["name"],
            calls,
            *[f[key] for key in list(f)[5:]],
        )

    part = (recorded.program, [x], 2, [("loss", 0)])
    for changes in [
        {"name": ""},
        {"name": "a b"},
        {"name": "x" * 129},
        {"data": []},
        {"data": [x, x]},
        {"data": [chx.ones(())]},
        {"data": [x] * 65},
        {"batch_size": 0},
        {"batch_size": -(2**63)},
        {"batch_size": 9},
        {"batch_size": 2**62},
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
        {"evaluation": (recorded.program, [x], 9, [])},
        {"evaluation": (recorded.program, [], 1, []), "evaluate_every": 1},
        {"rules": [(4, False, 0, 0.0, 1)]},
        {"rules": [(2**32 - 1, False, 0, 0.0, 1)]},
        {"rules": [(0, True, 0, 0.0, 1)]},
        {"rules": [(0, False, 1, 0.0, 1)]},
        {"rules": [(3, False, 0, 0.0, 0)]},
        {"rules": [(0, False, 0, 0.0, 1)] * 65},
        {"time_limit": -1.0},
        {"time_limit": float("nan")},
        {"time_limit": float("inf")},
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


def test_arguments(session):
    x = chx.ones((8, 4))
    step = endless_step(chx.zeros((4,)))
    for options, message in [
        ({"batch_size": 3, "epochs": 1}, "drop_last"),
        ({"batch_size": 9, "epochs": 1}, "batch size"),
        ({"batch_size": 2}, "either"),
        ({"batch_size": 2, "steps": 1, "epochs": 1}, "either"),
        ({"batch_size": 2, "steps": 0}, "1 step"),
        ({"batch_size": 2, "steps": 1, "stop": [chx.runs.nan("evaluation/x")]}, "rule"),
        ({"batch_size": 2, "steps": 1, "metrics": ["a", "b"]}, "names"),
    ]:
        with pytest.raises(ValueError, match=message):
            chx.runs.start(step, x, **options)
    with pytest.raises(chx.DimensionError, match="rows"):
        chx.runs.start(step, (x, x[1:]), batch_size=2, steps=1)
    with pytest.raises(TypeError, match="arrays"):
        chx.runs.start(step, np.ones((8, 4)), batch_size=2, steps=1)
    with pytest.raises(chx.DimensionError, match="without dimensions"):
        chx.runs.start(lambda x: x, x, batch_size=2, steps=1)
    # Rows that are left over.
    w = chx.zeros((4,))
    rows = chx.arange(32, dtype="float32").reshape(8, 4)
    run = chx.runs.start(endless_step(w), rows, batch_size=3, epochs=2, drop_last=True)
    assert run.wait(60).step == 4
    np.testing.assert_array_equal(chx.to_numpy(w), 2 * chx.to_numpy(rows)[:6].sum(0))


def test_many_events_make_room(session):
    """The first, the last and every so many stay."""
    w, run = endless(log_every=1)
    assert wait_until(lambda: run.step > 100_000, 60)
    run.stop()
    events = run.events()
    assert len(events) <= 32768
    assert (events[0].number, events[0].kind) == (0, "started")
    numbers = [event.number for event in events]
    assert numbers == sorted(set(numbers))
    assert events[-1].kind == "ended"
    assert [event.step for event in events[-1001:-1]] == list(range(run.step - 999, run.step + 1))
