"""Counting, bins, distinct elements and borders against NumPy, and what NumPy refuses."""

import chx
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("seeded_session")


def same(got, want):
    got, want = chx.to_numpy(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("given", [chx.array, np.asarray, lambda b: b.tolist()])
def test_digitize(rng, given, right):
    bins = np.sort(rng.integers(0, 10, 7)).astype("float64")
    x = rng.integers(-1, 11, (4, 5)).astype("float64")
    for b in (bins, bins[::-1].copy(), bins[:1], bins[:0], np.ones(3)):
        same(chx.digitize(chx.array(x), given(b), right), np.digitize(x, b, right))
    for bad in ([1.0, 3, 2], [3.0, 1, 2]):
        with pytest.raises(
            ValueError, match=r"\[digitize\] expects bins that increase or decrease"
        ):
            chx.digitize(chx.array(x), given(np.array(bad)))
    with pytest.raises(ValueError, match=r"\[digitize\] expects bins of one dimension"):
        chx.digitize(chx.array(x), given(np.ones((2, 2))))


def test_searchsorted_and_bincount(rng):
    with pytest.raises(chx.DimensionError, match=r"\[searchsorted\] expects one dimension"):
        chx.searchsorted(chx.ones((2, 2)), 1)
    flags = rng.integers(0, 2, 9) == 1
    same(chx.bincount(chx.array(flags)), np.bincount(flags))
    x, weights = rng.integers(0, 5, 9), rng.standard_normal(9)
    got = chx.bincount(chx.array(x), weights.tolist(), 7)
    np.testing.assert_allclose(chx.to_numpy(got), np.bincount(x, weights, 7))
    with pytest.raises(ValueError, match=r"\[bincount\] expects minlength from 0 on, got -1"):
        chx.bincount(chx.array(x), minlength=-1)
    with pytest.raises(ValueError, match=r"\[bincount\] expects numbers from 0 on"):
        chx.bincount(chx.array([-1]))


def test_histogram(rng):
    a = rng.standard_normal(30)
    a[3] = np.nan
    x = chx.array(a)
    for bad in ((3, 1), (np.nan, 1), (0, np.inf), None):
        with pytest.raises(ValueError, match=r"\[histogram\] expects a finite range that rises"):
            chx.histogram(x, range=bad)
        with pytest.raises(ValueError):
            np.histogram(a, range=bad)
    for got, want in zip(
        chx.histogram(x, range=(-1, 1)), np.histogram(a, range=(-1, 1)), strict=True
    ):
        same(got, want)


@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1])
@pytest.mark.parametrize("dtype", ["int64", "float32", "bool"])
def test_unique(rng, axis, dtype):
    a = rng.integers(0, 2, (5, 4, 3)).astype(dtype)
    a[3], a[:, 2], a[..., 2] = a[1], a[:, 0], a[..., 1]
    got = chx.unique(chx.array(a), True, True, True, axis)
    want = np.unique(a, True, True, True, axis)
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        same(g, w.ravel() if i == 2 else w)  # NumPy 2 gives places the array's shape
    same(chx.unique(chx.array(a), axis=axis), want[0])


def test_unique_with_nans():
    a = np.array([np.nan, 1, np.nan, 1])
    for equal_nan in (True, False):
        same(chx.unique(chx.array(a), equal_nan=equal_nan), np.unique(a, equal_nan=equal_nan))
    same(chx.unique(chx.array(a[:, None]), axis=0), np.unique(a[:, None], axis=0))
    same(chx.unique(chx.zeros((4,)), axis=0), np.zeros(1, "float32"))
    same(chx.unique(chx.zeros((0, 2)), axis=0), np.zeros((0, 2), "float32"))
    with pytest.raises(chx.DimensionError, match=r"\[unique\] expects an axis in \[-2, 2\), got 2"):
        chx.unique(chx.ones((2, 2)), axis=2)


def test_array_equal(rng):
    a = rng.integers(0, 3, (2, 3))
    x = chx.array(a)
    assert chx.array_equal(x, a) and chx.array_equal(x, a.tolist())
    assert not chx.array_equal(x, a + 1) and not chx.array_equal(x, a[0])


def test_pad_refuses():
    x = chx.ones((2, 2))
    for width in (1.5, [[1.0, 2.0]], [(True, False)]):
        with pytest.raises(TypeError, match=r"\[pad\] expects integers as widths"):
            chx.pad(x, width)
    with pytest.raises(TypeError, match=r"\[pad\] expects other keywords with a function only"):
        chx.pad(x, 1, depth=3)


def test_pad_by_medians(rng):
    a = rng.standard_normal((4, 5))
    a[0, 4] = a[2, 2] = np.nan
    for length in (None, 1, 2, 3):
        got = chx.pad(chx.array(a), ((1, 2), (3, 0)), "median", stat_length=length)
        same(got, np.pad(a, ((1, 2), (3, 0)), "median", stat_length=length))


def test_pad_by_functions(rng):
    calls = []

    def border(vector, widths, axis, kwargs):
        calls.append((widths, axis))
        vector[: widths[0]] = kwargs.get("value", 10) + axis
        vector[-widths[1] :] = 2 * vector[widths[0]]

    for shape in ((3,), (2, 3), (2, 1, 3)):
        a = rng.integers(0, 9, shape)
        for keywords in ({}, {"value": 5}):
            calls.clear()
            got = chx.pad(chx.array(a), (2, 1), border, **keywords)
            ours = list(calls)
            calls.clear()
            same(got, np.pad(a, (2, 1), border, **keywords))
            assert ours == calls


def test_averages_of_small_integers():
    a = np.array([200, 100], "uint8")
    x = chx.array(a)
    assert chx.average(x, weights=x).item() == pytest.approx(np.average(a, weights=a))


def test_powers_are_whole():
    with pytest.raises(TypeError):
        chx.linalg.matrix_power(chx.ones((2, 2), "int64"), 1.5)
