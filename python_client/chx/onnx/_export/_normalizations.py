"""Normalizations of each sample by itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chx.onnx._export._builder import Builder, converter
from chx.onnx._export._trace import Call


def _widest(call: Call) -> Any:
    """Of the dtypes of the result, weight and bias."""
    given = [a.dtype for a in call.inputs[1:] if a is not None]
    return np.result_type(call.outputs[0].dtype, *given)


def _centered(b: Builder, x: str, axes: str) -> Any:
    return b.op("Sub", x, b.op("ReduceMean", x, axes))


def _scaled(b: Builder, x: str, axes: str, eps: float, dtype: Any) -> Any:
    """x divided by the root of its mean square."""
    square = b.op("ReduceMean", b.op("Mul", x, x), axes)
    return b.op("Div", x, b.op("Sqrt", b.op("Add", square, b.constant(eps, dtype))))


def _affine(b: Builder, y: str, weight: str | None, bias: str | None) -> str:
    if weight is not None:
        y = b.op("Mul", y, weight)
    if bias is not None:
        y = b.op("Add", y, bias)
    return y


@converter("layer_norm", "rms_norm")
def _rows(b: Builder, call: Call) -> Any:
    x, *parameters = call.inputs
    dtype, result = _widest(call), call.outputs[0].dtype
    shape = call.attrs["normalized_shape"] or [x.shape[-1]]
    eps = call.attrs["eps"]
    eps = float(np.finfo(result).eps if eps is None else eps)
    name = b.operand(x, dtype)
    names = [None if p is None else b.operand(p, dtype) for p in parameters]
    weight, bias = (*names, None)[:2]
    layer = call.op == "layer_norm"
    if dtype == "float64":  # of which ONNX's operators compute the statistics in float32
        axes = b.ints(range(x.ndim - len(shape), x.ndim))
        name = _centered(b, name, axes) if layer else name
        y = _affine(b, _scaled(b, name, axes, eps, dtype), weight, bias)
    else:
        weight = b.constant(np.ones(shape), dtype) if weight is None else weight
        more = [] if bias is None else [bias]
        op = "LayerNormalization" if layer else "RMSNormalization"
        y = b.op(op, name, weight, *more, axis=-len(shape), epsilon=eps)
    return b.cast(y, dtype, result)


@converter("group_norm", "instance_norm")
def _groups(b: Builder, call: Call) -> Any:
    x, weight, bias = call.inputs
    dtype, result = _widest(call), call.outputs[0].dtype
    channels, eps = x.shape[1], float(call.attrs["eps"])
    groups = call.attrs["num_groups"] if call.op == "group_norm" else channels
    name = b.operand(x, dtype)
    names = [None if p is None else b.operand(p, dtype) for p in (weight, bias)]
    if dtype == "float64" or (call.op == "instance_norm" and x.ndim == 2):
        size = math.prod(x.shape[1:]) // groups
        rows, axes = b.reshape(name, (x.shape[0], groups, size)), b.ints([2])
        y = b.reshape(_scaled(b, _centered(b, rows, axes), axes, eps, dtype), x.shape)
        column = (channels, *[1] * (x.ndim - 2))
        y = _affine(b, y, *[None if n is None else b.reshape(n, column) for n in names])
    else:
        scale = names[0] or b.constant(np.ones(channels), dtype)
        shift = names[1] or b.constant(np.zeros(channels), dtype)
        if call.op == "group_norm":
            y = b.op("GroupNormalization", name, scale, shift, num_groups=groups, epsilon=eps)
        else:
            y = b.op("InstanceNormalization", name, scale, shift, epsilon=eps)
    return b.cast(y, dtype, result)
