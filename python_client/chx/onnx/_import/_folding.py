"""Arithmetic with shapes, in the client: of what it knows, nothing needs to be asked for.

A shape that is computed from shapes would otherwise be a round trip for each Reshape, and could not be
recorded by chx.jit. Arrays of more elements than shapes have are the daemon's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chx._types import is_float
from chx.onnx._import._node import Constant, Node
from chx.onnx._import._tensors import dtype_name

_MOST = 64


def fold(node: Node) -> Any:
    """The result as a NumPy array; None where this is not arithmetic with known shapes."""
    function = _TABLE.get(node.op)
    if function is None or not node.inputs:
        return None
    values = []
    for value in node.inputs:
        if not isinstance(value, Constant) or value.value.size > _MOST:
            return None
        values.append(value.value)
    if all(is_float(value.dtype) for value in values):
        return None
    with np.errstate(all="ignore"):
        result = function(node, *values)
    return None if result is None else np.asarray(result)


def _axes(node: Node) -> tuple[int, ...] | None:
    axes = node.ints_of("axes", 1)
    return None if axes is None else tuple(axes)


def _slice(node: Node, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    key = [slice(None)] * x.ndim
    axes = range(len(starts)) if axes is None else axes
    for i, axis in enumerate(axes):
        step = 1 if steps is None else int(steps[i])
        start, end = int(starts[i]), int(ends[i])
        if step < 0 and end < -x.shape[axis]:
            key[axis] = slice(start, None, step)
        else:
            key[axis] = slice(start, end, step)
    return x[tuple(key)]


def _unsqueeze(node: Node, x: Any, *_: Any) -> Any:
    axes = _axes(node)
    return None if axes is None else np.expand_dims(x, axes)


def _divide(node: Node, a: Any, b: Any) -> Any:
    if is_float(np.result_type(a, b)):
        return np.true_divide(a, b)
    return None if (b == 0).any() else np.fix(a / b).astype(a.dtype)


def _cast(node: Node, x: Any) -> Any:
    to = node.attr("to")
    return x.astype(dtype_name(to, node.label)) if isinstance(to, int) else None


def _if_same(function: Callable[..., Any]) -> Callable[..., Any]:
    def same(node: Node, a: Any, b: Any) -> Any:
        return function(a, b) if a.dtype == b.dtype and not node.attributes else None

    return same


_TABLE: dict[str, Callable[..., Any]] = {
    "Add": _if_same(np.add),
    "Sub": _if_same(np.subtract),
    "Mul": _if_same(np.multiply),
    "Equal": _if_same(np.equal),
    "Div": _divide,
    "Cast": _cast,
    "Concat": lambda node, *xs: np.concatenate(xs, node.attr("axis", 1)),
    "Gather": lambda node, x, i: np.take(x, i, axis=node.attr("axis", 0)),
    "Identity": lambda node, x: x,
    "Neg": lambda node, x: np.negative(x),
    "Not": lambda node, x: np.logical_not(x),
    "Slice": lambda node, x, *rest: _slice(node, x, *rest) if rest else None,
    "Squeeze": lambda node, x, *_: np.squeeze(x, _axes(node)),
    "Unsqueeze": _unsqueeze,
    "Where": lambda node, c, a, b: np.where(c, a, b) if a.dtype == b.dtype else None,
}
