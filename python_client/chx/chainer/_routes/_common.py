"""What routes of several groups use."""

from __future__ import annotations

import numpy as np

import chx
from chx._compat import zip_strict


def cast(y, dtype):
    """y in a dtype; y itself if that is its own."""
    return y if y.dtype == dtype else y.astype(dtype)


def sent(values, like):
    """A NumPy array (or a Variable, or an array) on the device of an array."""
    values = getattr(values, "array", values)
    return chx.asarray(values, device=like.device)


def scalar(value, x):
    """A constant in a function on x, as a number of Python's or an array in x's dtype.

    Chainer's constants don't promote.
    """
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    return cast(sent(value, x), x.dtype)


def uniform(shape, like, low=0.0, high=1.0):
    """Uniform values of an array's dtype, by the generator of its device."""
    # float16 has too few values: 1.0 would be one of them.
    dtype = "float32" if like.dtype == np.float16 else like.dtype
    return chx.random.uniform(low, high, shape, dtype=dtype, device=like.device)


def normal(shape, like):
    """Standard normal values of an array's dtype, by the generator of its device."""
    dtype = "float32" if like.dtype == np.float16 else like.dtype
    return cast(chx.random.normal(size=shape, dtype=dtype, device=like.device), like.dtype)


def kept(shape, like, ratio):
    """A mask of bools that are true with probability 1 - ratio."""
    return uniform(shape, like) >= ratio


def precisely(x):
    """float16 as float32, for sums; others as they are."""
    return x.astype("float32") if x.dtype == np.float16 else x


def one_hot(indices, size, dtype):
    """indices (...,) -> (..., size), with a one at each index and zeros elsewhere."""
    labels = chx.arange(size, dtype=indices.dtype, device=indices.device)
    return (chx.expand_dims(indices, indices.ndim) == labels).astype(dtype)


def transposed(function, shape, gy):
    """The transpose of a linear function of an array of a shape, applied to gy."""
    x = chx.zeros(shape, gy.dtype, device=gy.device)
    with chx.force_backprop_mode():
        y = function(x.require_grad())
    (gx,) = chx.grad(
        [y],
        [x],
        grad_outputs=[gy],
        enable_double_backprop=gy.is_backprop_required() and chx.is_backprop_required(),
    )
    return gx


def outsize(size, k, s, p, cover_all=False, d=1):
    """The number of windows along an axis."""
    span = k + (k - 1) * (d - 1)
    return (size + 2 * p - span + (s - 1 if cover_all else 0)) // s + 1


def windows(x, ksize, stride, pad, cover_all=False, value=0, dilate=None):
    """x (N, C, spatial...) -> (N, C, ksize..., outputs...), with a value around it."""
    n = len(ksize)
    dilate = dilate or (1,) * n
    sizes = x.shape[2:]
    outs = [
        outsize(*args, cover_all, d) for *args, d in zip_strict(sizes, ksize, stride, pad, dilate)
    ]
    spans = [(k - 1) * d + 1 for k, d in zip_strict(ksize, dilate)]
    after = [
        max(0, (out - 1) * s + span - size - p)
        for out, s, span, size, p in zip_strict(outs, stride, spans, sizes, pad)
    ]
    widths = [(0, 0), (0, 0), *zip_strict(pad, after)]
    padded = chx.pad(x, widths, "constant", value)
    # Along each axis: which element is k-th in window o.
    axes = []
    for k, out, s, d in zip_strict(ksize, outs, stride, dilate):
        axes.append(np.arange(k)[:, None] * d + np.arange(out) * s)
    strides = np.cumprod([1, *padded.shape[:1:-1]])[-2::-1]
    index = 0
    for i, (positions, step) in enumerate(zip_strict(axes, strides)):
        shape = [1] * (2 * n)
        shape[i], shape[n + i] = positions.shape
        index = index + positions.reshape(shape) * int(step)
    flat = padded.reshape(*x.shape[:2], int(np.prod(padded.shape[2:])))
    return chx.take(flat, sent(index, x), axis=2)
