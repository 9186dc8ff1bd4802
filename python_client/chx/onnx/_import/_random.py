"""Random numbers, by the device's generator. A seed gives the same numbers in each call."""

from __future__ import annotations

from typing import Any

import chx
from chx.onnx._import._node import Node
from chx.onnx._import._registry import operator
from chx.onnx._import._tensors import dtype_name


def _source(node: Node) -> Any:
    seed = node.attr("seed")
    return chx.random if seed is None else chx.random.default_rng(int(seed) % 2**63)


def _place(node: Node) -> tuple[tuple[int, ...], str]:
    """The shape and the dtype of the result."""
    number = node.attr("dtype")
    if node.op.endswith("Like"):
        x = node.array(0)
        return x.shape, str(x.dtype) if number is None else dtype_name(number, node.label)
    return tuple(node.attr("shape")), dtype_name(1 if number is None else number, node.label)


@operator("RandomNormal", "RandomNormalLike")
def normal(node: Node) -> Any:
    shape, dtype = _place(node)
    mean, scale = node.attr("mean", 0.0), node.attr("scale", 1.0)
    return (_source(node).normal(size=shape) * scale + mean).astype(dtype)


@operator("RandomUniform", "RandomUniformLike")
def uniform(node: Node) -> Any:
    shape, dtype = _place(node)
    low, high = node.attr("low", 0.0), node.attr("high", 1.0)
    return (_source(node).random(shape) * (high - low) + low).astype(dtype)


@operator("Bernoulli")
def bernoulli(node: Node) -> Any:
    p = node.array(0)
    number = node.attr("dtype")
    dtype = str(p.dtype) if number is None else dtype_name(number, node.label)
    return chx.less(_source(node).random(p.shape), p).astype(dtype)


@operator("Multinomial")
def multinomial(node: Node) -> Any:
    """Indices of the greatest of the logarithms plus Gumbel noise."""
    logits = node.array(0)
    number, count = node.attr("dtype", 6), node.attr("sample_size", 1)
    noise = _source(node).random((logits.shape[0], count, logits.shape[1])).astype(logits.dtype)
    scores = chx.expand_dims(logits, 1) - chx.log(-chx.log(noise))
    return chx.argmax(scores, axis=2).astype(dtype_name(number, node.label))
