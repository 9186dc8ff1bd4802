"""Operators of two float dtypes compute in the wider one, and so do their gradients."""

import itertools

import chx
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("seeded_session")

FLOATS = ("float16", "float32", "float64")
OPERATORS = """logaddexp logaddexp2 hypot arctan2 fmod copysign heaviside power divide floor_divide
remainder maximum minimum fmax fmin add subtract multiply float_power""".split()
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
PAIRS = [
    (a, b)
    for a, b in itertools.product((*INTEGERS, *FLOATS), repeat=2)
    if a != b and (a in FLOATS or b in FLOATS)
]


def values(rng, dtype, low=0.5):
    if dtype in INTEGERS:
        return rng.integers(1, 5, 100).astype(dtype)
    return rng.uniform(low, 4, 100).astype(dtype)


def distance(result, reference, *inputs):
    """In units of the result's last place, at the size of what it is computed from."""
    size = np.maximum(np.abs(reference), 1)
    for x in inputs:
        size = np.maximum(size, np.abs(x.astype("float64")))
    return np.max(np.abs(result - reference) / size) / np.finfo(result.dtype).eps


@pytest.mark.parametrize("name", OPERATORS)
def test_values(rng, name):
    if name == "floor_divide":  # of floats only: a quotient next to an integer may be either side
        pairs = [pair for pair in PAIRS if pair[0] in FLOATS and pair[1] in FLOATS]
    else:
        pairs = PAIRS
    for a, b in pairs:
        x, y = values(rng, a), values(rng, b)
        result = chx.to_numpy(getattr(chx, name)(chx.array(x), chx.array(y)))
        if result.dtype.kind != "f":
            continue
        reference = getattr(np, name)(x.astype("float64"), y.astype("float64"))
        assert distance(result, reference, x, y) < 8, (a, b)


@pytest.mark.parametrize("name", ["logaddexp2", "logaddexp", "hypot", "arctan2", "power", "divide"])
def test_gradients(rng, name):
    for dtypes in PAIRS:
        arrays = [values(rng, dtype) for dtype in dtypes]
        floats = [i for i in range(2) if dtypes[i] in FLOATS]

        def gradients(xs, which, name=name):
            xs = [chx.array(x) for x in xs]
            for i in which:
                xs[i].require_grad()
            y = getattr(chx, name)(*xs)
            y.sum().backward()
            return [chx.to_numpy(xs[i].grad) for i in which]

        wide = gradients([x.astype("float64") for x in arrays], floats)
        for i, grad, reference in zip(floats, gradients(arrays, floats), wide, strict=True):
            # A gradient has its input's dtype, and is no better than the operator's.
            widest = max(np.finfo(dtypes[i]).eps, np.finfo(result_dtype(*dtypes)).eps)
            error = np.abs(grad - reference) / np.maximum(np.abs(reference), 1)
            assert np.max(error) / widest < 16, (dtypes, i)


def result_dtype(a, b):
    return chx.divide(chx.ones(1, a), chx.ones(1, b)).dtype


def test_an_integer_is_not_squared_in_its_own_dtype():
    """100 * 100 is not in int8: the gradient was that of another point."""
    x = chx.array([100], "int8")
    y = chx.array([3.0]).require_grad()
    chx.arctan2(x, y).backward()
    np.testing.assert_allclose(chx.to_numpy(y.grad), -100 / (100**2 + 3**2), rtol=1e-6)
