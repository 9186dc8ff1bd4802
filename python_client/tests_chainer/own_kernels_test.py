"""Chainer's own kernels, word for word, on the daemon's arrays, against Chainer's functions for NumPy.

Their functions make arrays of CuPy's; here those are arrays of the daemon's.
"""

import inspect
import re
import types

import chainer.functions as F
import chx
import numpy as np
import pytest
from chainer.backends import cuda
from chainer.functions.pooling import (
    max_pooling_nd_kernel,
    roi_average_align_2d,
    roi_max_align_2d,
    roi_pooling_2d,
)
from chainer.functions.rnn import lstm
from chainer.links.loss import hierarchical_softmax


def _zeros(shape, dtype="f"):
    return chx.zeros(shape, np.dtype(dtype).name)


def _like(array):
    return chx.zeros(array.shape, array.dtype.name)


@pytest.fixture(autouse=True)
def cupy(monkeypatch, device):
    module = types.SimpleNamespace(
        empty=_zeros,
        zeros=_zeros,
        empty_like=_like,
        zeros_like=_like,
        ascontiguousarray=lambda a: a,
    )
    monkeypatch.setattr(cuda, "cupy", module, raising=False)
    monkeypatch.setattr(cuda, "to_cpu", chx.to_numpy)


def remote(arrays):
    return tuple(chx.array(a) for a in arrays)


ROIS = np.array([[0, 1, 1, 6, 6], [2, 6, 2, 7, 11], [1, 3, 1, 5, 10], [0, 3, 3, 3, 3]], "f")


@pytest.mark.parametrize(
    "function", [roi_average_align_2d.ROIAverageAlign2D, roi_max_align_2d.ROIMaxAlign2D]
)
def test_roi_align(rng, function):
    inputs = rng.normal(size=(3, 2, 12, 8)).astype("f"), ROIS[:, 1:], ROIS[:, 0].astype("i")
    here, there = (function((3, 4), 0.9, 2) for _ in range(2))
    (want,) = here.forward_cpu(inputs)
    (got,) = there.forward_gpu(remote(inputs))
    np.testing.assert_allclose(chx.to_numpy(got), want, rtol=1e-4, atol=1e-5)
    gy = rng.normal(size=want.shape).astype("f")
    want = here.backward_cpu(inputs, (gy,))[0]
    got = there.backward_gpu(remote(inputs), remote([gy]))[0]
    np.testing.assert_allclose(chx.to_numpy(got), want, rtol=1e-3, atol=1e-5)


def _rounded(value):
    return int(np.trunc(value + np.copysign(0.5, value)))


def test_roi_pooling(rng):
    """Against one element at a time, in float32 as the kernel: NumPy's function computes in double."""
    x, single = rng.normal(size=(3, 2, 12, 8)).astype("f"), np.float32
    (got,) = roi_pooling_2d.ROIPooling2D(3, 4, 0.9).forward_gpu(remote([x, ROIS]))
    want = np.zeros(got.shape, "f")

    def bounds(place, size, start, length):
        ends = np.floor(single(place) * size), np.ceil(single(place + 1) * size)
        return slice(*(min(max(int(e) + start, 0), length) for e in ends))

    for n, c, h, w in np.ndindex(want.shape):
        left, top, right, bottom = (_rounded(r * single(0.9)) for r in ROIS[n, 1:])
        height = single(max(bottom - top + 1, 1)) / single(3)
        width = single(max(right - left + 1, 1)) / single(4)
        part = x[int(ROIS[n, 0]), c, bounds(h, height, top, 12), bounds(w, width, left, 8)]
        want[n, c, h, w] = part.max() if part.size else 0
    np.testing.assert_array_equal(chx.to_numpy(got), want)


def test_max_pooling(rng):
    x = rng.normal(size=(2, 3, 7, 6)).astype("f")
    want = F.max_pooling_nd(x, 3, 2, 1).array
    y, indexes = chx.zeros(want.shape), chx.zeros(want.shape, "int32")
    kernel = cuda.elementwise(*max_pooling_nd_kernel.MaxPoolingNDKernelForward.generate(2))
    kernel(chx.array(x), 7, 6, *want.shape[2:], 3, 3, 2, 2, 1, 1, y, indexes)
    np.testing.assert_array_equal(chx.to_numpy(y), want)


def test_hierarchical_softmax(rng):
    tree = hierarchical_softmax.BinaryHierarchicalSoftmax.create_huffman_tree(
        {0: 3, 1: 2, 2: 5, 3: 1, 4: 1}
    )
    function = hierarchical_softmax.BinaryHierarchicalSoftmaxFunction(tree, np.float32)
    x, t = rng.normal(size=(4, 6)).astype("f"), np.array([0, 2, 3, 4], "i")
    w = rng.normal(size=(function.parser_size, 6)).astype("f")
    (want,) = function.forward_cpu((x, t, w))
    grads = function.backward_cpu((x, t, w), (np.ones((), "f"),))
    for name in ("begins", "paths", "codes"):
        setattr(function, name, chx.array(getattr(function, name)))
    inputs = remote((x, t, w))
    (got,) = function.forward_gpu(inputs)
    np.testing.assert_allclose(chx.to_numpy(got), want, rtol=1e-5)
    gx, _, gw = function.backward_gpu(inputs, (chx.ones(()),))
    np.testing.assert_allclose(chx.to_numpy(gx), grads[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(chx.to_numpy(gw), grads[2], rtol=1e-4, atol=1e-5)


def test_lstm(rng):
    """Its preamble has templates, a macro of several lines and a constant whose name is a type's."""
    text = re.search(
        r"cuda\.elementwise\(\s*(.*?)preamble", inspect.getsource(lstm.LSTM.forward), re.DOTALL
    )
    kernel = cuda.elementwise(*eval(f"({text[1]})"), preamble=lstm._preamble)
    c, a, i, f, o = rng.normal(size=(5, 2, 7)).astype("f")
    got = kernel(*remote((c, a, i, f, o)))

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    want = np.tanh(a) * sigmoid(i) + sigmoid(f) * c
    np.testing.assert_allclose(chx.to_numpy(got[0]), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        chx.to_numpy(got[1]), sigmoid(o) * np.tanh(want), rtol=1e-5, atol=1e-6
    )
