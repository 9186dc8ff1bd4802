"""Losses, and steps of optimizers."""

from __future__ import annotations

from typing import Any

import chx
from chx.onnx._import._node import Node
from chx.onnx._import._registry import operator


def _options(node: Node) -> dict[str, Any]:
    ignored = node.attr("ignore_index")
    options = {} if ignored is None else {"ignore_index": ignored}
    return {"weight": node[2], "reduction": node.attr("reduction", "mean"), **options}


@operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood(node: Node) -> Any:
    return chx.nll_loss(node.array(0), node.array(1), **_options(node))


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(node: Node) -> Any:
    x, labels = node.array(0), node.array(1)
    if not node.wants(1):
        return chx.cross_entropy(x, labels, **_options(node))
    log_prob = chx.log_softmax(x, axis=1)
    return chx.nll_loss(log_prob, labels, **_options(node)), log_prob


_TRAINING = "ai.onnx.preview.training"


def _optimized(node: Node, states: int, update: Any) -> Any:
    """New parameters, then new states, of groups of parameters, gradients and states."""
    rate, step = node.array(0), node.array(1)
    count = (len(node) - 2) // (2 + states)
    rows = []
    for i in range(count):
        rows.append(update(rate, step, *(node.array(2 + i + j * count) for j in range(2 + states))))
    return tuple(value for kind in zip(*rows) for value in kind)


@operator("Adagrad", domain=_TRAINING)
def adagrad(node: Node) -> Any:
    decay, norm = node.attr("decay_factor", 0.0), node.attr("norm_coefficient", 0.0)

    def update(rate: Any, step: Any, x: Any, g: Any, h: Any) -> Any:
        g = norm * x + g
        h = h + g * g
        rate = rate / (1 + step.astype(x.dtype) * decay)
        return x - rate * g / (chx.sqrt(h) + node.attr("epsilon", 1e-6)), h

    return _optimized(node, 1, update)


@operator("Adam", domain=_TRAINING)
def adam(node: Node) -> Any:
    a, b = node.attr("alpha", 0.9), node.attr("beta", 0.999)

    def update(rate: Any, step: Any, x: Any, g: Any, v: Any, h: Any) -> Any:
        g = node.attr("norm_coefficient", 0.0) * x + g
        v, h = a * v + (1 - a) * g, b * h + (1 - b) * g * g
        count = step.astype("float32")
        corrected = rate * chx.sqrt(1 - b**count) / (1 - a**count)
        rate = chx.where(step > 0, corrected, rate)
        x = x - rate * v / (chx.sqrt(h) + node.attr("epsilon", 1e-6))
        return (1 - node.attr("norm_coefficient_post", 0.0)) * x, v, h

    return _optimized(node, 2, update)


@operator("Momentum", domain=_TRAINING)
def momentum(node: Node) -> Any:
    alpha, beta = node.attr("alpha"), node.attr("beta")

    def update(rate: Any, step: Any, x: Any, g: Any, v: Any) -> Any:
        g = node.attr("norm_coefficient", 0.0) * x + g
        v = alpha * v + chx.where(step > 0, beta, 1.0).astype(g.dtype) * g
        moved = g + alpha * v if node.attr("mode") == "nesterov" else v
        return x - rate * moved, v

    return _optimized(node, 1, update)
