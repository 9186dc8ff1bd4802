"""Quantized integers, and products of integers."""

from __future__ import annotations

from typing import Any

import chx
from chx.onnx._import._convolutions import convolve
from chx.onnx._import._node import Node
from chx.onnx._import._registry import operator
from chx.onnx._import._tensors import dtype_name


def _spread(node: Node, a: Any, x: Any) -> Any:
    """Scales or zero points: one, one along an axis, or one for each block along it."""
    if a is None or a.size == 1 and a.ndim < 2:
        return a if a is None else a.reshape(())
    axis = node.axis(x.ndim, 1)
    block = node.attr("block_size", 0)
    if block:
        wide = chx.repeat(a, block, axis=axis)
        return wide[tuple(slice(n) for n in x.shape)]
    shape = [1] * x.ndim
    shape[axis] = -1
    return a.reshape(*shape)


def _saturated(y: Any, dtype: Any) -> Any:
    info = chx.iinfo(dtype)
    return chx.clip(y, info.min, info.max).astype(dtype)


@operator("QuantizeLinear")
def quantize(node: Node) -> Any:
    x, zero = node.array(0), node[2]
    scale = _spread(node, node.array(1), x)
    number = node.attr("output_dtype", 0)
    dtype = str(zero.dtype) if zero is not None else "uint8"
    dtype = dtype_name(number, node.label) if number and zero is None else dtype
    y = chx.rint(x.astype("float32") / scale.astype("float32"))
    if zero is not None:
        y = y + _spread(node, zero, x).astype("float32")
    return _saturated(y, dtype)


@operator("DequantizeLinear")
def dequantize(node: Node) -> Any:
    x, zero = node.array(0), _spread(node, node[2], node.array(0))
    scale = _spread(node, node.array(1), x)
    number = node.attr("output_dtype", 0)
    dtype = dtype_name(number, node.label) if number else str(scale.dtype)
    wide = x.astype("int32") if zero is None else x.astype("int32") - zero.astype("int32")
    return (wide.astype("float32") * scale.astype("float32")).astype(dtype)


def _centred(x: Any, zero: Any) -> Any:
    wide = x.astype("int32")
    return wide if zero is None else wide - zero.astype("int32")


def _rows(zero: Any) -> Any:
    """Zero points or scales of a's rows."""
    return zero.reshape(-1, 1) if zero is not None and zero.ndim == 1 and zero.size > 1 else zero


@operator("MatMulInteger")
def matmul_integer(node: Node) -> Any:
    a, b = _centred(node.array(0), _rows(node[2])), _centred(node.array(1), node[3])
    return chx.matmul(a, b)


@operator("ConvInteger")
def conv_integer(node: Node) -> Any:
    w_zero = node[3]
    w = node.array(1)
    if w_zero is not None and w_zero.ndim == 1 and w_zero.size > 1:
        w_zero = w_zero.reshape(-1, *[1] * (w.ndim - 1))
    return convolve(node, _centred(node.array(0), node[2]), _centred(w, w_zero), None)


def _requantized(y: Any, scale: Any, out_scale: Any, out_zero: Any) -> Any:
    wide = y.astype("float32") * (scale / out_scale.astype("float32"))
    return _saturated(chx.rint(wide) + out_zero.astype("float32"), out_zero.dtype)


@operator("QLinearMatMul")
def qlinear_matmul(node: Node) -> Any:
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (node.array(i) for i in range(8))
    y = chx.matmul(_centred(a, _rows(a_zero)), _centred(b, b_zero))
    product = _rows(a_scale).astype("float32") * b_scale.astype("float32")
    return _requantized(y, product, scale, zero)


@operator("QLinearConv")
def qlinear_conv(node: Node) -> Any:
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero = (node.array(i) for i in range(8))
    if w_zero.size > 1:
        w_zero = w_zero.reshape(-1, *[1] * (w.ndim - 1))
    y = convolve(node, _centred(x, x_zero), _centred(w, w_zero), node[8])
    w_scale = w_scale.reshape(-1, *[1] * (w.ndim - 2)) if w_scale.size > 1 else w_scale
    return _requantized(y, x_scale * w_scale, scale, zero)
