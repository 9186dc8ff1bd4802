"""Functions that the daemon has not: computed with NumPy, differentiated all the same."""

import chainer
import chainer.functions as F
import chx
import numpy as np
import pytest

# Each with arguments that it is defined for.
FUNCTIONS = {
    "digamma": (0.5, 3),
    "erfcinv": (0.2, 1.8),
    "erfcx": (-1, 2),
    "erfinv": (-0.8, 0.8),
    "lgamma": (0.5, 3),
    "log_ndtr": (-2, 2),
    "ndtri": (0.1, 0.9),
}


@pytest.fixture(autouse=True)
def allow():
    chx.config.fallback = "allow"


def compare(call, arrays, device, double=True):
    results = []
    for place in (chainer.get_device("@numpy"), device):
        xs = [
            chainer.Variable(place.send(a)) if a.dtype.kind == "f" else place.send(a)
            for a in arrays
        ]
        y = call(*xs)
        variables = [x for x in xs if isinstance(x, chainer.Variable)]
        grads = chainer.grad([F.sum(y * y)], variables, enable_double_backprop=double)
        found = [y, *grads]
        if double:
            F.sum(grads[0] * grads[0]).backward()
            found.append(variables[0].grad)
        results.append([chainer.get_device("@numpy").send(chainer.as_array(v)) for v in found])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-7)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one_array(name, rng, device):
    x = rng.uniform(*FUNCTIONS[name], (3, 4))
    compare(getattr(F, name), [x], device)
    assert sum(chx.chainer.fallbacks().values()) > 0


def test_polygamma_and_zeta(rng, device):
    n = np.array([0, 1, 2, 3], "i")
    compare(F.polygamma, [n, rng.uniform(0.5, 3, (4,))], device)
    q = rng.uniform(1.5, 3, (4,))
    compare(lambda q: F.zeta(q.xp.full(4, 2.5, dtype="d"), q), [q], device)


def test_on_another_device(rng):
    compare(F.lgamma, [rng.uniform(0.5, 3, (3,))], chainer.get_device("native:2"))


def test_it_warns_once(device):
    chx.config.fallback = "warn"
    x = device.send(np.ones(3, "f"))
    with pytest.warns(chx.chainer.FallbackWarning, match="LGamma is computed with NumPy") as seen:
        for _ in range(3):
            F.lgamma(x)
    assert len(seen) == 1 and seen[0].filename == __file__
    assert chx.chainer.fallbacks() == {"LGamma": 3}
    chx.config.fallback = "raise"
    with pytest.raises(chx.chainer.FallbackError, match=r"\[LGamma\] expects a route"):
        F.lgamma(x)
