"""chx.checkpoint: the same gradients as without it, by less memory; chx.dropout, which it replays."""

import chx
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def session(seeded_session):
    yield seeded_session


def leaf(rng, *shape):
    return chx.array(rng.normal(size=shape)).require_grad()


def block(x, weights, factor=1.0):
    for w in weights["w"]:
        x = chx.dropout(chx.tanh(x @ w), 0.3)
    return x, [x.sum() * factor]


def gradients(function, leaves, double):
    x, *ws = leaves
    for a in leaves:
        a.cleargrad()
    chx.random.seed(3)
    y, (total,) = function(x, {"w": ws}, factor=2.0)
    loss = (y * y).sum() + total
    after = float(chx.random.uniform())  # the stream goes on as without a checkpoint
    if double:
        (gx,) = chx.grad([loss], [x], enable_double_backprop=True)
        loss = (gx * gx).sum()
    loss.backward()
    return [float(loss), after] + [chx.to_numpy(a.grad) for a in leaves]


@pytest.mark.parametrize("double", [False, True])
def test_gradients_are_those_without_it(rng, double):
    leaves = [leaf(rng, 5, 4)] + [leaf(rng, 4, 4) for _ in range(3)]
    expected = gradients(block, leaves, double)
    for got, want in zip(gradients(chx.checkpoint(block), leaves, double), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def test_numerical_gradients_of_first_and_second_order(rng):
    x, w = leaf(rng, 3, 2), leaf(rng, 2, 2)
    gy, ggx, ggw = leaf(rng, 3, 2), leaf(rng, 3, 2), leaf(rng, 2, 2)
    eps = [chx.full(a.shape, 1e-4, "float64") for a in (x, w, gy)]
    function = chx.checkpoint(lambda x, w: chx.tanh(x @ w))
    chx.check_backward(lambda a: [function(*a)], [x, w], [gy.as_grad_stopped()], eps[:2])
    chx.check_double_backward(lambda a: [function(*a)], [x, w], [gy], [ggx, ggw], eps)


def test_arguments_that_depend_on_each_other(rng):
    u = leaf(rng, 4)
    results = []
    for function in (chx.multiply, chx.checkpoint(lambda a, b: a * b)):
        v = u * 2.0
        (g,) = chx.grad([function(v, v * v).sum()], [u], enable_double_backprop=True)
        (gg,) = chx.grad([g.sum()], [u])
        results.append([chx.to_numpy(g), chx.to_numpy(gg)])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-13)
    np.testing.assert_allclose(results[1][0], 24 * chx.to_numpy(u) ** 2, rtol=1e-12)


def test_graphs_of_scopes():
    x = chx.array([3.0]).require_grad()
    with chx.backprop_scope("inner") as inner:
        z = chx.array([2.0]).require_grad(inner)
        y = chx.checkpoint(lambda z, x: z * z * x)(z, x)
        (gz,) = chx.grad([y], [z], inner)
        (gx,) = chx.grad([gz], [x])
    assert float(gz) == 12
    assert float(gx) == 4


def test_it_is_called_again_once_for_each_walk(rng):
    calls = []

    def function(x, scale):
        calls.append(scale)
        return x * scale, x, "beside"

    x = leaf(rng, 3)
    y, same, text = chx.checkpoint(function)(x, 2.0)
    assert (calls, text) == ([2.0], "beside")
    (y.sum() + same.sum()).backward()
    assert calls == [2.0, 2.0]
    np.testing.assert_array_equal(chx.to_numpy(x.grad), [3, 3, 3])
    with chx.no_backprop_mode():
        chx.checkpoint(function)(x, 1.0)
    chx.checkpoint(function)(x.as_grad_stopped(), 1.0)[0].sum()
    assert calls == [2.0, 2.0, 1.0, 1.0]


def test_what_is_no_argument_is_refused(rng):
    x, w = leaf(rng, 3), leaf(rng, 3)
    with pytest.raises(chx.ChainerxError, match=r"\[checkpoint\] expects arrays that require"):
        chx.checkpoint(lambda a: a * w)(x)
    constant = w.as_grad_stopped()
    chx.checkpoint(lambda a: a * constant)(x).sum().backward()
    np.testing.assert_array_equal(chx.to_numpy(x.grad), chx.to_numpy(constant))
    nested = [x]
    nested.append(nested)
    with pytest.raises(ValueError, match=r"\[checkpoint\] expects containers"):
        chx.checkpoint(lambda a: a[0])(nested)


