"""Activation functions."""

from __future__ import annotations

import math
from typing import Any

import chx
from chx._types import is_float
from chx.onnx._import._node import Node
from chx.onnx._import._registry import operator


@operator("Relu")
def relu(node: Node) -> Any:
    x = node.array(0)
    return chx.relu(x) if is_float(x.dtype) else chx.maximum(x, 0)


@operator("Sigmoid")
def sigmoid(node: Node) -> Any:
    return chx.sigmoid(node.array(0))


@operator("Elu")
def elu(node: Node) -> Any:
    return chx.elu(node.array(0), node.attr("alpha", 1.0))


@operator("LeakyRelu")
def leaky_relu(node: Node) -> Any:
    return chx.leaky_relu(node.array(0), node.attr("alpha", 0.01))


@operator("PRelu")
def prelu(node: Node) -> Any:
    x, slope = node.array(0), node.array(1)
    if node.version < 7 and slope.ndim == 1 and slope.size > 1:
        slope = slope.reshape(-1, *[1] * (x.ndim - 2))
    return chx.where(x < 0, x * slope, x)


@operator("Selu")
def selu(node: Node) -> Any:
    new = node.version >= 6
    alpha = node.attr("alpha", 1.67326319217681884765625 if new else 1.6732)
    gamma = node.attr("gamma", 1.05070102214813232421875 if new else 1.0507)
    return gamma * chx.elu(node.array(0), alpha)


@operator("Celu")
def celu(node: Node) -> Any:
    x, alpha = node.array(0), node.attr("alpha", 1.0)
    return chx.maximum(x, 0) + chx.minimum(alpha * chx.expm1(x / alpha), 0)


@operator("ThresholdedRelu")
def thresholded_relu(node: Node) -> Any:
    x = node.array(0)
    return chx.where(x > node.attr("alpha", 1.0), x, chx.zeros_like(x))


@operator("HardSigmoid")
def hard_sigmoid(node: Node) -> Any:
    x = node.array(0)
    return chx.clip(x * node.attr("alpha", 0.2) + node.attr("beta", 0.5), 0, 1)


@operator("HardSwish")
def hard_swish(node: Node) -> Any:
    return chx.hardswish(node.array(0))


@operator("Softplus")
def softplus(node: Node) -> Any:
    return chx.softplus(node.array(0))


@operator("Softsign")
def softsign(node: Node) -> Any:
    x = node.array(0)
    return x / (chx.abs(x) + 1)


@operator("Mish")
def mish(node: Node) -> Any:
    return chx.mish(node.array(0))


@operator("Swish")
def swish(node: Node) -> Any:
    x, alpha = node.array(0), node.attr("alpha", 1.0)
    return chx.silu(x) if alpha == 1 else x * chx.sigmoid(alpha * x)


@operator("Gelu")
def gelu(node: Node) -> Any:
    return chx.gelu(node.array(0), node.attr("approximate", "none"))


@operator("Shrink")
def shrink(node: Node) -> Any:
    x, limit, bias = node.array(0), node.attr("lambd", 0.5), node.attr("bias", 0.0)
    if not is_float(x.dtype):
        y = x.astype("float64")
        return _shrunk(y, limit, bias).astype(x.dtype)
    return _shrunk(x, limit, bias)


def _shrunk(x: Any, limit: float, bias: float) -> Any:
    return chx.where(x < -limit, x + bias, chx.where(x > limit, x - bias, chx.zeros_like(x)))


def over_rows(node: Node, function: Any) -> Any:
    """Along an axis; before operator set 13, over all dimensions from the axis on."""
    x = node.array(0)
    if node.version >= 13:
        return function(x, node.axis(x.ndim, -1))
    axis = node.axis(x.ndim, 1) if x.ndim > 1 or "axis" in node.attributes else 0
    rows = x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
    return function(rows, 1).reshape(x.shape)


@operator("Softmax")
def softmax(node: Node) -> Any:
    return over_rows(node, lambda x, axis: chx.softmax(x, axis=axis))


@operator("LogSoftmax")
def log_softmax(node: Node) -> Any:
    return over_rows(node, lambda x, axis: chx.log_softmax(x, axis=axis))


@operator("Hardmax")
def hardmax(node: Node) -> Any:
    def one_hot(x: Any, axis: int) -> Any:
        places = chx.expand_dims(chx.argmax(x, axis=axis), axis)
        shape = [1] * x.ndim
        shape[axis] = x.shape[axis]
        counts = chx.arange(x.shape[axis], dtype="int64").reshape(*shape)
        return chx.equal(places, counts).astype(x.dtype)

    return over_rows(node, one_hot)
