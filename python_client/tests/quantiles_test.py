"""Quantiles against NumPy: all methods, infinities, NaNs, nothing; gradients against differences."""

import warnings

import chx
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("seeded_session")
METHODS = (
    "inverted_cdf averaged_inverted_cdf closest_observation interpolated_inverted_cdf hazen weibull "
    "linear median_unbiased normal_unbiased lower higher midpoint nearest"
).split()


def close(got, want):
    got, want = chx.to_numpy(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def closest_observations(a, q, axis, method):
    """Definition 3 of Hyndman and Fan (1996), from which NumPy 1 differed by one place."""
    columns = []
    for column in a.T:
        values = np.sort(column[~np.isnan(column)])
        at = len(values) * q - 0.5
        below = np.floor(at).astype(int)
        chosen = np.where((at == below) & (below % 2 == 0), below, below + 1)
        places = np.clip(chosen, 1, max(len(values), 1)) - 1
        columns.append(values[places] if len(values) else np.full(q.shape, np.nan))
    return np.stack(columns, 1)


@pytest.mark.parametrize("method", METHODS)
def test_methods(rng, method):
    q = np.concatenate([rng.uniform(0, 1, 5), np.linspace(0, 1, 9), np.arange(7) / 6])
    for size in (1, 2, 6, 7, 8):
        a = rng.standard_normal((size, 3))
        quantile = closest_observations if method == "closest_observation" else np.nanquantile
        close(chx.quantile(chx.array(a), q, 0, method=method), quantile(a, q, 0, method=method))
        a[rng.uniform(size=a.shape) < 0.4] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            want = quantile(a, q, 0, method=method)
        close(chx.nanquantile(chx.array(a), q, 0, method=method), want)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("function", [chx.quantile, chx.nanquantile])
def test_gradients(rng, method, function):
    a = rng.permutation(10) * 1.0
    weights = rng.standard_normal(3)
    q = [0.13, 0.5, 0.9]

    def loss(x):
        return chx.sum(function(x, q, method=method) * chx.array(weights))

    x = chx.array(a).require_grad()
    loss(x).backward()
    steps = 1e-3 * np.eye(10)
    numeric = [float(loss(chx.array(a + s)) - loss(chx.array(a - s))) / 2e-3 for s in steps]
    np.testing.assert_allclose(chx.to_numpy(x.grad), numeric, atol=1e-8)


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "nearest", "midpoint"])
def test_infinities(method):
    a = [np.inf, -np.inf, np.nan, 0, -0.0]
    got = chx.to_numpy(chx.nanquantile(chx.array(a), [0, 1], method=method))
    np.testing.assert_array_equal(got, [-np.inf, np.inf])
    assert float(chx.nanmedian(chx.array(a))) == 0
    assert float(chx.nanmedian(chx.array([np.inf, np.nan, np.inf]))) == np.inf
    # From an infinite element to a finite one, the infinite one counts.
    got = chx.quantile(chx.array([-np.inf, 0.0, 1, 2, np.inf]), [0.1, 0.2, 0.3, 0.9])
    np.testing.assert_allclose(chx.to_numpy(got), [-np.inf, -np.inf, 0.2, np.inf])
    assert np.isnan(float(chx.quantile(chx.array([-np.inf, np.inf]), 0.5)))


@pytest.mark.parametrize("axis", [None, 0, -1, (), (0, 1), (0, -1), (2, 0)])
def test_medians_along_axes(rng, axis):
    a = rng.standard_normal((3, 4, 5))
    holed = np.where(rng.uniform(size=a.shape) < 0.2, np.nan, a)
    for keepdims in (False, True):
        close(chx.median(chx.array(a), axis, keepdims), np.median(a, axis, keepdims=keepdims))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            for name in ("median", "nanmedian"):
                want = getattr(np, name)(holed, axis, keepdims=keepdims)
                close(getattr(chx, name)(chx.array(holed), axis, keepdims), want)


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
@pytest.mark.parametrize("axis", [0, -1, (), (0, 1)])
def test_nothing(axis):
    a = np.zeros((0, 3))
    close(chx.nanmedian(chx.array(a), axis), np.nanmedian(a, axis))
    if axis == (0, 1):
        close(chx.median(chx.array(a), axis), np.median(a, axis))
        with pytest.raises(chx.DimensionError, match=r"\[quantile\] expects elements"):
            chx.quantile(chx.array(a), 0.5, axis)


def test_refused():
    x = chx.ones((2, 3))
    with pytest.raises(ValueError, match=r"\[quantile\] expects fractions of the whole, got 1.5"):
        chx.quantile(x, 1.5)
    with pytest.raises(ValueError, match=r"\[quantile\] expects one of .*, got 'best'"):
        chx.quantile(x, 0.5, method="best")
    with pytest.raises(ValueError, match=r"\[median\] expects each axis once"):
        chx.median(x, (0, 0))
