"""Pooling."""

from __future__ import annotations

import math
from typing import Any

import chx
from chx._types import is_float
from chx.onnx._import._indexing import scatter
from chx.onnx._import._node import Node
from chx.onnx._import._registry import operator
from chx.onnx._import._windows import Windows, padded, shifts, windows


def _windows(node: Node, x: Any) -> Windows:
    if x.ndim < 3:
        raise node.error("an array of 3 dimensions or more", x.shape)
    if "kernel_shape" not in node.attributes:
        raise node.error("a kernel_shape", "none")
    return windows(node, x.shape[2:], node.attr("kernel_shape"))


def _plain(w: Windows) -> bool:
    return all(d == 1 for d in w.dilations)


def _whole(x: Any, w: Windows, value: Any) -> Any:
    """x with all that windows reach."""
    after = [a + beyond for a, beyond in zip(w.after, w.beyond(x.shape[2:]))]
    return padded(x, w.before, after, value)


@operator("MaxPool")
def max_pool(node: Node) -> Any:
    x = node.array(0)
    w = _windows(node, x)
    lowest = -chx.inf if is_float(x.dtype) else chx.iinfo(x.dtype).min
    whole = _whole(x, w, lowest)
    if not node.wants(1):
        if _plain(w) and is_float(x.dtype):
            y = chx.max_pool(whole, tuple(w.kernel), tuple(w.strides))
            return y[(slice(None), slice(None), *map(slice, w.outs))]
        result: Any = None
        for part in shifts(whole, w):
            result = part if result is None else chx.maximum(result, part)
        return result
    stacked = chx.stack(list(shifts(whole, w)), axis=2)
    chosen = chx.argmax(stacked, axis=2)
    return chx.amax(stacked, axis=2), _indices(node, x, w, chosen)


def _indices(node: Node, x: Any, w: Windows, chosen: Any) -> Any:
    """Places in x, as in one dimension, of elements of the kernel."""
    sizes = x.shape[2:]
    order = range(len(sizes))
    steps = {}
    step = 1
    # By storage_order 1 the first spatial dimension is the one whose elements are adjacent.
    for i in order if node.attr("storage_order", 0) else reversed(order):
        steps[i] = step
        step *= sizes[i]
    planes = chx.arange(x.shape[0] * x.shape[1], dtype="int64") * math.prod(sizes)
    result = planes.reshape(*x.shape[:2], *[1] * len(sizes))
    for i in reversed(order):
        within = chx.remainder(chosen, w.kernel[i]) * w.dilations[i]
        chosen = chx.floor_divide(chosen, w.kernel[i])
        shape = [1] * x.ndim
        shape[i + 2] = w.outs[i]
        first = chx.arange(w.outs[i], dtype="int64") * w.strides[i] - w.before[i]
        result = result + (within + first.reshape(*shape)) * steps[i]
    return result


def _sums(x: Any, w: Windows) -> Any:
    if _plain(w):
        y = chx.average_pool(x, tuple(w.kernel), tuple(w.strides), 0, "zero")
        return y[(slice(None), slice(None), *map(slice, w.outs))] * float(math.prod(w.kernel))
    total: Any = None
    for part in shifts(x, w):
        total = part if total is None else total + part
    return total


@operator("AveragePool")
def average_pool(node: Node) -> Any:
    x = node.array(0)
    w = _windows(node, x)
    include = bool(node.attr("count_include_pad", 0))
    if _plain(w) and w.before == w.after and not any(w.beyond(x.shape[2:])):
        mode: Any = "zero" if include else "ignore"
        return chx.average_pool(x, tuple(w.kernel), tuple(w.strides), tuple(w.before), mode)
    ones = chx.ones((1, 1, *x.shape[2:]), dtype=x.dtype)
    if include:
        ones = padded(ones, w.before, w.after, 1)
        beyond = w.beyond(x.shape[2:])
        ones = padded(ones, [0] * len(beyond), beyond)
    else:
        ones = _whole(ones, w, 0)
    return _sums(_whole(x, w, 0), w) / _sums(ones, w)


@operator("LpPool")
def lp_pool(node: Node) -> Any:
    x = node.array(0)
    w = _windows(node, x)
    p = node.attr("p", 2)
    return _sums(_whole(chx.abs(x) ** p, w, 0), w) ** (1.0 / p)


@operator("GlobalAveragePool")
def global_average_pool(node: Node) -> Any:
    x = node.array(0)
    return chx.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True)


@operator("GlobalMaxPool")
def global_max_pool(node: Node) -> Any:
    x = node.array(0)
    return chx.amax(x, axis=tuple(range(2, x.ndim)), keepdims=True)


@operator("GlobalLpPool")
def global_lp_pool(node: Node) -> Any:
    x, p = node.array(0), node.attr("p", 2)
    return chx.sum(chx.abs(x) ** p, axis=tuple(range(2, x.ndim)), keepdims=True) ** (1.0 / p)


@operator("MaxUnpool")
def max_unpool(node: Node) -> Any:
    """Zeros but for elements at places that MaxPool gave; of a given shape, places in that of x."""
    x, places = node.array(0), node.array(1)
    kernel = node.attr("kernel_shape")
    strides = node.attr("strides", [1] * len(kernel))
    pads = node.attr("pads", [0] * (2 * len(kernel)))
    sizes = [
        (n - 1) * s + k - pads[i] - pads[i + len(kernel)]
        for i, (n, s, k) in enumerate(zip(x.shape[2:], strides, kernel))
    ]
    shape = (*x.shape[:2], *sizes)
    flat = chx.zeros((math.prod(shape),), dtype=x.dtype)
    y = scatter(node, flat, places.ravel(), x.ravel(), "none").reshape(shape)
    wanted = node.ints(2)
    if wanted is None or tuple(wanted) == shape:
        return y
    return padded(y, [0] * len(sizes), [a - b for a, b in zip(wanted[2:], sizes)])
