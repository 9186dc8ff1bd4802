"""Routes of chainer.functions.array."""

from __future__ import annotations

import numpy as np
from chainer.functions.array import (
    as_strided,
    broadcast,
    cast,
    depth2space,
    diagonal,
    dstack,
    expand_dims,
    flip,
    fliplr,
    flipud,
    get_item,
    hstack,
    im2col,
    moveaxis,
    pad,
    pad_sequence,
    permutate,
    repeat,
    rollaxis,
    scatter_add,
    select_item,
    separate,
    space2depth,
    swapaxes,
    tile,
    transpose_sequence,
    vstack,
    where,
)

import chx
from chx._compat import zip_strict
from chx.chainer._routes._common import sent, transposed, windows
from chx.chainer._routes._registry import route


@route(as_strided.AsStrided)
def _as_strided(f, xs):
    x = chx.ascontiguousarray(xs[0])
    offset = f.storage_offset or 0
    ends = [s * (n - 1) for n, s in zip_strict(f.shape, f.strides)]
    first = offset + sum(end for end in ends if end < 0)
    last = offset + sum(end for end in ends if end > 0)
    if first < 0 or last >= x.size:
        raise ValueError(
            f"[as_strided] expects elements 0 to {x.size - 1} of the array, got {first} to {last}"
        )
    # The same element may be at several places, which the gradient adds up.
    index = np.full(f.shape, offset, np.int64)
    for axis, (n, s) in enumerate(zip_strict(f.shape, f.strides)):
        index += (np.arange(n) * s).reshape([-1] + [1] * (len(f.shape) - axis - 1))
    return (chx.take(x.ravel(), sent(index, x), axis=0),)


@route(broadcast.Broadcast)
def _broadcast(f, xs):
    shape = np.broadcast_shapes(*[x.shape for x in xs])
    return tuple([chx.broadcast_to(x, shape) for x in xs])


@route(broadcast.BroadcastTo)
def _broadcast_to(f, xs):
    return (chx.broadcast_to(xs[0], f._shape),)


@route(cast.Cast)
def _cast(f, xs):
    return (xs[0].astype(f.type),)


@route(depth2space.Depth2Space)
def _depth2space(f, xs):
    n, c, h, w = xs[0].shape
    x = xs[0].reshape(n, f.r, f.r, c // f.r**2, h, w)
    return (x.transpose(0, 3, 4, 1, 5, 2).reshape(n, c // f.r**2, h * f.r, w * f.r),)


@route(space2depth.Space2Depth)
def _space2depth(f, xs):
    n, c, h, w = xs[0].shape
    x = xs[0].reshape(n, c, h // f.r, f.r, w // f.r, f.r)
    return (x.transpose(0, 3, 5, 1, 2, 4).reshape(n, f.r**2 * c, h // f.r, w // f.r),)


@route(diagonal.Diagonal)
def _diagonal(f, xs):
    return (chx.diagonal(xs[0], f.offset, f.axis1, f.axis2),)


@route(dstack.Dstack)
def _dstack(f, xs):
    return (chx.dstack(xs),)


@route(hstack.Hstack)
def _hstack(f, xs):
    return (chx.hstack(xs),)


@route(vstack.Vstack)
def _vstack(f, xs):
    return (chx.vstack(xs),)


@route(expand_dims.ExpandDims)
def _expand_dims(f, xs):
    return (chx.expand_dims(xs[0], f.axis),)


@route(flip.Flip)
def _flip(f, xs):
    return (chx.flip(xs[0], f.axis),)


@route(fliplr.FlipLR)
def _fliplr(f, xs):
    return (chx.fliplr(xs[0]),)


@route(flipud.FlipUD)
def _flipud(f, xs):
    return (chx.flipud(xs[0]),)


@route(get_item.GetItem)
def _get_item(f, xs):
    return (xs[0][_key(f.slices)],)


def _key(slices):
    return tuple([_part(s) for s in slices])


def _part(s):
    if isinstance(s, (bool, np.bool_)):  # a mask of a new axis, which chx takes as an array alone
        return np.asarray(s)
    return getattr(s, "array", s)


@route(scatter_add.ScatterAdd)
def _scatter_add(f, xs):
    a, b = xs
    key = _key(f.slices)
    added = transposed(lambda x: x[key], a.shape, b)
    return (a + added,)


@route(im2col.Im2Col)
def _im2col(f, xs):
    (x,) = xs
    col = windows(x, (f.kh, f.kw), (f.sy, f.sx), (f.ph, f.pw), f.cover_all, dilate=(f.dy, f.dx))
    n, c, kh, kw, out_h, out_w = col.shape
    return (col.reshape(n, c * kh * kw, out_h, out_w),)


@route(moveaxis.Moveaxis)
def _moveaxis(f, xs):
    return (chx.moveaxis(xs[0], f.source, f.destination),)


@route(rollaxis.Rollaxis)
def _rollaxis(f, xs):
    return (chx.rollaxis(xs[0], f.axis, f.start),)


@route(swapaxes.Swapaxes)
def _swapaxes(f, xs):
    return (chx.swapaxes(xs[0], f.axis1, f.axis2),)


@route(pad.Pad)
def _pad(f, xs):
    return (chx.pad(xs[0], f.pad_width, f.mode, **f.keywords),)


@route(pad_sequence.PadSequence)
def _pad_sequence(f, xs):
    length = max(len(x) for x in xs) if f.length is None else f.length
    rest = [(0, 0)] * (xs[0].ndim - 1)
    return (
        chx.stack([chx.pad(x, [(0, length - len(x)), *rest], "constant", f.padding) for x in xs]),
    )


@route(permutate.Permutate)
def _permutate(f, xs):
    (x,) = xs
    indices = sent(f.indices, x)
    if f.inv:
        indices = chx.argsort(indices)
    return (chx.take(x, indices, axis=f.axis),)


@route(repeat.Repeat)
def _repeat(f, xs):
    return (chx.repeat(xs[0], f.repeats[0] if len(f.repeats) == 1 else f.repeats, f.axis),)


@route(tile.Tile)
def _tile(f, xs):
    return (chx.tile(xs[0], f.reps),)


@route(select_item.SelectItem)
def _select_item(f, xs):
    x, t = xs
    taken = chx.take_along_axis(x, chx.expand_dims(t, 1), 1)
    return (chx.squeeze(taken, 1),)


@route(separate.Separate)
def _separate(f, xs):
    (x,) = xs
    parts = chx.split(x, x.shape[f.axis], f.axis)
    return tuple([chx.squeeze(part, f.axis) for part in parts])


@route(transpose_sequence.TransposeSequence)
def _transpose_sequence(f, xs):
    # The sequences' lengths decrease: step i is in the first ones.
    return tuple([chx.stack([x[i] for x in xs if len(x) > i]) for i in range(f._length)])


@route(where.Where)
def _where(f, xs):
    x, y = xs
    return (chx.where(sent(f.condition, x), x, y),)
