"""Chainer's initializers on the daemon: the same numbers from NumPy's generator."""

import chainer
import chainer.initializers as I
import chainer.links as L
import chx
import numpy as np
import pytest

HOST = chainer.get_device("@numpy")

INITIALIZERS = {
    "Constant": (lambda: I.Constant(2.5), (3, 4)),
    "DownsamplingConvFilter": (lambda: I.DownsamplingConvFilter("linear"), (2, 2, 4, 4)),
    "GlorotNormal": (lambda: I.GlorotNormal(), (3, 4)),
    "GlorotUniform": (lambda: I.GlorotUniform(), (3, 4)),
    "HeNormal": (lambda: I.HeNormal(fan_option="fan_out"), (3, 4, 2, 2)),
    "HeUniform": (lambda: I.HeUniform(), (3, 4)),
    "Identity": (lambda: I.Identity(2), (4, 4)),
    "LeCunNormal": (lambda: I.LeCunNormal(), (3, 4)),
    "LeCunUniform": (lambda: I.LeCunUniform(), (3, 4)),
    "NaN": (lambda: I.NaN(), (3, 4)),
    "Normal": (lambda: I.Normal(0.3), (3, 4)),
    "One": (lambda: I.One(), (3, 4)),
    "Orthogonal": (lambda: I.Orthogonal(1.5), (3, 4)),
    "Uniform": (lambda: I.Uniform(0.3), (3, 4)),
    "UpsamplingDeconvFilter": (lambda: I.UpsamplingDeconvFilter("linear"), (2, 2, 4, 4)),
    "Zero": (lambda: I.Zero(), (3, 4)),
}


@pytest.mark.parametrize("name", list(INITIALIZERS))
def test_initializer(name, device):
    """The same numbers from NumPy's generator."""
    make, shape = INITIALIZERS[name]
    state = np.random.get_state()
    results = []
    for place in (HOST, device):
        np.random.set_state(state)
        with chainer.using_device(place):
            array = I.generate_array(make(), shape, place.xp, device=place)
        assert isinstance(array, place.supported_array_types) and array.dtype == np.float32
        results.append(HOST.send(array))
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)
    assert not chx.chainer.fallbacks()


def test_all_initializers_are_tried():
    base = chainer.Initializer
    names = {n for n in dir(I) if isinstance(getattr(I, n), type) and n[0].isupper()}
    assert {n for n in names if issubclass(getattr(I, n), base)} == set(INITIALIZERS)


def test_initializers_of_the_user(device):
    """Functions of the array, scalars and arrays."""

    def sevens(array):
        array[...] = 7

    for given, expected in ((sevens, 7), (3, 3), (np.full((2, 3), 5, "f"), 5)):
        link = L.Linear(3, 2, initialW=given).to_device(device)
        np.testing.assert_array_equal(chx.to_numpy(link.W.array), np.full((2, 3), expected))
        late = L.Linear(None, 2, initialW=given).to_device(device)
        late(device.send(np.ones((1, 3), "f")))
        np.testing.assert_array_equal(chx.to_numpy(late.W.array), np.full((2, 3), expected))
