"""Images of another size: adaptive pooling, interpolation, and pixels that are channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chx.onnx._export._builder import Builder, converter
from chx.onnx._export._trace import Call


def _gather(b: Builder, x: str, index: Any, axis: int) -> Any:
    return b.op("Gather", x, b.constant(index, np.int64), axis=axis)


@converter("adaptive_average_pool", "adaptive_max_pool")
def _adaptive_pool(b: Builder, call: Call) -> Any:
    x, result = call.inputs[0], call.outputs[0].dtype
    average = call.op == "adaptive_average_pool"
    sizes, outs = x.shape[2:], call.outputs[0].shape[2:]
    if len(sizes) <= 3 and result != "float64" and all(n % m == 0 for n, m in zip(sizes, outs)):
        if set(outs) == {1}:
            return b.op("GlobalAveragePool" if average else "GlobalMaxPool", b.name(x))
        kernel = [n // m for n, m in zip(sizes, outs)]
        op = "AveragePool" if average else "MaxPool"
        return b.op(op, b.name(x), kernel_shape=kernel, strides=kernel)
    dtype = np.result_type(result, np.float32) if average else result
    name = b.operand(x, dtype)
    for axis, (n, m) in enumerate(zip(sizes, outs), 2):
        name = _windows(b, name, axis, x.ndim, n, m, average, dtype)
    return b.cast(name, dtype, result)


def _windows(
    b: Builder, x: str, axis: int, ndim: int, size: int, outs: int, average: bool, dtype: Any
) -> Any:
    """Windows of different lengths along an axis."""
    number = np.arange(outs)
    start, end = number * size // outs, -(-(number + 1) * size // outs)
    index = start[:, None] + np.arange((end - start).max())
    inside = (index < end[:, None]).reshape(*index.shape, *[1] * (ndim - axis - 1))
    taken = _gather(b, x, np.minimum(index, size - 1), axis)
    outside = b.constant(0 if average else -math.inf, dtype)
    taken = b.op("Where", b.constant(inside, bool), taken, outside)
    op = "ReduceSum" if average else "ReduceMax"
    y = b.op(op, taken, b.ints([axis + 1]), keepdims=0)
    if not average:
        return y
    counts = (end - start).reshape(-1, *[1] * (ndim - axis - 1))
    return b.op("Div", y, b.constant(counts, dtype))


@converter("interpolate")
def _interpolate(b: Builder, call: Call) -> Any:
    """By Resize where sizes alone say what is read: onnxruntime computes places in float32."""
    x, result = call.inputs[0], call.outputs[0].dtype
    scale, corners = call.attrs["scale_factor"], call.attrs["align_corners"]
    sizes = list(zip(x.shape[2:], call.outputs[0].shape[2:]))
    nearest = call.attrs["mode"] == 0
    if result != "float64" and (_repeats(sizes, scale) if nearest else _by_sizes(sizes, scale)):
        how: dict[str, Any] = {"mode": "linear"}
        how["coordinate_transformation_mode"] = "align_corners" if corners else "half_pixel"
        if nearest:
            how = {"mode": "nearest", "nearest_mode": "floor"}
            how["coordinate_transformation_mode"] = "asymmetric"
        return b.op("Resize", b.name(x), "", "", b.ints(call.outputs[0].shape), **how)
    dtype = result if nearest else np.result_type(result, np.float32)
    name = b.operand(x, dtype)
    for axis, (n, m) in enumerate(sizes, 2):
        if nearest:
            name = _gather(b, name, _nearest(n, m, scale), axis)
        elif n != m:
            name = _linear(b, name, axis, x.ndim, n, _places(n, m, scale, corners), dtype)
    return b.cast(b.op("Identity", name) if name == b.name(x) else name, dtype, result)


def _repeats(sizes: Sequence[tuple[int, int]], scale: float | None) -> bool:
    """Whether each element is read as often as every other."""
    return all(
        m % n == 0 and bool((_nearest(n, m, scale) == np.arange(m) // (m // n)).all())
        for n, m in sizes
    )


def _by_sizes(sizes: Sequence[tuple[int, int]], scale: float | None) -> bool:
    return scale is None or all(n * scale == m for n, m in sizes)


def _places(size: int, outs: int, scale: float | None, corners: bool) -> Any:
    """Where elements are mixed for each."""
    counted = np.arange(outs)
    if corners:
        return counted * ((size - 1) / max(outs - 1, 1))
    return np.maximum((counted + 0.5) * (size / outs if scale is None else 1 / scale) - 0.5, 0)


def _nearest(size: int, outs: int, scale: float | None) -> Any:
    """Which element is read for each."""
    counted = np.arange(outs)
    index = counted * size // outs if scale is None else np.floor(counted * (1 / scale))
    return np.minimum(index.astype(np.int64), size - 1)


def _linear(b: Builder, x: str, axis: int, ndim: int, size: int, position: Any, dtype: Any) -> Any:
    first = np.minimum(np.floor(position), size - 1)
    share = (position - first).reshape(-1, *[1] * (ndim - axis - 1))
    second = np.minimum(first + 1, size - 1)
    parts = [
        b.op("Mul", _gather(b, x, index, axis), b.constant(weight, dtype))
        for index, weight in ((first, 1 - share), (second, share))
    ]
    return b.op("Add", *parts)


@converter("pixel_shuffle", "pixel_unshuffle")
def _pixels(b: Builder, call: Call) -> Any:
    x, y = call.inputs[0], call.outputs[0]
    up = call.op == "pixel_shuffle"
    name = b.name(x)
    if x.ndim != 4:
        name = b.reshape(name, (math.prod(x.shape[:-3]), *x.shape[-3:]))
    factor = call.attrs["upscale_factor" if up else "downscale_factor"]
    op = "DepthToSpace" if up else "SpaceToDepth"
    name = b.op(op, name, blocksize=factor, mode="CRD")
    return name if x.ndim == 4 else b.reshape(name, y.shape)
