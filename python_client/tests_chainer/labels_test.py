"""Labels of softmax_cross_entropy that are negative, ignored or out of range, as on NumPy."""

import chainer
import chainer.functions as F
import numpy as np
import pytest

CPU = chainer.get_device("@numpy")
CLASSES = 4


def run(place, x, labels, **options):
    x = chainer.Variable(place.send(x))
    y = F.softmax_cross_entropy(x, place.send(labels), **options)
    F.sum(y).backward()
    return np.array(CPU.send(y.array)), CPU.send(x.grad)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduce", ["mean", "no"])
@pytest.mark.parametrize("ignored", [-2, 0, 3, 99])
@pytest.mark.parametrize("shape", [(6,), (3, 2, 2)])
def test_negative_labels_count_from_the_last(rng, device, shape, ignored, reduce, weighted, dtype):
    labels = rng.integers(-CLASSES, CLASSES, shape).astype(dtype)
    labels.flat[:3] = -1, ignored, -CLASSES
    x = rng.standard_normal((shape[0], CLASSES, *shape[1:]))
    options = {"ignore_label": ignored, "reduce": reduce}
    if weighted:
        options["class_weight"] = rng.uniform(0.5, 1.5, CLASSES)
    want, got = run(CPU, x, labels, **options), run(device, x, labels, **options)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_small_labels_of_many_classes(rng, device):
    """A label that no int8 holds, reached from the last."""
    labels = np.array([-1, 5, -128, 7], np.int8)
    x = rng.standard_normal((4, 300))
    want, got = (run(place, x, labels, ignore_label=7) for place in (CPU, device))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("label", [-CLASSES - 1, -CLASSES - 2, CLASSES])
def test_labels_out_of_range_are_refused(rng, device, label):
    x, labels = rng.standard_normal((2, CLASSES)), np.array([0, label], np.int32)
    for place in (CPU, device):
        with pytest.raises(IndexError, match=str(label)):
            run(place, x, labels, ignore_label=99)
