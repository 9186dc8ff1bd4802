"""F.fft and F.ifft in float16 against NumPy's Chainer, which rounds once, at the end."""

import chainer
import chainer.functions as F
import chx.chainer
import numpy as np
import pytest


def transform(name, values, grads, place):
    """Outputs and gradients as NumPy arrays."""
    xs = [chainer.Variable(place.send(v)) for v in values]
    ys = getattr(F, name)(xs)
    chainer.backward(ys, [chainer.Variable(place.send(g)) for g in grads])
    cpu = chainer.get_device("@numpy")
    return [cpu.send(a) for a in (*[y.array for y in ys], *[x.grad for x in xs])]


@pytest.mark.parametrize("size", [1, 7, 64, 300])
@pytest.mark.parametrize("name", ["fft", "ifft"])
def test_float16_differs_by_one_unit_at_most(name, size, rng, device):
    values, grads = rng.normal(size=(2, 2, 3, size)).astype("float16")
    want = transform(name, values, grads, chainer.get_device("@numpy"))
    got = transform(name, values, grads, device)
    for w, g in zip(want, got, strict=True):
        assert g.dtype == w.dtype == "float16"
        # Sums that nearly cancel out have float32's error, which may be many of their own units.
        size_of = np.maximum(np.abs(w), np.abs(w).max() / 64)
        assert (np.abs(g.astype("f") - w.astype("f")) <= np.spacing(size_of)).all()
    assert not chx.chainer.fallbacks()
