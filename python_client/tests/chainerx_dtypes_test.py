"""What ChainerX's operators take and refuse of dtypes, and of indices that are no arrays."""

import operator

import chx
import numpy as np
import pytest

NUMBERS = [t.__name__ for t in chx.all_dtypes if t is not np.bool_]
ARITHMETIC = {
    "add": operator.add,
    "subtract": operator.sub,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "power": operator.pow,
}
COMPARISONS = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "greater": operator.gt,
    "less_equal": operator.le,
}


def ones(dtype):
    return chx.ones((2, 3), dtype)


@pytest.mark.parametrize("other", ["bool", *NUMBERS])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_refuses_bool_arrays(name, other):
    for x, y in ((ones("bool"), ones(other)), (ones(other), ones("bool"))):
        for function in (getattr(chx, name), ARITHMETIC[name]):
            with pytest.raises(chx.DtypeError):
                function(x, y)


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_refuses_bool_scalars(name):
    for x, y in ((ones("int32"), True), (False, ones("float32")), (ones("bool"), 1)):
        for function in (getattr(chx, name), ARITHMETIC[name]):
            with pytest.raises(chx.DtypeError):
                function(x, y)


@pytest.mark.parametrize("other", ["bool", *NUMBERS])
@pytest.mark.parametrize("name", ["iadd", "isub", "ifloordiv", "imod"])
def test_arithmetic_in_place_refuses_bool(name, other):
    for x, y in ((ones("bool"), ones(other)), (ones(other), ones("bool")), (ones(other), True)):
        with pytest.raises(chx.DtypeError):
            getattr(operator, name)(x, y)


def test_in_place_is_computed_in_the_targets_dtype():
    a = chx.array([5], "int8")
    a %= chx.array([253], "uint8")  # -3 as an int8
    assert (a.dtype, a.tolist()) == ("int8", [-1])


def test_products_take_bool():
    assert (ones("bool") * ones("bool")).dtype == "bool"
    assert (ones("bool") * ones("int8")).dtype == "int8"
    assert (ones("float16") * True).dtype == "float16"


@pytest.mark.parametrize("other", NUMBERS)
@pytest.mark.parametrize("name", [*COMPARISONS, "maximum", "minimum"])
def test_bools_are_not_compared_with_numbers(name, other):
    for x, y in ((ones("bool"), ones(other)), (ones(other), ones("bool"))):
        with pytest.raises(chx.DtypeError):
            getattr(chx, name)(x, y)
        if name in COMPARISONS:
            with pytest.raises(chx.DtypeError):
                COMPARISONS[name](x, y)


def test_bools_are_compared_with_bools_and_scalars():
    x = chx.array([True, False])
    y = chx.array([True, True])
    assert chx.to_numpy(x == y).tolist() == [True, False]
    assert chx.to_numpy(chx.maximum(x, y)).tolist() == [True, True]
    assert chx.to_numpy(x == 1).tolist() == [True, False]


@pytest.mark.parametrize("name", ["left_shift", "right_shift"])
def test_shifts_have_the_first_dtype(name):
    for first in ("int8", "int64", "uint8"):
        for second in ("int8", "int32", "uint8"):
            x = np.array([1, 5, 100], first)
            y = np.array([0, 3, 6], second)
            got = getattr(chx, name)(chx.array(x), chx.array(y))
            expected = getattr(np, name)(x.astype("int64"), y.astype("int64")).astype(first)
            assert got.dtype == first
            np.testing.assert_array_equal(chx.to_numpy(got), expected)
    assert getattr(chx, name)(9, ones("int8")).dtype == "int64"
    assert getattr(chx, name)(ones("int8"), 1).dtype == "int8"


@pytest.mark.parametrize("shift", [operator.lshift, operator.rshift])
def test_shifts_refuse_all_but_integers(shift):
    for dtype in ("bool", "float32"):
        for x, y in ((ones(dtype), ones("int32")), (ones("int32"), ones(dtype))):
            with pytest.raises(chx.DtypeError):
                shift(x, y)
    with pytest.raises(chx.DtypeError):
        shift(ones("int32"), True)


