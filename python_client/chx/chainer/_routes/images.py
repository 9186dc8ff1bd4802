"""Routes of chainer.functions.array that resample images."""

import numpy as np
from chainer.functions.array import (
    resize_images,
    spatial_transformer_grid,
    spatial_transformer_sampler,
)

import chx
from chx._compat import zip_strict
from chx.chainer._routes._common import cast, sent
from chx.chainer._routes._registry import route


def _positions(size, out, f):
    """Along one axis: which elements are mixed for each output, and the share of the second."""
    if f.mode == "nearest":
        first = np.minimum(np.floor(np.arange(out) * (size / out)), size - 1)
        return first.astype(np.int64), np.zeros(out)
    if f.align_corners:
        position = np.linspace(0, size - 1, num=out)
    else:
        position = np.maximum((np.arange(out) + 0.5) * (size / out) - 0.5, 0)
    share, first = np.modf(position)
    return first.astype(np.int64), share


def _reads_exactly(size, out, f):
    """Whether NumPy's rounded positions of 'nearest' are those of `interpolate`, which are exact."""
    first, _ = _positions(size, out, f)
    return bool((first == np.arange(out) * size // out).all())


@route(resize_images.ResizeImages)
def _resize_images(f, xs):
    (y,) = xs
    outs = (f.out_H, f.out_W)
    if f.mode == "nearest":
        if all(_reads_exactly(n, out, f) for n, out in zip_strict(y.shape[2:], outs)):
            return (chx.interpolate(y, outs),)
    elif not y.is_backprop_required():
        # Its gradient takes no less than that of what is below.
        return (chx.interpolate(y, outs, mode=f.mode, align_corners=f.align_corners),)
    for axis, out in ((2, f.out_H), (3, f.out_W)):
        size = y.shape[axis]
        first, share = _positions(size, out, f)
        share = sent(share.astype(y.dtype), y)
        if axis == 2:
            share = chx.expand_dims(share, 1)
        a = chx.take(y, sent(first, y), axis=axis)
        b = chx.take(y, sent(np.minimum(first + 1, size - 1), y), axis=axis)
        y = a * (1 - share) + b * share
    return (y,)


@route(spatial_transformer_grid.SpatialTransformerGrid)
def _spatial_transformer_grid(f, xs):
    (theta,) = xs
    h, w = f.output_shape
    y, x = np.meshgrid(np.linspace(-1, 1, h), np.linspace(-1, 1, w), indexing="ij")
    points = np.stack([x.ravel(), y.ravel(), np.ones(h * w)]).astype(theta.dtype)
    return (chx.matmul(theta, sent(points, theta)).reshape(len(theta), 2, h, w),)


@route(spatial_transformer_sampler.SpatialTransformerSampler)
def _spatial_transformer_sampler(f, xs):
    x, grid = xs
    n, c, h, w = x.shape
    out_h, out_w = grid.shape[2:]
    points = grid.reshape(n, 2, out_h * out_w)
    # Pixels outside of the image are zeros: a border of them is enough.
    u = _clipped((points[:, 0] + 1) * (w - 1) / 2 + 1, w + 1)
    v = _clipped((points[:, 1] + 1) * (h - 1) / 2 + 1, h + 1)
    u0 = _clipped(chx.floor(u.as_grad_stopped()), w)
    v0 = _clipped(chx.floor(v.as_grad_stopped()), h)
    flat = chx.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)]).reshape(n, c, (h + 2) * (w + 2))
    index = (v0 * (w + 2) + u0).astype("int64")
    y = 0
    for dv in (0, 1):
        for du in (0, 1):
            weight = (u - u0 if du else u0 + 1 - u) * (v - v0 if dv else v0 + 1 - v)
            place = chx.expand_dims(index + (dv * (w + 2) + du), 1)
            place = chx.broadcast_to(place, (n, c, out_h * out_w))
            taken = chx.take_along_axis(flat, place, 2)
            y = y + chx.expand_dims(cast(weight, x.dtype), 1) * taken
    return (y.reshape(n, c, out_h, out_w),)


def _clipped(a, high):
    return chx.minimum(chx.maximum(a, 0), high)
