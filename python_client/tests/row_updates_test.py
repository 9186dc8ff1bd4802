"""SGD of an embedding in a repeated step: only the rows that were taken are updated, with the bits of
the step in eager mode, where the gradient is a whole array."""

import chx
import numpy as np
import pytest

ROWS, COLUMNS = 37, 600  # more columns than a thread takes at once


def table(rng, dtype):
    values = rng.standard_normal((ROWS, COLUMNS)).astype("float32")
    values[0] = -0.0
    values[1, :3] = np.nan, np.inf, -np.inf
    return chx.array(values).astype(dtype).require_grad()


def make_step(w, bias, optimizer, clear_after=True, **options):
    def step(ids, x):
        if not clear_after:
            optimizer.cleargrads()
        y = chx.embedding(ids, w, **options)
        loss = chx.sum(y * x + bias)
        loss.backward()
        optimizer.update()
        if clear_after:
            optimizer.cleargrads()
        return loss

    return step


def bits(*arrays):
    return [chx.to_numpy(a).tobytes() for a in arrays]


def both(rng, steps, run, dtype="float32", lr=0.25, ids_dtype="int64", **options):
    """The parameters after these steps in eager mode and as `run` makes them, and what runs."""
    weights, bias = table(rng, dtype), chx.zeros(COLUMNS, dtype).require_grad()
    found = []
    for way in (lambda step: step, run):
        w, b = (p.as_grad_stopped(copy=True).require_grad() for p in (weights, bias))
        optimizer = chx.optimizers.SGD(lr=lr).setup([w, b])
        step = way(make_step(w, b, optimizer, **options))
        for i, ids in enumerate(steps):
            x = chx.array(np.full((COLUMNS,), 1 + i, "float32")).astype(dtype)
            if callable(lr):
                optimizer.lr = lr(i)
            step(chx.array(ids.astype(ids_dtype)), x)
        found.append(bits(w, b))
    return found, step


def draws(rng, count=4):
    """Ids with repetitions, and some that count from the end."""
    return [rng.integers(-ROWS, ROWS, (3, 8)) for _ in range(count)]


