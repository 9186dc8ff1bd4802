"""Functions on the daemon's arrays keep NaN and inf where NumPy's Chainer does."""

import chainer
import chainer.functions as F
import numpy as np
import pytest

CPU = chainer.get_device("@numpy")
VALUES = [np.nan, np.inf, -np.inf, -3.0, -2.5, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 7.0]
ACTIVATIONS = {
    "clipped_relu": lambda x: F.clipped_relu(x, 2.0),
    "crelu": lambda x: F.crelu(x, 0),
    "elu": F.elu,
    "hard_sigmoid": F.hard_sigmoid,
    "leaky_relu": F.leaky_relu,
    "relu": F.relu,
    "relu6": F.relu6,
    "sigmoid": F.sigmoid,
    "tanh": F.tanh,
}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_activations(rng, device, name, dtype):
    values = np.array(VALUES, dtype)
    gy = rng.uniform(0.5, 1.5, len(values) * (2 if name == "crelu" else 1)).astype(dtype)

    def run(place):
        x = chainer.Variable(place.send(values))
        y = ACTIVATIONS[name](x)
        y.grad = place.send(gy)
        y.backward()
        return CPU.send(y.array), CPU.send(x.grad)

    with np.errstate(invalid="ignore"):
        want, expected = run(CPU)
    got, actual = run(device)
    assert np.isnan(want[0])
    assert got.dtype == actual.dtype == np.dtype(dtype)
    tolerance = {"rtol": 4 * np.finfo(dtype).eps, "atol": np.finfo(dtype).eps}
    np.testing.assert_allclose(got, want, **tolerance)
    np.testing.assert_allclose(actual, expected, **tolerance)
