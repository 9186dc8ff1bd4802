"""Losses, and steps of optimizers."""

from __future__ import annotations

from typing import Any

import chx
from chx.onnx._import._node import Node
from chx.onnx._import._registry import operator


def _negative_log_likelihood(node: Node, log_prob: Any, labels: Any, weights: Any) -> Any:
    ignored = node.attr("ignore_index")
    places = labels.astype("int64")
    kept = None
    if ignored is not None:
        kept = chx.not_equal(places, ignored)
        places = chx.where(kept, places, 0)
    loss = -chx.squeeze(chx.take_along_axis(log_prob, chx.expand_dims(places, 1), axis=1), 1)
    weight = chx.ones_like(loss) if weights is None else chx.take(weights, places, axis=0)
    if kept is not None:
        weight = chx.where(kept, weight, chx.zeros_like(weight))
    loss = loss * weight
    reduction = node.attr("reduction", "mean")
    if reduction == "none":
        return loss
    total = chx.sum(loss)
    return total if reduction == "sum" else total / chx.sum(weight)


@operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood(node: Node) -> Any:
    return _negative_log_likelihood(node, node.array(0), node.array(1), node[2])


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(node: Node) -> Any:
    log_prob = chx.log_softmax(node.array(0), axis=1)
    return _negative_log_likelihood(node, log_prob, node.array(1), node[2]), log_prob


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
