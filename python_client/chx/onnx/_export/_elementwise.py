"""Arithmetic, comparisons and elementary functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import chx
from chx._types import is_float
from chx.onnx._export._builder import CONVERTERS, Builder, Converter, converter
from chx.onnx._export._trace import Call

_SAME = {
    "abs": "Abs",
    "absolute": "Abs",
    "add": "Add",
    "arccos": "Acos",
    "arccosh": "Acosh",
    "arcsin": "Asin",
    "arcsinh": "Asinh",
    "arctan": "Atan",
    "arctanh": "Atanh",
    "ceil": "Ceil",
    "copy": "Identity",
    "cos": "Cos",
    "cosh": "Cosh",
    "divide": "Div",
    "erf": "Erf",
    "exp": "Exp",
    "fabs": "Abs",
    "floor": "Floor",
    "hardswish": "HardSwish",
    "log": "Log",
    "maximum": "Max",
    "minimum": "Min",
    "mish": "Mish",
    "negative": "Neg",
    "positive": "Identity",
    "power": "Pow",
    "reciprocal": "Reciprocal",
    "relu": "Relu",
    "rint": "Round",
    "sigmoid": "Sigmoid",
    "sign": "Sign",
    "sin": "Sin",
    "sinh": "Sinh",
    "sqrt": "Sqrt",
    "subtract": "Sub",
    "tan": "Tan",
    "tanh": "Tanh",
    "true_divide": "Div",
}


def _by_one(op: str) -> Converter:
    return lambda b, call: b.op(op, *b.operands(call))


for _name, _op in _SAME.items():
    CONVERTERS[_name] = _by_one(_op)


def common_dtype(call: Call) -> Any:
    """What the inputs are promoted to."""
    return chx.result_type(*[v for v in call.inputs if v is not None])


_COMPARISONS = {
    "equal": ("Equal",),
    "not_equal": ("Equal", "Not"),
    "greater": ("Greater",),
    "greater_equal": ("GreaterOrEqual",),
    "less": ("Less",),
    "less_equal": ("LessOrEqual",),
}


@converter(*_COMPARISONS)
def _compare(b: Builder, call: Call) -> Any:
    dtype = common_dtype(call)
    dtype = np.dtype("int32") if dtype == "bool" else dtype
    op, *rest = _COMPARISONS[call.op]
    result = b.op(op, *b.operands(call, dtype))
    return b.op(rest[0], result) if rest else result


_LOGIC = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "logical_not": "Not"}
_BITS = {"bitwise_and": "And", "bitwise_or": "Or", "bitwise_xor": "Xor"}
_BITS |= {"bitwise_not": "Not", "invert": "Not"}


@converter(*_LOGIC)
def _logic(b: Builder, call: Call) -> Any:
    return b.op(_LOGIC[call.op], *b.operands(call, np.dtype("bool")))


@converter(*_BITS)
def _bits(b: Builder, call: Call) -> Any:
    boolean = call.outputs[0].dtype == "bool"
    return b.op(("" if boolean else "Bitwise") + _BITS[call.op], *b.operands(call))


@converter("multiply")
def _multiply(b: Builder, call: Call) -> Any:
    return b.op("And" if call.outputs[0].dtype == "bool" else "Mul", *b.operands(call))


@converter("square")
def _square(b: Builder, call: Call) -> Any:
    (x,) = b.operands(call)
    return b.op("Mul", x, x)


@converter("squared_difference", "squared_error")
def _squared_difference(b: Builder, call: Call) -> Any:
    d = b.op("Sub", *b.operands(call))
    return b.op("Mul", d, d)


@converter("absolute_error")
def _absolute_error(b: Builder, call: Call) -> Any:
    return b.op("Abs", b.op("Sub", *b.operands(call)))


@converter("remainder", "mod", "fmod", "floor_divide")
def _divisions(b: Builder, call: Call) -> Any:
    x, y = b.operands(call)
    kind = call.outputs[0].dtype.kind
    if call.op == "floor_divide":
        if kind == "f":
            return b.op("Floor", b.op("Div", x, y))
        return b.op("Div", b.op("Sub", x, b.op("Mod", x, y)), y)
    if call.op == "fmod" or kind != "f":
        return b.op("Mod", x, y, fmod=int(call.op == "fmod"))
    return b.op("Sub", x, b.op("Mul", b.op("Floor", b.op("Div", x, y)), y))


@converter("trunc")
def _trunc(b: Builder, call: Call) -> Any:
    (x,) = b.operands(call)
    return b.op("Mul", b.op("Sign", x), b.op("Floor", b.op("Abs", x)))


def _scaled(b: Builder, call: Call, op: str, factor: float) -> Any:
    (x,) = b.operands(call)
    y = b.op(op, x) if op else x
    return b.op("Mul", y, b.constant(factor, call.outputs[0].dtype))


_FACTORS = {
    "log2": ("Log", 1 / math.log(2)),
    "log10": ("Log", 1 / math.log(10)),
    "radians": ("", math.pi / 180),
    "deg2rad": ("", math.pi / 180),
    "degrees": ("", 180 / math.pi),
    "rad2deg": ("", 180 / math.pi),
}


@converter(*_FACTORS)
def _with_factor(b: Builder, call: Call) -> Any:
    return _scaled(b, call, *_FACTORS[call.op])


@converter("exp2")
def _exp2(b: Builder, call: Call) -> Any:
    return b.op("Pow", b.constant(2, call.outputs[0].dtype), *b.operands(call))


@converter("expm1")
def _expm1(b: Builder, call: Call) -> Any:
    """2 sinh(x / 2) exp(x / 2): exact for small x, too."""
    dtype = call.outputs[0].dtype
    half = b.op("Mul", *b.operands(call), b.constant(0.5, dtype))
    doubled = b.op("Mul", b.op("Sinh", half), b.constant(2, dtype))
    return b.op("Mul", doubled, b.op("Exp", half))


@converter("log1p")
def _log1p(b: Builder, call: Call) -> Any:
    """2 artanh(x / (x + 2)): exact for small x, too."""
    dtype = call.outputs[0].dtype
    (x,) = b.operands(call)
    two = b.constant(2, dtype)
    small = b.op("Mul", b.op("Atanh", b.op("Div", x, b.op("Add", x, two))), two)
    large = b.op("Log", b.op("Add", x, b.constant(1, dtype)))
    return b.op("Where", b.op("Less", x, b.constant(0.5, dtype)), small, large)


@converter("logaddexp")
def _logaddexp(b: Builder, call: Call) -> Any:
    x, y = b.operands(call)
    distance = b.op("Neg", b.op("Abs", b.op("Sub", x, y)))
    one = b.constant(1, call.outputs[0].dtype)
    rest = b.op("Log", b.op("Add", b.op("Exp", distance), one))
    return b.op("Add", b.op("Max", x, y), rest)


@converter("isnan")
def _isnan(b: Builder, call: Call) -> Any:
    return _on_floats(b, call, "IsNaN")


@converter("isinf")
def _isinf(b: Builder, call: Call) -> Any:
    return _on_floats(b, call, "IsInf")


@converter("isfinite")
def _isfinite(b: Builder, call: Call) -> Any:
    return b.op("Not", b.op("Or", _on_floats(b, call, "IsNaN"), _on_floats(b, call, "IsInf")))


def _on_floats(b: Builder, call: Call, op: str) -> str:
    dtype = call.inputs[0].dtype
    dtype = dtype if is_float(dtype) else np.dtype("float32")
    name: str = b.op(op, *b.operands(call, dtype))
    return name


def selected(b: Builder, condition: Any, x: Any, y: Any, dtype: Any) -> Any:
    """Where, also of dtypes of which onnxruntime has none."""
    wide = np.dtype({"bool": "uint8", "int16": "int32"}.get(str(dtype), dtype))
    names = [b.cast(b.operand(value, dtype), dtype, wide) for value in (x, y)]
    return b.cast(b.op("Where", b.operand(condition, np.dtype("bool")), *names), wide, dtype)


@converter("where")
def _where(b: Builder, call: Call) -> Any:
    condition, x, y = call.inputs
    return selected(b, condition, x, y, call.outputs[0].dtype)


@converter("astype")
def _astype(b: Builder, call: Call) -> Any:
    have, want = call.inputs[0].dtype, call.outputs[0].dtype
    name = b.name(call.inputs[0])
    return b.op("Identity", name) if have == want else b.cast(name, have, want)


@converter("clipped_relu")
def _clipped_relu(b: Builder, call: Call) -> Any:
    dtype = call.outputs[0].dtype
    return b.op("Clip", *b.operands(call), b.constant(0, dtype), b.constant(call.attrs["z"], dtype))


@converter("elu")
def _elu(b: Builder, call: Call) -> Any:
    return b.op("Elu", *b.operands(call), alpha=float(call.attrs["alpha"]))


@converter("leaky_relu")
def _leaky_relu(b: Builder, call: Call) -> Any:
    return b.op("LeakyRelu", *b.operands(call), alpha=float(call.attrs["slope"]))


@converter("crelu")
def _crelu(b: Builder, call: Call) -> Any:
    (x,) = b.operands(call)
    parts = [b.op("Relu", x), b.op("Relu", b.op("Neg", x))]
    return b.op("Concat", *parts, axis=int(call.attrs["axis"]))


@converter("gelu")
def _gelu(b: Builder, call: Call) -> Any:
    return b.op("Gelu", *b.operands(call), approximate=("none", "tanh")[call.attrs["approximate"]])


@converter("silu")
def _silu(b: Builder, call: Call) -> Any:
    """Not by Swish, of which onnxruntime has no kernel."""
    (x,) = b.operands(call)
    return b.op("Mul", x, b.op("Sigmoid", x))


@converter("softplus")
def _softplus(b: Builder, call: Call) -> Any:
    (x,) = b.operands(call)
    beta = call.attrs["beta"]
    if beta == 1:
        return b.op("Softplus", x)
    factor = b.constant(beta, call.outputs[0].dtype)
    return b.op("Div", b.op("Softplus", b.op("Mul", x, factor)), factor)
