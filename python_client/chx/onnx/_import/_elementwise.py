"""Arithmetic, comparisons, logic, and elementary functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import chx
from chx._types import is_float
from chx.onnx._import._node import Constant, Node
from chx.onnx._import._registry import TABLE, elementwise, operator
from chx.onnx._import._tensors import dtype_name

elementwise(
    {
        "Abs": chx.abs,
        "Acos": chx.arccos,
        "Acosh": chx.arccosh,
        "And": chx.logical_and,
        "Asin": chx.arcsin,
        "Asinh": chx.arcsinh,
        "Atan": chx.arctan,
        "Atanh": chx.arctanh,
        "BitwiseAnd": chx.bitwise_and,
        "BitwiseNot": chx.bitwise_not,
        "BitwiseOr": chx.bitwise_or,
        "BitwiseXor": chx.bitwise_xor,
        "Ceil": chx.ceil,
        "Cos": chx.cos,
        "Cosh": chx.cosh,
        "Erf": chx.erf,
        "Exp": chx.exp,
        "Floor": chx.floor,
        "GreaterOrEqual": chx.greater_equal,
        "IsNaN": chx.isnan,
        "LessOrEqual": chx.less_equal,
        "Log": chx.log,
        "Neg": chx.negative,
        "Not": chx.logical_not,
        "Reciprocal": chx.reciprocal,
        "Round": chx.rint,
        "Sign": chx.sign,
        "Sin": chx.sin,
        "Sinh": chx.sinh,
        "Sqrt": chx.sqrt,
        "Tan": chx.tan,
        "Tanh": chx.tanh,
        "Where": chx.where,
    }
)


def pair(node: Node) -> tuple[Any, Any]:
    """Two inputs. Before operator set 7 the second one's place was an attribute."""
    a, b = node.array(0), node.array(1)
    if node.version < 7 and node.attr("broadcast") and "axis" in node.attributes:
        axis = node.axis(a.ndim)
        b = b.reshape(*b.shape, *[1] * (a.ndim - axis - b.ndim))
    return a, b


def _binary(function: Callable[..., Any]) -> Callable[[Node], Any]:
    return lambda node: function(*pair(node))


def _divide(a: Any, b: Any) -> Any:
    if is_float(a.dtype):
        return chx.true_divide(a, b)
    quotient = chx.floor_divide(a, b)  # rounded down; the standard rounds towards zero
    if a.dtype == "uint8":
        return quotient
    inexact = chx.not_equal(chx.multiply(quotient, b), a)
    return quotient + chx.logical_and(inexact, quotient < 0).astype(a.dtype)


_BINARY: dict[str, Callable[..., Any]] = {
    "Add": chx.add,
    "Sub": chx.subtract,
    "Mul": chx.multiply,
    "Div": _divide,
    "Equal": chx.equal,
    "Greater": chx.greater,
    "Less": chx.less,
    "Or": chx.logical_or,
    "Xor": chx.logical_xor,
}
for _name, _function in _BINARY.items():
    TABLE["", _name] = _binary(_function)


@operator("And")
def logical_and(node: Node) -> Any:
    return chx.logical_and(*pair(node))


@operator("Pow")
def power(node: Node) -> Any:
    x, y = pair(node)
    if x.dtype.kind == y.dtype.kind or y.dtype.kind in "iub":
        return chx.power(x, y.astype(x.dtype))
    return chx.power(x.astype(y.dtype), y).astype(x.dtype)


@operator("Mod")
def modulo(node: Node) -> Any:
    a, b = node.array(0), node.array(1)
    if not node.attr("fmod", 0):
        return chx.remainder(a, b)
    if is_float(a.dtype):
        return chx.fmod(a, b)
    return a - chx.multiply(_divide(a, b), b)


def _fold(node: Node, function: Callable[..., Any]) -> Any:
    if not len(node):
        raise node.error("at least one input", "none")
    result = node.array(0)
    for i in range(1, len(node)):
        result = function(result, node.array(i))
    return result


def _folded(function: Callable[..., Any]) -> Callable[[Node], Any]:
    return lambda node: _fold(node, function)


TABLE["", "Sum"] = _folded(chx.add)
TABLE["", "Max"] = _folded(chx.maximum)
TABLE["", "Min"] = _folded(chx.minimum)


@operator("Mean")
def mean(node: Node) -> Any:
    return _fold(node, chx.add) / float(len(node))


@operator("Clip")
def clip(node: Node) -> Any:
    x = node.array(0)
    low = node.attr("min") if node.version < 11 else node[1]
    high = node.attr("max") if node.version < 11 else node[2]
    x = x if low is None else chx.maximum(x, low)
    return x if high is None else chx.minimum(x, high)


@operator("IsInf")
def is_inf(node: Node) -> Any:
    x = node.array(0)
    result = chx.isinf(x)
    if not node.attr("detect_negative", 1):
        result = chx.logical_and(result, x > 0)
    if not node.attr("detect_positive", 1):
        result = chx.logical_and(result, x < 0)
    return result


@operator("BitShift")
def bit_shift(node: Node) -> Any:
    shift = chx.left_shift if node.attr("direction") == "LEFT" else chx.right_shift
    x, y = node.array(0), node.array(1)
    bits = x.dtype.itemsize * 8
    if x.dtype.kind == "i" and shift is chx.right_shift:
        return shift(x, chx.minimum(y, bits - 1))  # copies of the sign come in
    return chx.where(y < bits, shift(x, chx.minimum(y, bits - 1)), chx.zeros_like(x))


@operator("Cast")
def cast(node: Node) -> Any:
    to = node.attr("to")
    if isinstance(to, str):  # operator set 1
        to = _NAMES.get(to, to)
        return node.array(0).astype(to)
    return node.array(0).astype(dtype_name(to, node.label))


_NAMES = {"FLOAT": "float32", "DOUBLE": "float64", "BOOL": "bool"} | {
    name.upper(): name for name in ("int8", "int16", "int32", "int64", "uint8", "float16")
}


@operator("CastLike")
def cast_like(node: Node) -> Any:
    return node.array(0).astype(node.array(1).dtype)


@operator("BitCast")
def bit_cast(node: Node) -> Any:
    x, dtype = node.array(0), np.dtype(dtype_name(node.attr("to"), node.label))
    if x.dtype == dtype:
        return x
    # The bits pass through the client: no operator of the daemon shows one dtype's as another's.
    return Constant(np.atleast_1d(chx.to_numpy(x)).view(dtype).reshape(x.shape))


@operator("Identity")
def identity(node: Node) -> Any:
    return node.inputs[0]


@operator("Dropout")
def dropout(node: Node) -> Any:
    """Operator set 12 has the mode as an input; before, models are for inference."""
    x = node.array(0)
    ratio = node.attr("ratio", 0.5)
    training = False
    if node.version >= 12:
        ratio, training = float(node.number(1, 0.5)), bool(node.number(2, False))
    if not training or ratio == 0:
        return x, chx.ones(x.shape, dtype="bool" if node.version >= 10 else x.dtype)
    seed = node.attr("seed")
    source: Any = chx.random.default_rng(seed) if seed is not None else chx.random
    kept = source.random(x.shape) >= ratio
    return chx.where(kept, x / (1.0 - ratio), chx.zeros_like(x)), kept
