"""Which rows the steps of a run have, and at which of them it logs, evaluates and pauses."""

import chx
import numpy as np
import pytest

from .runs import endless_step, make_step, problem

pytest_plugins = ["tests.integration.runs"]


def uneven_step(start, size):
    """Adam, with more numbers that vary in minibatches of fewer rows."""
    step, params, optimizer = make_step("dropout", start)

    def uneven(x, t):
        if x.shape[0] != size:
            x = x + 0.1 * chx.random.normal(size=x.shape)
        return step(x, t)

    return uneven, params, optimizer


def make(kind, start, size):
    return uneven_step(start, size) if kind == "uneven" else make_step(kind, start)


def loop(kind, start, data, targets, batches, rates, size):
    """The same without a run: losses, and what the parameters are afterwards."""
    step, params, optimizer = make(kind, start, size)
    losses = []
    for rows, rate in zip(batches, rates, strict=True):
        setattr(optimizer, "lr" if kind == "sgd" else "alpha", rate)
        losses.append(float(step(chx.array(data[rows]), chx.array(targets[rows]))["loss"]))
    return losses, params, optimizer


def assert_equal_bits(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert chx.to_numpy(a).tobytes() == chx.to_numpy(b).tobytes()


@pytest.mark.parametrize("kind", ["sgd", "adam", "dropout"])
@pytest.mark.parametrize("size", [1, 10, 150])
def test_rows_that_are_given(session, rng, kind, size):
    data, targets = problem(rng)
    start = rng.normal(size=(5, 2)).astype("f")
    rows = rng.integers(0, 60, size=(13, size))
    rates = [float(r) for r in rng.uniform(0.001, 0.1, size=13)]
    step, params, optimizer = make_step(kind, start)
    run = chx.runs.start(
        step,
        (chx.array(data), chx.array(targets)),
        rows=rows.tolist() if kind == "sgd" else rows.astype("int32"),
        log_every=1,
        schedule=lambda n: setattr(optimizer, "lr" if kind == "sgd" else "alpha", rates[n]),
    )
    assert run.wait(60).step == 13
    losses, expected, other = loop(kind, start, data, targets, rows, rates, size)
    assert run.metrics()["loss"].tolist() == losses
    assert_equal_bits(params, expected)
    assert optimizer.t == other.t == 13


@pytest.mark.parametrize("kind", ["sgd", "adam", "dropout", "uneven"])
@pytest.mark.parametrize("shuffle", [None, 5])
@pytest.mark.parametrize(("size", "steps"), [(16, 14), (59, 5), (16, 4), (16, 3), (7, 25)])
def test_rows_that_are_left_over(session, rng, kind, shuffle, size, steps):
    data, targets = problem(rng)
    start = rng.normal(size=(5, 2)).astype("f")
    rates = [float(r) for r in rng.uniform(0.001, 0.1, size=steps)]
    step, params, optimizer = make(kind, start, size)
    run = chx.runs.start(
        step,
        (chx.array(data), chx.array(targets)),
        batch_size=size,
        steps=steps,
        shuffle=shuffle,
        log_every=1,
        schedule=lambda n: setattr(optimizer, "lr" if kind == "sgd" else "alpha", rates[n]),
    )
    assert run.wait(60).step == steps
    per_epoch = -(-60 // size)
    assert run.steps_per_epoch == per_epoch
    batches = []
    for number in range(steps):
        epoch, place = divmod(number, per_epoch)
        order = np.arange(60) if shuffle is None else chx.runs.order(shuffle, epoch, 60)
        batches.append(order[place * size :][:size])
    losses, expected, other = loop(kind, start, data, targets, batches, rates, size)
    logged = run.metrics()
    assert logged["step"].tolist() == list(range(1, steps + 1))
    assert logged["loss"].tolist() == losses
    assert_equal_bits(params, expected)
    assert optimizer.t == other.t == steps


def test_epochs_with_rows_that_are_left_over(session):
    w = chx.zeros((4,))
    x = chx.arange(32, dtype="float32").reshape(8, 4)
    run = chx.runs.start(endless_step(w), x, batch_size=3, epochs=5)
    assert run.wait(60).step == 15
    np.testing.assert_array_equal(chx.to_numpy(w), 5 * chx.to_numpy(x).sum(0))
    logged = run.metrics()
    assert logged["epoch"].tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("weights", ["rows", "minibatches"])
def test_weights_of_an_evaluation(session, rng, weights):
    data, targets = problem(rng)
    step, (w, b), _ = make_step("adam", rng.normal(size=(5, 2)).astype("f"))
    x, t = chx.array(data), chx.array(targets)

    def evaluate(x, t):
        return {"loss": chx.mean((chx.tanh(x @ w + b) - t) ** 2)}

    run = chx.runs.start(
        step,
        (x, t),
        batch_size=20,
        epochs=2,
        evaluate=(evaluate, (x[:17], t[:17])),
        evaluate_batch_size=5,
        evaluate_weights=weights,
    )
    run.wait(60)
    parts = [float(evaluate(x[i : i + 5][: 17 - i], t[i : i + 5][: 17 - i])["loss"])
             for i in (0, 5, 10, 15)]  # fmt: skip
    mean = np.average(parts, weights=[5, 5, 5, 2] if weights == "rows" else None)
    logged = run.metrics()["evaluation/loss"]
    assert len(logged) == 2
    assert logged[-1] == pytest.approx(mean, rel=1e-14)
    with pytest.raises(ValueError, match="weights"):
        chx.runs.start(step, (x, t), batch_size=20, epochs=1, evaluate_weights="cows")


def test_steps_of_ones_choice(session):
    """To log, evaluate and pause at."""
    w = chx.zeros((4,))
    total = chx.jit(lambda x: {"total": chx.sum(w) + 0 * chx.sum(x)})
    run = chx.runs.start(
        endless_step(w),
        chx.ones((8, 4)),
        batch_size=2,
        steps=50,
        log_at=[1, 7, 20],
        evaluate=(total, chx.ones((2, 4))),
        evaluate_at=[3, 7],
        pause_at=(7, 8, 30, 50),
    )
    seen, added = [], 0
    for event in run:
        seen.append((event.kind, event.step))
        if event.kind == "paused":
            assert run.state == "paused"
            assert chx.to_numpy(w).tolist() == [2.0 * event.step + added] * 4
            w += 1  # counts in the next step
            added += 1
            run.resume()
    assert seen == [
        ("started", 1),
        ("log", 1),
        ("evaluation", 3),
        ("log", 7),
        ("evaluation", 7),
        ("paused", 7),
        ("resumed", 7),
        ("paused", 8),
        ("resumed", 8),
        ("log", 20),
        ("paused", 30),
        ("resumed", 30),
        ("log", 50),
        ("evaluation", 50),
        ("ended", 50),
    ]
    logged = run.metrics()
    np.testing.assert_array_equal(logged["evaluation/total"], [24, 56, 400 + 12])
    # Means since then, with what was added to 4 elements at 7, 8 and 30.
    sums = 8.0 * np.arange(1, 51) + 4 * sum(np.arange(1, 51) > at for at in (7, 8, 30))
    means = [sums[0], sums[1:7].mean(), sums[7:20].mean(), sums[20:].mean()]
    np.testing.assert_allclose(logged["loss"], means, rtol=1e-14)
    # At the first step, and stopped there.
    run = chx.runs.start(endless_step(w), chx.ones((8, 4)), batch_size=2, steps=9, pause_at=[1])
    kinds = []
    for event in run:
        kinds.append(event.kind)
        if event.kind == "paused":
            run.stop()
    assert kinds == ["started", "paused", "ended"]


def test_a_rule_in_the_steps_of_the_client(session):
    """The run ends after those that were made."""
    w = chx.zeros((4,))
    run = chx.runs.start(
        endless_step(w),
        chx.ones((8, 4)),
        batch_size=3,
        epochs=5,
        log_every=1,
        stop=[chx.runs.above("loss", 20.0)],
    )
    end = run.wait(60)
    assert (end.reason, end.step) == ("rule", 3)
    assert run.metrics()["step"].tolist() == [1, 2]
    assert chx.to_numpy(w).tolist() == [8.0] * 4


@pytest.mark.parametrize("size", [10, 8])
@pytest.mark.parametrize("jitted", [False, True])
def test_augmentation(session, rng, size, jitted):
    """Random flips and noise, beside a step with dropout; also with rows that are left over."""
    data, targets = problem(rng)
    start = rng.normal(size=(5, 2)).astype("f")

    def augment(x, t):
        flipped = chx.where(chx.random.uniform(size=(x.shape[0], 1)) < 0.5, x[:, ::-1], x)
        return [flipped + 0.1 * chx.random.normal(size=x.shape).astype(x.dtype), t]

    def evaluate(x):
        return chx.sum(x @ params[0])

    step, params, optimizer = make_step("dropout", start)
    run = chx.runs.start(
        chx.jit(step) if jitted else step,
        (chx.array(data), chx.array(targets)),
        batch_size=size,
        epochs=3,
        shuffle=7,
        augment=chx.jit(augment) if jitted else augment,
        log_every=1,
        evaluate=(evaluate, chx.array(data)),
    )
    assert run.wait(60).reason == "done"
    logged = run.metrics()
    later = chx.random.uniform(size=3).tolist()

    trained = params
    step, params, other = make_step("dropout", start)
    losses = []
    for epoch in range(3):
        order = chx.runs.order(7, epoch, 60)
        for begin in range(0, 60, size):
            rows = order[begin:][:size]
            result = step(*augment(chx.array(data[rows]), chx.array(targets[rows])))
            losses.append(float(result["loss"]))
    assert logged["loss"].tolist() == losses
    assert logged["evaluation/loss"][-1] == float(evaluate(chx.array(data)))
    assert_equal_bits(trained, params)
    assert optimizer.t == other.t
    assert chx.random.uniform(size=3).tolist() == later


def test_augmentation_gives_one_array(session):
    w = chx.zeros((4,))
    x = chx.arange(32, dtype="float32").reshape(8, 4)
    run = chx.runs.start(endless_step(w), x, batch_size=2, epochs=1, augment=lambda x: 2 * x)
    assert run.wait(60).step == 4
    np.testing.assert_array_equal(chx.to_numpy(w), 2 * chx.to_numpy(x).sum(0))


def test_arguments(session):
    x = chx.ones((8, 4))
    step = endless_step(chx.zeros((4,)))
    for options, message in [
        ({"rows": [[0, 8]]}, "rows of 0 to 7"),
        ({"rows": [[0, -1]]}, "rows of 0 to 7"),
        ({"rows": [0, 1]}, "steps, batch size"),
        ({"rows": [[0.5]]}, "integers"),
        ({"rows": []}, "integers"),
        ({"rows": [[]]}, "integers"),
        ({"rows": [[0]], "batch_size": 1}, "rows, or"),
        ({"rows": [[0]], "shuffle": 1}, "rows, or"),
        ({"rows": [[0]], "steps": 1}, "rows, or"),
        ({"steps": 1}, "batch size"),
        ({"batch_size": 3, "steps": 4, "log_at": [5]}, "log_at of steps 1 to 4"),
        ({"batch_size": 3, "steps": 4, "pause_at": [0]}, "pause_at"),
        ({"batch_size": 3, "steps": 4, "evaluate_at": [-1]}, "evaluate_at"),
        (
            {"batch_size": 2, "steps": 1, "evaluate": (step, x), "evaluate_batch_size": 9},
            "evaluate_batch_size",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            chx.runs.start(step, x, **options)

    def differs(x):
        return {"a": chx.sum(x)} if x.shape[0] == 3 else {"b": chx.sum(x)}

    with pytest.raises(ValueError, match="same results"):
        chx.runs.start(differs, x, batch_size=3, epochs=1)
    assert chx.runs.list() == []