@pytest.mark.parametrize("ids_dtype", ["int64", "int32", "int8"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_recorded(rng, dtype, ids_dtype):
    (want, got), step = both(rng, draws(rng), chx.jit, dtype, ids_dtype=ids_dtype)
    assert got == want
    text = step.explain()
    assert "sgd_update_rows" in text
    assert "take_grad" not in text
    assert "sgd_update(" in text  # of the other parameter


@pytest.mark.parametrize("lr", [0.0, -0.0, -0.5, float("inf"), -float("inf"), float("nan"), 1e300])
def test_any_rate(rng, lr):
    for dtype in ("float32", "float64"):
        (want, got), step = both(rng, draws(rng), chx.jit, dtype, lr=lr)
        assert got == want
        assert "sgd_update_rows" in step.explain()


def test_padding(rng):
    (want, got), step = both(rng, draws(rng), chx.jit, padding_idx=3)
    assert got == want
    assert "sgd_update_rows" in step.explain()


def test_no_indices(rng):
    none = np.zeros((0,), "int64")
    (want, got), step = both(rng, [none] * 3, chx.jit)
    assert got == want
    assert "sgd_update_rows" in step.explain()


def test_a_rate_that_varies(rng):
    weights, bias = table(rng, "float32"), chx.zeros(COLUMNS).require_grad()
    ids = draws(rng, 3)
    found = []
    for records in (False, True):
        w, b = (p.as_grad_stopped(copy=True).require_grad() for p in (weights, bias))
        optimizer = chx.optimizers.SGD().setup([w, b])
        step = make_step(w, b, optimizer)

        def step_at(rate, ids, x, optimizer=optimizer, step=step):
            optimizer.lr = rate
            return step(ids, x)

        run = chx.jit(step_at) if records else step_at
        for i, rate in zip(ids, [0.5, 1.0, 2.0], strict=True):
            run(rate, chx.array(i), chx.ones(COLUMNS))
        found.append(bits(w, b))
    assert found[0] == found[1]
    assert run.cache_info().currsize == 1
    assert "sgd_update_rows" in run.explain()


def test_windows_that_nobody_recorded(rng):
    """Steps of a loop whose results nobody reads are repeated by plans, too."""
    (want, got), _ = both(rng, draws(rng, 12), chx.jit)
    assert got == want


def test_gradients_that_are_seen_are_whole(rng):
    w, b = table(rng, "float32"), chx.zeros(COLUMNS).require_grad()
    optimizer = chx.optimizers.SGD(lr=0.5).setup([w, b])
    step = chx.jit(make_step(w, b, optimizer, clear_after=False))
    for ids in ([1, 2, 2], [3, 3, 5]):
        step(chx.array(np.array(ids)), chx.ones(COLUMNS))
    assert "sgd_update_rows" not in step.explain()
    want = np.zeros((ROWS, COLUMNS), "float32")
    np.add.at(want, [3, 3, 5], 1)
    np.testing.assert_array_equal(chx.to_numpy(w.grad), want)


@pytest.mark.parametrize(
    "change",
    [
        lambda optimizer: optimizer.add_hook(chx.optimizers.WeightDecay(0.1)),
        lambda optimizer: optimizer.add_hook(chx.optimizers.GradientClipping(1.0)),
    ],
)
def test_hooks_see_whole_gradients(rng, change):
    ids = draws(rng)
    weights, bias = table(rng, "float64"), chx.zeros(COLUMNS, "float64").require_grad()
    found = []
    for records in (False, True):
        w, b = (p.as_grad_stopped(copy=True).require_grad() for p in (weights, bias))
        optimizer = chx.optimizers.SGD(lr=0.5).setup([w, b])
        change(optimizer)
        step = make_step(w, b, optimizer)
        step = chx.jit(step) if records else step
        for i in ids:
            step(chx.array(i), chx.ones(COLUMNS, "float64"))
        found.append(bits(w, b))
    assert found[0] == found[1]
    assert "sgd_update_rows" not in step.explain()


def test_a_bad_index_changes_nothing(rng):
    w, b = table(rng, "float32"), chx.zeros(COLUMNS).require_grad()
    step = chx.jit(make_step(w, b, chx.optimizers.SGD(lr=0.5).setup([w, b])))
    for _ in range(2):
        step(chx.array(np.array([1, 2])), chx.ones(COLUMNS))
    before = bits(w, b)
    with pytest.raises(IndexError, match=str(ROWS)):
        float(step(chx.array(np.array([1, ROWS])), chx.ones(COLUMNS)))
    assert bits(w, b) == before
    assert "sgd_update_rows" in step.explain()
    step(chx.array(np.array([1, 2])), chx.ones(COLUMNS))
    assert bits(w, b) != before


def test_two_tables_and_a_large_one(rng):
    """Against NumPy: of two tables, one is taken from twice, and its gradient is a whole array."""
    small, large = rng.standard_normal((5, 3)), rng.standard_normal((3000, 70))
    a, b = (chx.array(v).require_grad() for v in (small, large))
    optimizer = chx.optimizers.SGD(lr=0.5).setup([a, b])

    @chx.jit
    def step(i, j):
        loss = chx.sum(chx.embedding(i, a) ** 2) + chx.sum(a.take(j, axis=0))
        loss = loss + chx.sum(chx.embedding(j, b) ** 2)
        loss.backward()
        optimizer.update()
        optimizer.cleargrads()

    for _ in range(3):
        i, j = rng.integers(0, 5, 4), rng.integers(0, 5, 900)
        step(chx.array(i), chx.array(j))
        grads = [np.zeros_like(small), np.zeros_like(large)]
        np.add.at(grads[0], i, 2 * small[i])
        np.add.at(grads[0], j, 1)
        np.add.at(grads[1], j, 2 * large[j])
        small, large = small - 0.5 * grads[0], large - 0.5 * grads[1]
    np.testing.assert_allclose(chx.to_numpy(a), small, rtol=1e-12)
    np.testing.assert_allclose(chx.to_numpy(b), large, rtol=1e-12)
    text = step.explain()
    assert text.count("sgd_update_rows") == 1
    assert text.count("take_grad") == 2