@pytest.mark.parametrize("dtype", ["bool", *NUMBERS])
def test_relu_gives_floats(dtype):
    x = np.array([0, 1, 3], dtype)
    y = chx.relu(chx.array(x))
    assert y.dtype == (dtype if dtype.startswith("float") else "float32")
    np.testing.assert_array_equal(chx.to_numpy(y), np.maximum(x.astype("float32"), 0))


def test_accuracy_of_scores_with_trailing_axes():
    scores = chx.array([[[[0.1]], [[0.9]]], [[[0.8]], [[0.2]]]], "float32")
    assert float(chx.accuracy(scores, chx.array([1, 1]))) == 0.5
    with pytest.raises(chx.DimensionError):
        chx.accuracy(chx.zeros((2, 3, 2)), chx.zeros((2,), "int32"))
    with pytest.raises(chx.DimensionError):
        chx.accuracy(chx.zeros((2, 3)), chx.zeros((2, 1), "int32"))


@pytest.mark.parametrize("ignore_label", [None, 0])
@pytest.mark.parametrize(
    "dtypes",
    ["int16 float16", "int32 int32", "float32 float32", "int64 float64", "float32 bool"]
    + ["bool int32", "float32 uint8"],
)
def test_accuracy_takes_floats_and_signed_integers(dtypes, ignore_label):
    scores, labels = dtypes.split()
    with pytest.raises(chx.DtypeError):
        chx.accuracy(chx.zeros((2, 3), scores), chx.zeros((2,), labels), ignore_label)


@pytest.mark.parametrize(
    "dtypes", ["float32 float64", "float16 float32", "int32 int32", "float32 int8"]
)
def test_lstm_takes_floats_of_one_dtype(dtypes):
    c, x = dtypes.split()
    with pytest.raises(chx.DtypeError):
        chx.lstm(chx.zeros((2, 3), c), chx.zeros((2, 12), x))


def test_fmod_keeps_integers():
    x, y = chx.array([-7, 7, 7, -128], "int8"), chx.array([3, -3, 0, -1], "int8")
    rest = chx.fmod(x, y)
    assert (rest.dtype, rest.tolist()) == ("int8", [-1, 1, 0, 0])
    for divisor, dtype in ((4, "int8"), (chx.array([4] * 4, "int64"), "int64"), (4.0, "float32")):
        rest = chx.fmod(x, divisor)
        assert (rest.dtype, rest.tolist()) == (dtype, [-3, 3, 3, 0])


@pytest.mark.parametrize("other", ["bool", *NUMBERS])
def test_fmod_refuses_bool(other):
    for x, y in ((ones("bool"), ones(other)), (ones(other), ones("bool")), (ones(other), True)):
        with pytest.raises(chx.DtypeError):
            chx.fmod(x, y)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8"])
def test_integers_filled_with_what_they_cannot_hold(dtype, value):
    """As ChainerX on x86: a conversion to 32 or 64 bits, whose low bits narrower dtypes take."""
    lowest = {"int32": -(2**31), "int64": -(2**63)}.get(dtype, 0)
    a = chx.ones(3, dtype)
    a.fill(value)
    assert a.tolist() == [lowest] * 3
    assert chx.full(3, value, dtype).tolist() == [lowest] * 3


@pytest.mark.parametrize("indices", [[1, 0], [[2], [1]], (0, -1), 1, np.array([0, 2], "int8")])
def test_take_of_what_is_no_array(indices):
    values = np.arange(12, dtype="float32").reshape(3, 4)
    a = chx.array(values)
    for axis in (0, 1):
        expected = values.take(indices, axis)
        for got in (chx.take(a, indices, axis), a.take(indices=indices, axis=axis)):
            np.testing.assert_array_equal(chx.to_numpy(got), expected)
    x = chx.array(values).require_grad()
    x.take(indices, 0).backward()
    assert float(x.grad.sum()) == values.take(indices, 0).size


def test_take_fails_at_the_call():
    a = chx.zeros((3, 4))
    for indices in ([3], np.array([0, -4])):
        with pytest.raises(IndexError):
            chx.take(a, indices, 0)
        with pytest.raises(IndexError):
            a.take(chx.array(np.asarray(indices)), 0, mode="raise")
        assert a.take(indices, 0, mode="clip").shape == (len(indices), 4)
    with pytest.raises(chx.DtypeError):
        a.take([0.5], 0)
    with pytest.raises(TypeError):
        chx.take([1.0], [0], 0)
