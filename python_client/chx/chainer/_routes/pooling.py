"""Routes of chainer.functions.pooling, but for regions of interest."""

from __future__ import annotations

import numpy as np
from chainer.functions.pooling import (
    average_pooling_2d,
    average_pooling_nd,
    max_pooling_nd,
    unpooling_2d,
    unpooling_nd,
    upsampling_2d,
)
from chainer.utils import conv

import chx
from chx._compat import zip_strict
from chx.chainer._routes._common import one_hot, sent, windows
from chx.chainer._routes._registry import route


@route(average_pooling_nd.AveragePoolingND)
def _average_pooling(f, xs):
    mode = "ignore" if f.pad_value is None else "zero"
    return (chx.average_pool(xs[0], f.ksize, f.stride, f.pad, mode),)


@route(average_pooling_2d.AveragePooling2D)
def _average_pooling_2d(f, xs):
    ksize, stride, pad = (f.kh, f.kw), (f.sy, f.sx), (f.ph, f.pw)
    return (chx.average_pool(xs[0], ksize, stride, pad, "zero"),)


def adapt_average_pooling_2d(chainer):
    """Makes it the function in the graph that it is on NumPy, and not one of n dimensions."""
    average_pooling_2d.chainerx = None  # what it asks about, and nothing else of the module does


@route(max_pooling_nd.MaxPoolingND)
def _max_pooling(f, xs):
    (x,) = xs
    if f.return_indices:
        n = len(f.ksize)
        col = windows(x.as_grad_stopped(), f.ksize, f.stride, f.pad, f.cover_all, -np.inf)
        col = col.reshape(*x.shape[:2], int(np.prod(f.ksize)), *col.shape[2 + n :])
        f.indexes = chx.argmax(col, 2)
    return (chx.max_pool(x, f.ksize, f.stride, f.pad, f.cover_all),)


def _spread(x, kernels, ksize, stride, pad, outs):
    """x (N, C, K, spatial...): each of its K values times its kernel, added up at its window."""
    n, c = x.shape[:2]
    x = x.reshape(n * c, *x.shape[2:])
    y = chx.conv_transpose(x, kernels.reshape(-1, 1, *ksize), None, stride, pad, outs)
    return y.reshape(n, c, *outs)


def _unpooling(x, ksize, stride, pad, outs):
    kernels = chx.ones(ksize, x.dtype, device=x.device)
    return _spread(chx.expand_dims(x, 2), kernels, ksize, stride, pad, outs)


def _outsizes(f, x, ksize, stride, pad, given):
    return tuple(
        conv.get_deconv_outsize(size, k, s, p, cover_all=f.cover_all) if out is None else out
        for size, k, s, p, out in zip_strict(x.shape[2:], ksize, stride, pad, given)
    )


@route(unpooling_2d.Unpooling2D)
def _unpooling_2d(f, xs):
    (x,) = xs
    ksize, stride, pad = (f.kh, f.kw), (f.sy, f.sx), (f.ph, f.pw)
    outs = f.outh, f.outw = _outsizes(f, x, ksize, stride, pad, (f.outh, f.outw))
    return (_unpooling(x, ksize, stride, pad, outs),)


@route(unpooling_nd.UnpoolingND)
def _unpooling_nd(f, xs):
    (x,) = xs
    f.outs = _outsizes(f, x, f.ksize, f.stride, f.pad, f.outs or (None,) * f.ndim)
    return (_unpooling(x, f.ksize, f.stride, f.pad, f.outs),)


@route(upsampling_2d.Upsampling2D)
def _upsampling_2d(f, xs):
    (x,) = xs
    ksize, stride, pad = (f.kh, f.kw), (f.sy, f.sx), (f.ph, f.pw)
    outs = f.outh, f.outw = _outsizes(f, x, ksize, stride, pad, (f.outh, f.outw))
    size = f.kh * f.kw
    chosen = one_hot(sent(f.indexes, x), size, x.dtype)
    spread = chx.moveaxis(chosen * chx.expand_dims(x, 4), 4, 2)
    kernels = chx.eye(size, dtype=x.dtype, device=x.device)
    return (_spread(spread, kernels, ksize, stride, pad, outs),)
