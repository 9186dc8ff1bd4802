"""Sums and other reductions over axes, and running ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import chx
from chx._types import is_float
from chx.onnx._import._node import Node
from chx.onnx._import._registry import operator


def _same(function: Callable[..., Any]) -> Callable[..., Any]:
    """Sums of the dtype of what is summed."""
    return lambda x, axis, keepdims: function(x, axis=axis, keepdims=keepdims, dtype=x.dtype)


def _lowest(x: Any, sign: int) -> Any:
    if is_float(x.dtype):
        return -sign * chx.inf
    if x.dtype == "bool":
        return sign < 0
    info = chx.iinfo(x.dtype)
    return info.min if sign > 0 else info.max


def _extreme(function: Callable[..., Any], sign: int) -> Callable[..., Any]:
    def reduce(x: Any, axis: Any, keepdims: bool) -> Any:
        if x.size == 0:
            # Of no elements: the least of the dtype, or the greatest.
            zeros = chx.sum(x, axis=axis, keepdims=keepdims)
            return chx.full(zeros.shape, _lowest(x, sign), dtype=x.dtype)
        return function(x, axis=axis, keepdims=keepdims)

    return reduce


def _mean(x: Any, axis: Any, keepdims: bool) -> Any:
    if is_float(x.dtype):
        return chx.mean(x, axis=axis, keepdims=keepdims)
    return chx.mean(x, axis=axis, keepdims=keepdims, dtype="float64").astype(x.dtype)


def _log_sum_exp(x: Any, axis: Any, keepdims: bool) -> Any:
    return (
        chx.logsumexp(x, axis=axis, keepdims=keepdims)
        if x.size
        else chx.log(chx.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype))
    )


_sum = _same(chx.sum)

_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceL1": lambda x, axis, keepdims: _sum(chx.abs(x), axis, keepdims),
    "ReduceL2": lambda x, axis, keepdims: chx.sqrt(_sum(x * x, axis, keepdims)).astype(x.dtype),
    "ReduceLogSum": lambda x, axis, keepdims: chx.log(_sum(x, axis, keepdims)),
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceMax": _extreme(chx.amax, 1),
    "ReduceMean": _mean,
    "ReduceMin": _extreme(chx.amin, -1),
    "ReduceProd": _same(chx.prod),
    "ReduceSum": _sum,
    "ReduceSumSquare": lambda x, axis, keepdims: _sum(x * x, axis, keepdims),
}


@operator(*_REDUCTIONS)
def reduce(node: Node) -> Any:
    x = node.array(0)
    axes = node.ints_of("axes", 1)
    if not axes:
        if node.attr("noop_with_empty_axes", 0):
            # As over axes of size 1: ReduceL1 is the absolute value, for example.
            return _REDUCTIONS[node.op](chx.expand_dims(x, 0), (0,), False)
        axes = list(range(x.ndim))
    checked = tuple(node.checked_axis(axis, x.ndim) for axis in axes)
    if x.ndim == 0:
        return _REDUCTIONS[node.op](chx.expand_dims(x, 0), (0,), False)
    return _REDUCTIONS[node.op](x, checked, bool(node.attr("keepdims", 1)))


@operator("ArgMax", "ArgMin")
def arg_extreme(node: Node) -> Any:
    x = node.array(0)
    axis = node.axis(x.ndim)
    function = chx.argmax if node.op == "ArgMax" else chx.argmin
    if node.attr("select_last_index", 0):
        result = x.shape[axis] - 1 - function(chx.flip(x, axis), axis=axis)
    else:
        result = function(x, axis=axis)
    return chx.expand_dims(result, axis) if node.attr("keepdims", 1) else result


@operator("CumSum", "CumProd")
def running(node: Node) -> Any:
    x = node.array(0)
    axis = node.checked_axis(int(node.number(1)), x.ndim)
    function, first = (chx.cumsum, 0) if node.op == "CumSum" else (chx.cumprod, 1)
    reverse = node.attr("reverse", 0)
    x = chx.flip(x, axis) if reverse else x
    if node.attr("exclusive", 0):
        key = [slice(None)] * x.ndim
        key[axis] = slice(0, max(x.shape[axis] - 1, 0))
        widths = [0] * (2 * x.ndim)
        widths[2 * axis] = min(x.shape[axis], 1)
        x = chx._core.constant_pad(x[tuple(key)], widths, first)
    result = function(x, axis=axis, dtype=x.dtype)
    return chx.flip(result, axis) if reverse else result