def test_errors_in_the_second_call_come_out(rng):
    calls = []

    def fails(x):
        calls.append(x)
        if len(calls) == 2:
            raise KeyError("second")
        return x * 2

    x = leaf(rng, 3)
    y = chx.checkpoint(fails)(x)
    chx.random.seed(1)
    with pytest.raises(KeyError, match="second"):
        y.sum().backward()
    first = float(chx.random.uniform())
    chx.random.seed(1)
    assert float(chx.random.uniform()) == first  # the session's stream is its own again


def test_random_numbers_may_be_new(rng):
    x = chx.ones((1000,)).require_grad()
    y = chx.checkpoint(lambda a: chx.dropout(a, 0.5))(x)
    y.sum().backward()
    np.testing.assert_array_equal(chx.to_numpy(x.grad), chx.to_numpy(y))
    x.cleargrad()
    y = chx.checkpoint(lambda a: chx.dropout(a, 0.5), preserve_rng_state=False)(x)
    y.sum().backward()
    assert not np.array_equal(chx.to_numpy(x.grad), chx.to_numpy(y))


def test_in_a_recorded_function(rng):
    x = leaf(rng, 3, 3)

    def step(x, wrap):
        y = wrap(lambda q: chx.tanh(q @ q))(x).sum()
        return chx.grad([y], [x])[0]

    expected = chx.to_numpy(step(x, lambda f: f))
    recorded = chx.jit(lambda x: step(x, chx.checkpoint))
    for _ in range(3):
        np.testing.assert_allclose(chx.to_numpy(recorded(x)), expected, rtol=1e-12)


def test_memory_is_that_of_one_block():
    """Of 12 blocks of 8 arrays of a MiB each: with all of them kept there would be no room."""
    side = 512

    def layers(x):
        for _ in range(8):
            x = chx.exp(chx.sin(x) * 0.1)
        return x

    def run(function):
        x = chx.ones((side, side), "float32").require_grad()
        y = x
        for _ in range(12):
            y = function(y)
        loss = y.sum()
        float(loss)  # waits: what has failed raises here
        loss.backward()
        return chx.to_numpy(x.grad)

    default = chx._core._get_default_session()
    try:
        with chx.connect(memory="2GiB"):
            expected = run(layers)
        with chx.connect(memory="64MiB"), pytest.raises(chx.OutOfMemoryError):
            run(layers)
        with chx.connect(memory="64MiB"):
            got = run(chx.checkpoint(layers))
    finally:
        chx._core._set_default_session(default)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dropout(dtype):
    x = chx.full((300, 400), 3, dtype).require_grad()
    chx.random.seed(5)
    y = chx.dropout(x, 0.25)
    assert y.dtype == x.dtype
    values = chx.to_numpy(y).astype("float64")
    zeros = values == 0
    assert abs(zeros.mean() - 0.25) < 0.006  # 4.8 deviations
    np.testing.assert_allclose(values[~zeros], 4.0, rtol=1e-3 if dtype == "float16" else 1e-6)
    y.backward()
    np.testing.assert_allclose(chx.to_numpy(x.grad).astype("float64"), values / 3, rtol=1e-3)
    chx.random.seed(5)
    np.testing.assert_array_equal(chx.to_numpy(chx.dropout(x, 0.25)), chx.to_numpy(y))
    assert not np.array_equal(chx.to_numpy(chx.dropout(x, 0.25)), chx.to_numpy(y))


def test_the_ends_of_dropout():
    x = chx.array([1.0, 2.0]).require_grad()
    assert chx.dropout(x, 0.5, training=False) is x
    assert chx.dropout(x, 0) is x
    y = chx.dropout(x, 1)
    y.backward()
    assert y.tolist() == x.grad.tolist() == [0, 0]
    assert chx.dropout(chx.ones((0, 3)), 0.5).shape == (0, 3)
    with pytest.raises(ValueError, match=r"\[dropout\] expects p in"):
        chx.dropout(x, 1.5)
    with pytest.raises(chx.DtypeError, match=r"\[dropout\] expects floats"):
        chx.dropout(chx.arange(3), 0.5)


def test_dropout_in_a_recorded_function():
    recorded = chx.jit(lambda x: chx.dropout(x, 0.5))
    x = chx.ones((1000,))
    chx.random.seed(7)
    expected = [chx.to_numpy(chx.dropout(x, 0.5)) for _ in range(3)]
    chx.random.seed(7)
    for want in expected:
        np.testing.assert_array_equal(chx.to_numpy(recorded(x)), want)
