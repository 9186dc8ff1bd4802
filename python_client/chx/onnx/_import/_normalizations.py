"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

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


@operator("InstanceNormalization")
def instance_normalization(node: Node) -> Any:
    x, gamma, beta = (node.array(i) for i in range(3))
    return chx.instance_norm(x, gamma, beta, node.attr("epsilon", 1e-5))


@operator("GroupNormalization")
def group_normalization(node: Node) -> Any:
    if node.version < 21:  # a weight for each group, not channel
        return NotImplemented
    x, gamma, beta = (node.array(i) for i in range(3))
    return chx.group_norm(x, node.attr("num_groups"), gamma, beta, node.attr("epsilon", 1e-5))


def _rows(node: Node, x: Any, parameters: Sequence[Any]) -> tuple[Any, Any, bool]:
    """The shape and the dtype of what is normalized, and whether one operator does all."""
    shape = x.shape[node.axis(x.ndim, -1) :]
    dtype = np.dtype(dtype_name(node.attr("stash_type", 1), node.label))
    plain = all(p is None or p.shape == shape for p in parameters)
    return shape, dtype, plain and dtype == np.promote_types(x.dtype, "float32")


@operator("LayerNormalization")
def layer_normalization(node: Node) -> Any:
    x, gamma, beta = node.array(0), node.array(1), node[2]
    eps = node.attr("epsilon", 1e-5)
    shape, dtype, plain = _rows(node, x, (gamma, beta))
    if plain:
        y = chx.layer_norm(x, shape, gamma, beta, eps)
    else:
        y = chx.layer_norm(x.astype(dtype), shape, eps=eps).astype(x.dtype) * gamma
        y = y if beta is None else y + beta
    if not node.wants(1) and not node.wants(2):
        return y
    axes, wide = tuple(range(x.ndim - len(shape), x.ndim)), x.astype(dtype)
    mean = chx.mean(wide, axis=axes, keepdims=True)
    return y, mean, 1 / chx.sqrt(chx.var(wide, axis=axes, keepdims=True) + eps)


@operator("RMSNormalization")
def rms_normalization(node: Node) -> Any:
    x, gamma, eps = node.array(0), node.array(1), node.attr("epsilon", 1e-5)
    shape, dtype, plain = _rows(node, x, (gamma,))
    if plain:
        return chx.rms_norm(x, shape, gamma, eps)
    return chx.rms_norm(x.astype(dtype), shape, eps=eps).astype(x.dtype) * gamma


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
