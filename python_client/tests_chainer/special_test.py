"""Special functions far out, where other formulas have nothing left, against SciPy."""

import chainer
import chainer.functions as F
import chx
import numpy as np
import pytest
from scipy import special

SPACED = {
    "erfcx": (special.erfcx, -5, 200),
    "erfc": (special.erfc, -6, 26),
    "ndtr": (special.ndtr, -37, 10),
    "log_ndtr": (special.log_ndtr, -100, 8),
    "erfinv": (special.erfinv, -1.1, 1.1),
    "erfcinv": (special.erfcinv, -0.1, 2.1),
    "ndtri": (special.ndtri, -0.1, 1.1),
    "lgamma": (special.gammaln, -9.9, 60),
    "digamma": (special.digamma, -9.9, 60),
}
LOGARITHMIC = {
    "erfcx": (special.erfcx, 1e-8, 1e8),
    "erfinv": (special.erfinv, 1e-300, 1 - 1e-12),
    "erfcinv": (special.erfcinv, 1e-300, 1.9),
    "ndtri": (special.ndtri, 1e-300, 0.99),
    "lgamma": (special.gammaln, 1e-10, 1e200),
    "digamma": (special.digamma, 1e-10, 1e200),
}


def compare(name, expected, x, device):
    y = chx.to_numpy(getattr(F, name)(device.send(x)).array)
    np.testing.assert_allclose(y, expected(x), rtol=1e-9, atol=1e-11 if "gamma" in name else 0)


@pytest.mark.parametrize("name", SPACED)
def test_evenly(name, rng, device):
    expected, low, high = SPACED[name]
    x = rng.uniform(low, high, 1000)
    if "gamma" in name:
        x = x[np.abs(x - np.round(x)) > 1e-4]  # not at poles
    compare(name, expected, np.append(x, [low, high]), device)


@pytest.mark.parametrize("name", LOGARITHMIC)
def test_over_orders_of_magnitude(name, rng, device):
    expected, low, high = LOGARITHMIC[name]
    x = np.exp(rng.uniform(np.log(low), np.log(high), 1000))
    compare(name, expected, np.append(x, [low, high]), device)


def test_ends(device):
    x = device.send(np.array([-2.0, -1.0, 0.0, 1.0, 2.0]))
    inf, nan = np.inf, np.nan
    for name, expected in {
        "erfinv": [nan, -inf, 0, inf, nan],
        "erfcinv": [nan, nan, inf, 0, -inf],
        "ndtri": [nan, nan, -inf, inf, nan],
    }.items():
        np.testing.assert_allclose(chx.to_numpy(getattr(F, name)(x).array), expected, atol=1e-16)


@pytest.mark.parametrize("order", [0, 1, 4, 10])
def test_orders(order, rng, device):
    x = rng.uniform(0.05, 30, 200)
    y = F.polygamma(device.send(np.full(200, order, "i")), device.send(x))
    np.testing.assert_allclose(
        chx.to_numpy(y.array), special.polygamma(order, x), 1e-11, 1e-13 if order == 0 else 0
    )
    z = F.zeta(order + 1.1, device.send(x))
    np.testing.assert_allclose(chx.to_numpy(z.array), special.zeta(order + 1.1, x), 1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_dtypes(dtype, device):
    x = chainer.Variable(device.send(np.array([0.25, 0.5], dtype)))
    for name in SPACED:
        y = getattr(F, name)(x)
        assert y.dtype == dtype
        x.cleargrad()
        F.sum(y).backward()
        assert x.grad.dtype == dtype
        np.testing.assert_allclose(
            chx.to_numpy(y.array), SPACED[name][0](chx.to_numpy(x.array).astype("d")), 1e-3
        )
