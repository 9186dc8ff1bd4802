"""Routes of chainer.functions.connection."""

from __future__ import annotations

import chainer
import numpy as np
from chainer.functions.connection import (
    bilinear,
    convolution_2d,
    convolution_nd,
    deconvolution_2d,
    deconvolution_nd,
    embed_id,
    linear,
    local_convolution_2d,
    shift,
)
from chainer.utils import conv

import chx
from chx._compat import zip_strict
from chx.chainer._routes._common import cast, outsize
from chx.chainer._routes._registry import route


@route(linear.LinearFunction)
def _linear(f, xs):
    dtype = xs[0].dtype
    return (cast(chx.linear(*xs), dtype),)


@route(bilinear.BilinearFunction)
def _bilinear(f, xs):
    e1, e2 = (e.reshape(len(e), -1) for e in xs[:2])
    y = chx.einsum("ij,ik,jkl->il", e1, e2, xs[2])
    if len(xs) == 6:
        v1, v2, b = xs[3:]
        y = y + chx.dot(e1, v1) + chx.dot(e2, v2) + b
    return (y,)


def _dilated(w, dilate):
    """Kernels (outputs, inputs, spatial...) with zeros between their elements."""
    if all(d == 1 for d in dilate):
        return w
    sizes = w.shape[2:]
    apart = w.reshape(*w.shape[:2], *[n for k in sizes for n in (k, 1)])
    widths = [(0, 0), (0, 0)]
    for d in dilate:
        widths += [(0, 0), (0, d - 1)]
    full = chx.pad(apart, widths).reshape(
        *w.shape[:2], *[k * d for k, d in zip_strict(sizes, dilate)]
    )
    ends = [slice(0, (k - 1) * d + 1) for k, d in zip_strict(sizes, dilate)]
    return full[(slice(None), slice(None), *ends)]


def _grouped(call, groups, x, w, b):
    """A convolution of each group of channels: x's by their second axis, w and b by the first."""
    if groups == 1:
        return call(x, w, b)
    parts = [chx.split(x, groups, 1), chx.split(w, groups, 0)]
    parts.append([None] * groups if b is None else chx.split(b, groups, 0))
    return chx.concatenate([call(*part) for part in zip_strict(*parts)], 1)


def _convolution(xs, stride, pad, cover_all, dilate, groups):
    dtype = np.result_type(*[a.dtype for a in xs])
    x, w, b = [cast(a, dtype) for a in xs] + [None] * (3 - len(xs))
    simple = groups == 1 and all(d == 1 for d in dilate)
    if simple or (cover_all and _reaches_beyond(x, w, stride, pad, dilate)):
        y = _grouped(
            lambda x, w, b: chx.conv(x, w, b, stride, pad, cover_all),
            groups,
            x,
            _dilated(w, dilate),
            b,
        )
    else:
        y = chx.grouped_conv(x, w, b, stride, pad, dilate, groups)
    return cast(y, xs[0].dtype)


def _reaches_beyond(x, w, stride, pad, dilate):
    """Whether cover_all adds windows, which grouped_conv does not have."""
    axes = zip_strict(x.shape[2:], w.shape[2:], stride, pad, dilate)
    return any(outsize(*sizes, True, d) > outsize(*sizes, False, d) for *sizes, d in axes)


@route(convolution_2d.Convolution2DFunction)
def _convolution_2d(f, xs):
    stride, pad = (f.sy, f.sx), (f.ph, f.pw)
    return (_convolution(xs, stride, pad, f.cover_all, (f.dy, f.dx), f.groups),)


@route(convolution_nd.ConvolutionND)
def _convolution_nd(f, xs):
    return (_convolution(xs, f.stride, f.pad, f.cover_all, f.dilate, f.groups),)


