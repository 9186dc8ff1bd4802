"""Fourier transforms by products with matrices of sines and cosines, and mel filters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import chx
from chx.onnx._import._node import Node
from chx.onnx._import._registry import operator
from chx.onnx._import._tensors import dtype_name


def _waves(rows: int, columns: int, length: int, dtype: Any) -> tuple[Any, Any]:
    """Cosines and sines of 2 pi i j / length."""
    i = chx.arange(rows, dtype="int64").reshape(-1, 1)
    j = chx.arange(columns, dtype="int64")
    angle = chx.remainder(i * j, length).astype("float64") * (2 * math.pi / length)
    return chx.cos(angle).astype(dtype), chx.sin(angle).astype(dtype)


def _resized(x: Any, length: int) -> Any:
    """The last axis cut or filled with zeros."""
    x = x[..., :length]
    widths = [0] * (2 * x.ndim)
    widths[-1] = length - x.shape[-1]
    return chx._core.constant_pad(x, widths, 0) if widths[-1] else x


def _transform(real: Any, imaginary: Any, length: int, count: int, inverse: bool) -> Any:
    """The first `count` numbers of the transform along the last axis, (..., count, 2)."""
    cos, sin = _waves(length, count, length, real.dtype)
    sin = sin if inverse else -sin
    if imaginary is None:
        parts = [chx.matmul(real, cos), chx.matmul(real, sin)]
    else:
        parts = [
            chx.matmul(real, cos) - chx.matmul(imaginary, sin),
            chx.matmul(real, sin) + chx.matmul(imaginary, cos),
        ]
    y = chx.stack(parts, axis=-1)
    return y / float(length) if inverse else y


@operator("DFT")
def dft(node: Node) -> Any:
    x = node.array(0)
    if x.ndim < 2 or x.shape[-1] not in (1, 2):
        raise node.error("a last dimension of 1 or 2", x.shape)
    axis = node.attr("axis", 1) if node.version < 20 else int(node.number(2, -2))
    axis = node.checked_axis(axis, x.ndim)
    inverse, onesided = bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    front = chx.moveaxis(x, axis, -2)
    half = inverse and onesided
    length = node.number(1)
    stored = front.shape[-2]
    length = int(length) if length is not None else 2 * (stored - 1) if half else stored
    if length < 1:
        raise node.error("a length from 1 on", length)
    wanted = length // 2 + 1 if half else length
    real = _resized(front[..., 0], wanted)
    imaginary = _resized(front[..., 1], wanted) if x.shape[-1] == 2 else None
    if half:  # the other half is the conjugate
        rest = slice(length - wanted, 0, -1)
        imaginary = chx.zeros_like(real) if imaginary is None else imaginary
        real = chx.concatenate([real, real[..., rest]], axis=-1)
        imaginary = chx.concatenate([imaginary, -imaginary[..., rest]], axis=-1)
    count = length // 2 + 1 if onesided and not inverse else length
    y = _transform(real, imaginary, length, count, inverse)
    y = y[..., :1] if half else y
    return chx.moveaxis(y, -2, axis)


@operator("STFT")
def stft(node: Node) -> Any:
    x, step, window = node.array(0), int(node.number(1)), node[2]
    length = node.number(3)
    if length is None and window is None:
        raise node.error("a window or a frame_length", "neither")
    length = window.shape[0] if length is None else int(length)
    if step < 1 or not 1 <= length <= x.shape[1]:
        raise node.error(f"a step from 1 on, and frames of at most {x.shape[1]}", (step, length))
    x = x if x.ndim == 3 else chx.expand_dims(x, 2)
    frames = (x.shape[1] - length) // step + 1
    places = np.arange(frames)[:, None] * step + np.arange(length)
    cut = chx.take(x, chx.array(places), axis=1)  # (N, frames, length, 1 or 2)
    cut = cut if window is None else cut * window.reshape(-1, 1)
    onesided = node.attr("onesided", 1) and x.shape[2] == 1
    count = length // 2 + 1 if onesided else length
    imaginary = cut[..., 1] if x.shape[2] == 2 else None
    return _transform(cut[..., 0], imaginary, length, count, False)


@operator("MelWeightMatrix")
def mel_weight_matrix(node: Node) -> Any:
    """Triangles over frequencies whose corners are equally far apart in mels."""
    bins, length, rate = (int(node.number(i)) for i in range(3))
    low, high = float(node.number(3)), float(node.number(4))
    if not (0 < bins < 2**20 and 0 < length < 2**24 and rate > 0 and 0 <= low < high):
        raise node.error("positive sizes and increasing frequencies", (bins, length, low, high))
    mels = [2595 * math.log10(1 + f / 700) for f in (low, high)]
    points = chx.arange(bins + 2, dtype="float64") * ((mels[1] - mels[0]) / (bins + 2)) + mels[0]
    hertz = 700 * (chx.power(chx.full((), 10.0, dtype="float64"), points / 2595) - 1)
    corners = chx.floor((length + 1) * hertz / rate)
    left, middle, right = corners[:-2], corners[1:-1], corners[2:]
    places = chx.arange(length // 2 + 1, dtype="float64").reshape(-1, 1)
    rising = chx.where(middle > left, (places - left) / chx.maximum(middle - left, 1), 1.0)
    falling = (right - places) / chx.maximum(right - middle, 1)
    inside = chx.logical_and(places >= left, chx.logical_or(places <= middle, places < right))
    triangle = chx.where(places <= middle, rising, falling)
    y = chx.where(inside, triangle, chx.zeros_like(triangle))
    return y.astype(dtype_name(node.attr("output_datatype", 1), node.label))
