"""Losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chx._types import is_float
from chx.onnx._export._builder import Builder, converter
from chx.onnx._export._trace import Call

_REDUCTIONS = ("mean", "sum", "none", "batchmean")  # by the number of the choice


@converter("softmax_cross_entropy")
def _softmax_cross_entropy(b: Builder, call: Call) -> Any:
    x, t = call.inputs
    dtype = call.outputs[0].dtype
    labels = b.operand(t, np.dtype("int64"))
    # A label of -1 counts as nothing.
    return b.op(
        "SoftmaxCrossEntropyLoss",
        b.operand(x, dtype),
        labels,
        reduction="none",
        ignore_index=-1,
    )


@converter("sigmoid_cross_entropy")
def _sigmoid_cross_entropy(b: Builder, call: Call) -> Any:
    x, t = call.inputs
    dtype = call.outputs[0].dtype
    score, label = b.operand(x, dtype), b.operand(t, dtype)
    loss = b.op("Sub", b.op("Softplus", score), b.op("Mul", score, label))
    ignored = b.op("Equal", label, b.constant(-1, dtype))
    return b.op("Where", ignored, b.constant(0, dtype), loss)


@converter("huber_loss")
def _huber_loss(b: Builder, call: Call) -> Any:
    dtype, delta = call.outputs[0].dtype, call.attrs["delta"]
    x1, x2 = b.operands(call)
    difference = b.op("Sub", x1, x2)
    distance = b.op("Abs", difference)
    near = b.op("Mul", b.op("Mul", difference, difference), b.constant(0.5, dtype))
    far = b.op("Sub", distance, b.constant(0.5 * delta, dtype))
    far = b.op("Mul", far, b.constant(delta, dtype))
    return b.op("Where", b.op("Less", distance, b.constant(delta, dtype)), near, far)


def _reduced(b: Builder, loss: str, reduction: str, count: str = "") -> Any:
    """Elements, their sum, or their sum divided by a count."""
    if reduction == "none":
        return loss
    total = b.op("ReduceSum", loss, keepdims=0)
    return total if reduction == "sum" else b.op("Div", total, count)


@converter("cross_entropy", "nll_loss")
def _classes(b: Builder, call: Call) -> Any:
    x, target, weight = call.inputs
    reduction = _REDUCTIONS[call.attrs["reduction"]]
    if is_float(target.dtype):
        return _of_probabilities(b, call, reduction)
    # ONNX always has a batch.
    shape = x.shape if x.ndim > 1 else (1, x.size)
    scores, labels = b.name(x), b.operand(target, np.dtype("int64"))
    if x.ndim == 1:
        scores, labels = b.reshape(scores, shape), b.reshape(labels, (1,))
    factors = [] if weight is None else [b.operand(weight, x.dtype)]
    ignored = call.attrs["ignore_index"]
    smoothing = call.attrs.get("label_smoothing", 0)
    if smoothing:
        y = _smoothed(b, scores, labels, factors, ignored, reduction, smoothing, shape, x.dtype)
    else:
        name = "NegativeLogLikelihoodLoss" if call.op == "nll_loss" else "SoftmaxCrossEntropyLoss"
        y = b.op(name, scores, labels, *factors, reduction=reduction, ignore_index=ignored)
    return b.reshape(y, ()) if x.ndim == 1 and reduction == "none" else y


def _smoothed(
    b: Builder,
    scores: str,
    labels: str,
    factors: list[str],
    ignored: int,
    reduction: str,
    smoothing: float,
    shape: Sequence[int],
    dtype: Any,
) -> Any:
    """A share of the loss is that of all classes alike."""

    def counts(*weights: str, how: str) -> Any:
        """1, or its weight, for each label that counts."""
        same = b.op("Expand", b.constant(-1, dtype), b.ints(shape))
        return b.op(
            "NegativeLogLikelihoodLoss",
            same,
            labels,
            *weights,
            reduction=how,
            ignore_index=ignored,
        )

    own, logs = b.op(
        "SoftmaxCrossEntropyLoss",
        scores,
        labels,
        *factors,
        outputs=2,
        reduction="none",
        ignore_index=ignored,
    )
    if factors:
        logs = b.op("Mul", logs, b.reshape(factors[0], (-1, *[1] * (len(shape) - 2))))
    others = b.op("Mul", b.op("ReduceSum", logs, b.ints([1]), keepdims=0), counts(how="none"))
    own = b.op("Mul", own, b.constant(1 - smoothing, dtype))
    others = b.op("Mul", others, b.constant(smoothing / shape[1], dtype))
    loss = b.op("Sub", own, others)
    if reduction == "mean":
        return _reduced(b, loss, reduction, counts(*factors, how="sum"))
    return _reduced(b, loss, reduction)


def _of_probabilities(b: Builder, call: Call, reduction: str) -> Any:
    x, target, weight = call.inputs
    axis, smoothing = min(x.ndim - 1, 1), call.attrs["label_smoothing"]
    wanted = b.operand(target, x.dtype)
    if smoothing:
        wanted = b.op("Mul", wanted, b.constant(1 - smoothing, x.dtype))
        wanted = b.op("Add", wanted, b.constant(smoothing / x.shape[axis], x.dtype))
    if weight is not None:
        column = b.reshape(b.operand(weight, x.dtype), (-1, *[1] * (x.ndim - 1 - axis)))
        wanted = b.op("Mul", wanted, column)
    products = b.op("Mul", b.op("LogSoftmax", b.name(x), axis=axis), wanted)
    loss = b.op("Neg", b.op("ReduceSum", products, b.ints([axis]), keepdims=0))
    return _reduced(b, loss, reduction, b.constant(x.size // x.shape[axis], x.dtype))


@converter("kl_div")
def _kl_div(b: Builder, call: Call) -> Any:
    dtype = call.outputs[0].dtype
    x, target = b.operands(call)
    if call.attrs["log_target"]:
        loss = b.op("Mul", b.op("Exp", target), b.op("Sub", target, x))
    else:
        zero = b.op("Equal", target, b.constant(0, dtype))
        logs = b.op("Log", b.op("Where", zero, b.constant(1, dtype), target))
        loss = b.op("Mul", target, b.op("Sub", logs, x))
    shapes = [a.shape for a in call.inputs]
    reduction = _REDUCTIONS[call.attrs["reduction"]]
    batch = reduction == "batchmean"
    count = shapes[0][0] if batch else math.prod(np.broadcast_shapes(*shapes))
    return _reduced(b, loss, "mean" if batch else reduction, b.constant(count, dtype))
