"""Normalizations."""

from __future__ import annotations

from typing import Any

import chx
from chx.onnx._import._node import Node
from chx.onnx._import._registry import operator
from chx.onnx._import._tensors import dtype_name


def _along_channels(a: Any, ndim: int) -> Any:
    return a.reshape(-1, *[1] * (ndim - 2))


@operator("BatchNormalization")
def batch_normalization(node: Node) -> Any:
    x, gamma, beta, mean, var = (node.array(i) for i in range(5))
    eps = node.attr("epsilon", 1e-5)
    if not node.attr("spatial", 1):  # before operator set 9: statistics of each element
        return (x - mean) / chx.sqrt(var + eps) * gamma + beta
    axes = (0, *range(2, x.ndim))
    training = node.attr("training_mode", 0)
    used_mean, used_var = mean, var
    if training:
        wide = x.astype("float32") if x.dtype == "float16" else x
        used_mean, used_var = chx.mean(wide, axis=axes), chx.var(wide, axis=axes)
    ndim = max(x.ndim, 2)
    scale = gamma / chx.sqrt(used_var + eps).astype(gamma.dtype)
    shifted = x - _along_channels(used_mean.astype(x.dtype), ndim)
    y = (shifted * _along_channels(scale, ndim) + _along_channels(beta, ndim)).astype(x.dtype)
    if not training:
        return y
    momentum = node.attr("momentum", 0.9)
    running = (
        (old * momentum + new * (1 - momentum)).astype(old.dtype)
        for old, new in ((mean, used_mean), (var, used_var))
    )
    return y, *running


def _normalized(x: Any, axes: tuple[int, ...], eps: float) -> tuple[Any, Any, Any]:
    """x with mean 0 and variance 1 over axes; the mean; and what was divided by, inverted."""
    mean = chx.mean(x, axis=axes, keepdims=True)
    inverse = 1 / chx.sqrt(chx.var(x, axis=axes, keepdims=True) + eps)
    return (x - mean) * inverse, mean, inverse


@operator("InstanceNormalization")
def instance_normalization(node: Node) -> Any:
    x, gamma, beta = (node.array(i) for i in range(3))
    y, _, _ = _normalized(x, tuple(range(2, x.ndim)), node.attr("epsilon", 1e-5))
    return y * _along_channels(gamma, x.ndim) + _along_channels(beta, x.ndim)


@operator("LayerNormalization")
def layer_normalization(node: Node) -> Any:
    x, gamma, beta = node.array(0), node.array(1), node[2]
    axis = node.axis(x.ndim, -1)
    wide = x.astype(dtype_name(node.attr("stash_type", 1), node.label))
    axes = tuple(range(axis, x.ndim))
    y, mean, inverse = _normalized(wide, axes, node.attr("epsilon", 1e-5))
    y = y.astype(x.dtype) * gamma
    return y if beta is None else y + beta, mean, inverse


@operator("LpNormalization")
def lp_normalization(node: Node) -> Any:
    x, p = node.array(0), node.attr("p", 2)
    axis = node.axis(x.ndim, -1)
    norm = (
        chx.sum(chx.abs(x), axis=axis, keepdims=True)
        if p == 1
        else chx.sqrt(chx.sum(x * x, axis=axis, keepdims=True))
    )
    return chx.where(norm == 0, chx.zeros_like(x), x / chx.where(norm == 0, 1, norm))


@operator("LRN")
def local_response_normalization(node: Node) -> Any:
    x, size = node.array(0), node.attr("size")
    if not 1 <= size <= 2 * x.shape[1] + 1:
        size = min(max(size, 1), 2 * x.shape[1] + 1)  # no window has more channels than there are
    before = (size - 1) // 2
    widths = [0] * (2 * x.ndim)
    widths[2:4] = [before, size - 1 - before]
    squares = chx._core.constant_pad(x * x, widths, 0)
    total = squares[:, : x.shape[1]]
    for i in range(1, size):
        total = total + squares[:, i : i + x.shape[1]]
    scale = node.attr("bias", 1.0) + node.attr("alpha", 1e-4) / node.attr("size") * total
    return x / scale ** node.attr("beta", 0.75)