def _deconvolution(xs, stride, pad, outs, dilate, groups):
    x, w = xs[:2]
    b = xs[2] if len(xs) == 3 else None
    dtype = np.result_type(*[a.dtype for a in xs])
    w = _dilated(cast(w, dtype), dilate)
    # What a size beyond the last window leaves over is filled with zeros.
    covered = [
        (n - 1) * s + k - 2 * p for n, s, k, p in zip_strict(x.shape[2:], stride, w.shape[2:], pad)
    ]
    outs = tuple(covered if outs is None else outs)
    y = _grouped(
        lambda x, w, b: chx.conv_transpose(x, w, b, stride, pad, outs),
        groups,
        cast(x, dtype),
        w,
        None if b is None else cast(b, dtype),
    )
    return cast(y, x.dtype)


@route(deconvolution_2d.Deconvolution2DFunction)
def _deconvolution_2d(f, xs):
    f._calc_out_size(xs[0].shape, xs[1].shape)
    outs = (f.outh, f.outw)
    stride, pad = (f.sy, f.sx), (f.ph, f.pw)
    return (_deconvolution(xs, stride, pad, outs, (f.dy, f.dx), f.groups),)


@route(deconvolution_nd.DeconvolutionND)
def _deconvolution_nd(f, xs):
    if f.outs is None:
        x, w = xs[:2]
        sizes = zip_strict(x.shape[2:], w.shape[2:], f.stride, f.pad, f.dilate)
        f.outs = tuple([conv.get_deconv_outsize(n, k, s, p, d=d) for n, k, s, p, d in sizes])
    return (_deconvolution(xs, f.stride, f.pad, f.outs, f.dilate, f.groups),)


@route(embed_id.EmbedIDFunction)
def _embed_id(f, xs):
    x, w = xs
    ignored = None if f.ignore_label is None else x == f.ignore_label
    if chainer.is_debug():
        valid = chx.logical_and(x >= 0, x < len(w))
        if ignored is not None:
            valid = chx.logical_or(valid, ignored)
        if not bool(valid.all()):
            raise ValueError(f"[embed_id] expects ids from 0 to {len(w) - 1}")
    if ignored is None:
        return (chx.take(w, x, axis=0),)
    y = chx.take(w, chx.where(ignored, 0, x), axis=0)
    return (chx.where(chx.expand_dims(ignored, x.ndim), 0, y),)


@route(local_convolution_2d.LocalConvolution2DFunction)
def _local_convolution_2d(f, xs):
    x, w = xs[:2]
    outputs, rows, columns, channels, kh, kw = w.shape
    patches = []
    for i in range(rows):
        for j in range(columns):
            y0, x0 = i * f.sy, j * f.sx
            patches.append(x[:, :, y0 : y0 + kh, x0 : x0 + kw].reshape(len(x), -1))
    patches = chx.stack(patches)  # (places, samples, features)
    w = w.transpose(1, 2, 3, 4, 5, 0).reshape(rows * columns, channels * kh * kw, outputs)
    y = chx.matmul(patches, w).transpose(1, 2, 0).reshape(len(x), outputs, rows, columns)
    return (y if len(xs) == 2 else y + xs[2],)


@route(shift.Shift)
def _shift(f, xs):
    (x,) = xs
    channels, h, w = x.shape[1:]
    py, px = f.kh // 2 * abs(f.dy), f.kw // 2 * abs(f.dx)
    padded = chx.pad(x, [(0, 0), (0, 0), (py, py), (px, px)])
    groups = f.kh * f.kw
    size, middle = channels // groups, (groups - 1) // 2
    parts = []
    for i in range(groups):
        # The last group, which takes the channels left over, is the one that stays in place.
        place = {middle: groups - 1, groups - 1: middle}.get(i, i)
        y0 = py - (place // f.kw - f.kh // 2) * f.dy
        x0 = px - (place % f.kw - f.kw // 2) * f.dx
        end = (i + 1) * size if i < groups - 1 else channels
        parts.append(padded[:, i * size : end, y0 : y0 + h, x0 : x0 + w])
    return (chx.concatenate(parts, 1),)
