"""Rows of tables by ids, masks, and reductions of elements that share an index."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chx._types import is_float
from chx.onnx._export._builder import Builder, converter
from chx.onnx._export._elementwise import selected
from chx.onnx._export._trace import Call

_INT64 = np.dtype("int64")


@converter("embedding")
def _embedding(b: Builder, call: Call) -> Any:
    ids, weight = call.inputs
    return b.op("Gather", b.name(weight), b.operand(ids, _INT64), axis=0)


@converter("one_hot")
def _one_hot(b: Builder, call: Call) -> Any:
    """By comparing: ONNX's OneHot counts negative indices from the end."""
    labels = call.inputs[0]
    y = call.outputs[0]
    axis = call.attrs["axis"] % y.ndim
    column = b.op("Unsqueeze", b.operand(labels, _INT64), b.ints([axis]))
    line = [-1 if i == axis else 1 for i in range(y.ndim)]
    classes = b.constant(np.arange(call.attrs["num_classes"]).reshape(line), _INT64)
    return b.cast(b.op("Equal", column, classes), np.dtype("bool"), y.dtype)


@converter("masked_fill")
def _masked_fill(b: Builder, call: Call) -> Any:
    x, mask, value = call.inputs
    return selected(b, mask, value, x, x.dtype)


_REDUCTIONS = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


def _identity(reduction: str, dtype: Any) -> Any:
    """Of no elements."""
    if reduction in ("sum", "prod"):
        return int(reduction == "prod")
    if is_float(dtype):
        return -math.inf if reduction == "max" else math.inf
    return np.iinfo(dtype).min if reduction == "max" else np.iinfo(dtype).max


def _wide(dtype: Any) -> Any:
    """onnxruntime adds no float16 to elements by index."""
    return np.dtype("float32") if dtype == "float16" else dtype


def _filled(b: Builder, shape: Any, value: Any, dtype: Any) -> Any:
    return b.op("Expand", b.constant(value, dtype), b.ints(shape))


@converter(*[f"segment_{name}" for name in (*_REDUCTIONS, "mean")])
def _segments(b: Builder, call: Call) -> Any:
    x, ids = call.inputs
    y = call.outputs[0]
    dtype = _wide(y.dtype)
    reduction = call.op.split("_")[1]
    places = b.op("Unsqueeze", b.operand(ids, _INT64), b.ints([1]))

    def scattered(values: str, shape: Any, how: str) -> Any:
        empty = _filled(b, shape, _identity(how, dtype), dtype)
        return b.op("ScatterND", empty, places, values, reduction=_REDUCTIONS[how])

    name = b.operand(x, dtype)
    if reduction != "mean":
        return b.cast(scattered(name, y.shape, reduction), dtype, y.dtype)
    counts = scattered(_filled(b, ids.shape, 1, dtype), y.shape[:1], "sum")
    column = b.reshape(counts, (-1, *[1] * (y.ndim - 1)))
    return b.cast(b.op("Div", scattered(name, y.shape, "sum"), column), dtype, y.dtype)


@converter("scatter_reduce")
def _scatter_reduce(b: Builder, call: Call) -> Any:
    x, indices, source = call.inputs
    dtype = _wide(x.dtype)
    axis, own = call.attrs["axis"] % x.ndim, call.attrs["include_self"]
    reduction = ("sum", "prod", "mean", "max", "min")[call.attrs["reduce"]]
    how = "sum" if reduction == "mean" else reduction
    places = b.operand(indices, _INT64)

    def scatter(base: str, values: str, kind: str) -> Any:
        return b.op("ScatterElements", base, places, values, axis=axis, reduction=kind)

    base = b.operand(x, dtype)
    if not own:
        base = scatter(base, _filled(b, source.shape, _identity(how, dtype), dtype), "none")
    y = scatter(base, b.operand(source, dtype), _REDUCTIONS[how])
    if reduction == "mean":
        counts = _filled(b, x.shape, int(own), dtype)
        counts = scatter(counts, _filled(b, source.shape, 1, dtype), "add")
        y = b.op("Div", y, b.op("Max", counts, b.constant(1, dtype)))
    return b.cast(y, dtype, x.dtype)


@converter("index_add")
def _index_add(b: Builder, call: Call) -> Any:
    x, indices, source = call.inputs
    dtype = _wide(x.dtype)
    axis = call.attrs["axis"] % x.ndim
    line = [indices.size if i == axis else 1 for i in range(x.ndim)]
    places = b.reshape(b.operand(indices, _INT64), line)
    places = b.op("Expand", places, b.ints(source.shape))
    arrays = [b.operand(a, dtype) for a in (x, source)]
    y = b.op("ScatterElements", arrays[0], places, arrays[1], axis=axis, reduction="add")
    return b.cast(y, dtype, x.dtype)
