"""Runs: training that the daemon does by itself, and that outlives its client."""

import threading
import time

import chx
import numpy as np
import pytest

from .daemon import wait_until
from .runs import ENDLESS, NAME, endless, endless_step, in_another_process, make_step, problem

pytest_plugins = ["tests.integration.runs"]


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


def test_a_loss_that_begins_as_nan_improves(session):
    x = chx.array([[np.nan], [3.0], [2.0], [1.0], [1.0], [1.0]])
    step = chx.jit(lambda x: chx.sum(x))
    run = chx.runs.start(
        step, x, batch_size=1, epochs=5, log_every=1, stop=[chx.runs.no_improvement("loss", 2)]
    )
    assert (run.wait().reason, run.step) == ("rule", 6)


def test_steps_without_metrics_are_made_once(session):
    count = chx.zeros((), "int64")

    def step(x):
        nonlocal count
        count += 1

    run = chx.runs.start(step, chx.ones((6, 1)), batch_size=2, epochs=3)
    assert run.wait().reason == "done"
    assert int(count) == 9


@pytest.mark.parametrize("epochs", [1, 18])  # fewer events than were seen, or as many
def test_another_run_of_the_name_ends_an_iterator(session, epochs):
    step = chx.jit(lambda x: chx.sum(x))
    x = chx.ones((8, 1))
    run = chx.runs.start(step, x, batch_size=1, epochs=4, log_every=1)
    events = iter(run)
    seen = [next(events) for _ in range(20)]
    assert run.wait().reason == "done"
    assert chx.runs.start(step, x, batch_size=8, epochs=epochs).wait().reason == "done"
    assert [event.kind for event in events][-1:] == ["ended"]
    assert len(seen) == 20


def test_time_limit(session):
    _, run = endless(time_limit=0.2)
    assert run.wait(60).reason == "time limit"


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


def test_weights_are_of_one_step(session):
    """All arrays of a fetch, also more of them than the commands that are carried out at once."""
    arrays = [chx.zeros((3,)) for _ in range(100)]
    w = chx.zeros((2, 2)).require_grad()

    @chx.jit
    def step(x):
        for array in (*arrays, w.as_grad_stopped()):
            array += chx.sum(x)
        return chx.sum(arrays[-1])

    run = chx.runs.start(step, chx.ones((8, 1)), batch_size=1, steps=ENDLESS, log_every=ENDLESS)
    first = run.step
    last = 0
    for _ in range(200):
        found = run.weights({"w": w, "all": tuple(arrays), "rate": 0.5, "name": "model"})
        assert (type(found["all"]), found["rate"], found["name"]) == (tuple, 0.5, "model")
        assert not found["w"].is_backprop_required() and found["w"] is not w
        parts = [array.reshape(-1) for array in (*found["all"], found["w"])]
        values = chx.to_numpy(chx.concatenate(parts))
        assert len(values) == 304 and (values == values[0]).all()
        assert values[0] >= last
        last = values[0]
    # The run was not paused for it.
    assert (run.state, last > first + 1) == ("running", True)
    assert [event.kind for event in run.events()] == ["started"]
    run.stop()
    assert chx.to_numpy(run.weights(w)).tolist() == [[run.step] * 2] * 2
    assert run.weights([]) == []


def test_arguments(session):
    x = chx.ones((8, 4))
    step = endless_step(chx.zeros((4,)))
    for options, message in [
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


def test_shown_to_people(session, rng, tmp_path, capsys):
    """A bar to the last step, and a picture of what there is."""
    start = rng.normal(size=(5, 2))
    x, t = map(chx.array, problem(rng))
    step, *_ = make_step("sgd", start)
    run = chx.runs.start(step, (x, t), batch_size=6, epochs=20, shuffle=1, name="shown")
    assert run.show_progress().reason == "done"
    bar = capsys.readouterr().err
    assert "shown: 100%" in bar and "200/200" in bar and "loss=" in bar
    run.plot(tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    run.plot(tmp_path / "run.svg", ["loss"])
    assert "<svg" in (tmp_path / "run.svg").read_text()
    with pytest.raises(ValueError, match="among .'loss', 'size'., got 'accuracy'"):
        run.plot(tmp_path / "no.png", ["accuracy"])


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
    # From a number that has made room on: the next one that is there.
    gone = next(i for i, number in enumerate(numbers) if number != i)
    assert run.events(gone) == list(run.watch(start=gone)) == events[gone:]


def test_events_from_a_number_on(session, daemon):
    _, run = endless(log_every=1)
    assert wait_until(lambda: run.step > 3000, 60)
    run.pause()
    events = run.events()
    for start in (0, 1, 1500, len(events) - 1, len(events)):
        assert run.events(start=start) == events[start:]
    attached = chx.runs.attach(run.name)
    watched = attached.watch(len(events) - 1)
    assert next(watched).kind == "paused"
    timer = threading.Timer(0.1, run.stop)
    timer.start()
    rest = list(watched)
    timer.join()
    assert [event.kind for event in rest] == ["ended"]
    assert rest[0].number == len(events)
    # Behind the end, or more than there are: the end says that there will be none.
    for start in (len(events), len(events) + 1, 10**12, 2**70):
        assert run.events(start) == list(run.watch(start)) == rest
    out = in_another_process(
        daemon,
        f"""
        events = runs.attach({run.name!r}).events(start={len(events) - 2})
        print(*[event.number - {len(events)} for event in events], events[-1].reason)
        """,
    )
    assert out == "-2 -1 0 stopped"
    for start in (-1, -(2**70)):
        with pytest.raises(ValueError, match=f"0 or more, got {start}"):
            run.events(start)
        with pytest.raises(ValueError, match="number of an event"):
            run.watch(start)
