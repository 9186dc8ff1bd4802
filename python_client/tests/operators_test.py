"""Operators of ndarray against NumPy: with arrays, scalars and what is neither."""

import operator

import chx
import numpy as np
import pytest


def check(actual, expected, dtype=None, rtol=1e-6):
    """The same values, shape and dtype."""
    expected = np.asarray(expected)
    assert type(actual) is chx.ndarray
    assert actual.shape == expected.shape
    assert actual.dtype == (expected.dtype if dtype is None else np.dtype(dtype))
    np.testing.assert_allclose(chx.to_numpy(actual), expected, rtol=rtol)


ARITHMETIC = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
INPLACE = [
    operator.iadd,
    operator.isub,
    operator.imul,
    operator.itruediv,
    operator.ifloordiv,
    operator.imod,
]


@pytest.mark.parametrize("op", ARITHMETIC + COMPARISONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_array_with_array(op, dtype):
    x = np.array([[1.5, -2.0, 3.0], [0.5, 2.0, 7.0]], dtype)
    y = np.array([2.0, 3.0, -2.0], dtype)
    rtol = 2e-3 if dtype == np.float16 else 1e-5
    expected = op(x, y)
    check(op(chx.array(x), chx.array(y)), expected, rtol=rtol)
    check(op(chx.array(y), chx.array(x)), op(y, x), rtol=rtol)


@pytest.mark.parametrize("op", ARITHMETIC + COMPARISONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "scalar", [3, 2.5, True, np.int8(2), np.float32(1.5), np.float64(0.5), np.bool_(True)], ids=repr
)
def test_array_with_scalar(op, scalar):
    x = np.array([1.5, -2.0, 3.0], np.float32)
    y = np.float32(scalar)
    if isinstance(scalar, (bool, np.bool_)) and op in ARITHMETIC and op is not operator.mul:
        for operands in ((chx.array(x), scalar), (scalar, chx.array(x))):
            with pytest.raises(chx.DtypeError):
                op(*operands)
        return
    dtype = np.bool_ if op in COMPARISONS else np.float32
    check(op(chx.array(x), scalar), op(x, y), dtype, rtol=1e-5)
    check(op(scalar, chx.array(x)), op(y, x), dtype, rtol=1e-5)


@pytest.mark.parametrize("op", INPLACE, ids=lambda f: f.__name__)
@pytest.mark.parametrize("other", [3, 1.5, np.array([2.0, 0.5], np.float32)], ids=repr)
def test_in_place(op, other):
    x = np.array([[1.0, 2.0], [-3.0, 4.5]], np.float32)
    a = chx.array(x)
    view = a[0]
    operand = chx.array(other) if isinstance(other, np.ndarray) else other
    b = op(a, operand)
    assert b is a
    expected = op(x.copy(), other)
    check(a, expected)
    check(view, expected[0])


def test_unary():
    x = np.array([-1.0, 0.0, 2.5])
    check(-chx.array(x), -x)
    check(abs(chx.array(x)), abs(x))


def test_matmul():
    x, y = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    check(chx.array(x) @ chx.array(y), x @ y)
    check(chx.array(x[0]) @ chx.array(y), x[0] @ y)
    with pytest.raises(ValueError):  # as NumPy
        chx.array(x) @ 2.0
    with pytest.raises(chx.DimensionError):
        chx.array(x) @ chx.array(x)


@pytest.mark.parametrize(
    ("dtype", "scalar", "expected"),
    [
        (np.int8, 1, np.int8),
        (np.int8, 1.5, np.float32),
        (np.bool_, 1, np.int32),
        (np.float16, 1.5, np.float16),
        (np.float64, 1, np.float64),
        (np.uint8, np.float64(1), np.float32),
        (np.int64, np.int8(1), np.int64),
    ],
)
def test_scalars_keep_the_arrays_width(dtype, scalar, expected):
    a = chx.ones(2, dtype)
    assert (a * scalar).dtype == expected
    assert (scalar * a).dtype == expected


@pytest.mark.parametrize("other", ["text", None, ["text"], object(), 1j], ids=repr)
def test_other_operands_are_not_implemented(other):
    a = chx.zeros(2)
    assert a.__add__(other) is NotImplemented
    if other is not None:
        assert a.__eq__(other) is NotImplemented
    with pytest.raises(TypeError):
        a + other
    with pytest.raises(TypeError):
        a += other


@pytest.mark.parametrize("compare", COMPARISONS, ids=lambda f: f.__name__)
def test_comparing_with_none(compare):
    for shape in [(2,), (), (0, 3)]:
        for operands in [(chx.zeros(shape), None), (None, chx.zeros(shape))]:
            if compare in (operator.eq, operator.ne):
                check(compare(*operands), np.full(shape, compare is operator.ne))
                continue
            with pytest.raises(TypeError, match="not supported between"):
                compare(*operands)
    assert None not in chx.zeros(2)


def test_in_place_power():
    a = b = chx.array([2.0, 3.0])
    a **= 2
    assert a is b
    check(b, [4.0, 9.0])
    # As in ChainerX: an array in a graph is not written.
    c = d = chx.array([2.0, 3.0]).require_grad()
    c **= 2
    assert c is not d and c.is_backprop_required()
    check(d, [2.0, 3.0])
    b **= d
    assert a is not b and b.is_backprop_required()
    with pytest.raises(TypeError):
        pow(a, 2, 3)


def test_integers_out_of_range():
    with pytest.raises(OverflowError):
        chx.zeros(2) + 2**64


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: chx.zeros(2) + chx.zeros(3), chx.DimensionError),
        (lambda: -chx.zeros(2, bool), chx.DtypeError),
        (lambda: chx.zeros(2, bool) - chx.zeros(2, bool), chx.DtypeError),
        (lambda: operator.iadd(chx.zeros(2), chx.zeros((2, 2))), chx.DimensionError),
        (lambda: operator.iadd(chx.zeros(2, int), 1.5), chx.DtypeError),
        (lambda: operator.itruediv(chx.zeros(2, int), 2), chx.DtypeError),
        (lambda: chx.zeros((2, 3)).reshape(4), chx.DimensionError),
        (lambda: chx.zeros(2, np.int32).require_grad(), chx.DtypeError),
        (lambda: chx.zeros(-1), chx.DimensionError),
    ],
)
def test_errors_come_out_of_the_call(call, error):
    with pytest.raises(error):
        call()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("exponent", [1, 2, 1.0, 2.0])
def test_first_and_second_powers_are_exact(dtype, exponent):
    """As products, also of special values, in any layout, and where fused."""
    special = [0.0, -0.0, -1.5, np.inf, -np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).tiny]
    a = np.resize(np.array(special + [1 / 3, -7e-4], dtype), (40, 501))
    with np.errstate(over="ignore", under="ignore"):
        want = a * a if exponent == 2 else a
    x = chx.array(a)
    power = chx.jit(lambda x: x**exponent)
    power(x)
    for y in (x**exponent, chx.power(x, exponent), power(x)):
        assert y.dtype == a.dtype
        np.testing.assert_array_equal(chx.to_numpy(y), want)
        signs = np.signbit(chx.to_numpy(y)) == np.signbit(want)
        assert np.all(signs | np.isnan(want))
    np.testing.assert_array_equal(chx.to_numpy(x[::-2, ::3] ** exponent), want[::-2, ::3])
    gradient = chx.grad([x.require_grad() ** exponent], [x])[0]
    with np.errstate(over="ignore"):
        want = 2 * a if exponent == 2 else np.ones_like(a)
    np.testing.assert_array_equal(chx.to_numpy(gradient), want)
