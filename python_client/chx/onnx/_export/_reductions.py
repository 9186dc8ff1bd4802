"""Reductions over axes, softmax, and running sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from chx._types import is_float
from chx.onnx._export._builder import Builder, axes_of, converter
from chx.onnx._export._trace import Call

_NAMES = {
    "sum": "ReduceSum",
    "mean": "ReduceMean",
    "prod": "ReduceProd",
    "max": "ReduceMax",
    "amax": "ReduceMax",
    "min": "ReduceMin",
    "amin": "ReduceMin",
    "logsumexp": "ReduceLogSumExp",
}


def _reduced(b: Builder, op: str, name: str, call: Call, keepdims: bool | None = None) -> str:
    keep = call.attrs["keepdims"] if keepdims is None else keepdims
    axes = axes_of(call)
    result: str
    if not axes:
        result = b.op("Identity", name)
    else:
        result = b.op(op, name, b.ints(axes), keepdims=int(keep))
    return result


@converter(*_NAMES)
def _reduce(b: Builder, call: Call) -> Any:
    (x,) = b.operands(call)
    return _reduced(b, _NAMES[call.op], x, call)


@converter("all", "any")
def _truth(b: Builder, call: Call) -> Any:
    (name,) = b.operands(call, np.dtype("bool"))
    number = b.cast(name, np.dtype("bool"), np.dtype("int32"))
    op = "ReduceMin" if call.op == "all" else "ReduceMax"
    return b.cast(_reduced(b, op, number, call), np.dtype("int32"), np.dtype("bool"))


@converter("count_nonzero")
def _count_nonzero(b: Builder, call: Call) -> Any:
    (name,) = b.operands(call, np.dtype("bool"))
    return _reduced(b, "ReduceSum", b.cast(name, np.dtype("bool"), np.dtype("int64")), call)


@converter("var", "std")
def _var(b: Builder, call: Call) -> Any:
    dtype = call.outputs[0].dtype
    (x,) = b.operands(call)
    distance = b.op("Sub", x, _reduced(b, "ReduceMean", x, call, True))
    total = _reduced(b, "ReduceSum", b.op("Mul", distance, distance), call)
    count = 1
    for axis in axes_of(call):
        count *= call.inputs[0].shape[axis]
    result = b.op("Div", total, b.constant(count - call.attrs["ddof"], dtype))
    return b.op("Sqrt", result) if call.op == "std" else result


@converter("ptp")
def _ptp(b: Builder, call: Call) -> Any:
    (x,) = b.operands(call)
    return b.op("Sub", _reduced(b, "ReduceMax", x, call), _reduced(b, "ReduceMin", x, call))


@converter("argmax", "argmin")
def _arg(b: Builder, call: Call) -> Any:
    a, axis, keep = call.inputs[0], call.attrs["axis"], int(call.attrs["keepdims"])
    dtype = a.dtype if a.dtype != "bool" else np.dtype("uint8")
    (name,) = b.operands(call, dtype)
    op = "ArgMax" if call.op == "argmax" else "ArgMin"
    if axis is not None:
        return b.op(op, name, axis=int(axis), keepdims=keep)
    found = b.op(op, b.reshape(name, (-1,)), axis=0, keepdims=0)
    return b.reshape(found, call.outputs[0].shape)


@converter("softmax", "log_softmax")
def _softmax(b: Builder, call: Call) -> Any:
    (x,) = b.operands(call)
    a = call.inputs[0]
    axes = axes_of(call) if call.attrs["axis"] is not None else [1]
    op = "Softmax" if call.op == "softmax" else "LogSoftmax"
    if len(axes) == 1:
        return b.op(op, x, axis=axes[0])
    # The axes together as the last one.
    rest = [i for i in range(a.ndim) if i not in axes]
    order = rest + axes
    moved = b.op("Transpose", x, perm=order)
    flat = b.reshape(moved, [a.shape[i] for i in rest] + [-1])
    back = b.reshape(b.op(op, flat, axis=-1), [a.shape[i] for i in order])
    return b.op("Transpose", back, perm=[order.index(i) for i in range(a.ndim)])


@converter("cumsum")
def _running(b: Builder, call: Call) -> Any:
    (x,) = b.operands(call)
    axis = call.attrs["axis"]
    if axis is None:
        x, axis = b.reshape(x, (-1,)), 0
    return b.op("CumSum", x, b.constant(axis, np.int64))


@converter("sort", "argsort")
def _sort(b: Builder, call: Call) -> Any:
    (a,) = call.inputs
    axis = call.attrs["axis"]
    name = b.name(a)
    if axis is None:
        name, axis, n = b.reshape(name, (-1,)), 0, a.size
    else:
        axis %= a.ndim
        n = a.shape[axis]
    values, places = b.op("TopK", name, b.ints([n]), outputs=2, axis=axis, largest=0)
    return values if call.op == "sort" else places


@converter("topk")
def _topk(b: Builder, call: Call) -> Any:
    (a,) = call.inputs
    # onnxruntime has it for these dtypes, to which the others are cast without a change of order.
    have = ("float32", "float64", "int32", "int64")
    dtype = a.dtype if a.dtype in have else np.dtype("float32" if is_float(a.dtype) else "int32")
    axis, largest = call.attrs["axis"] % a.ndim, int(call.attrs["largest"])
    name, k = b.operand(a, dtype), b.ints([call.attrs["k"]])
    values, places = b.op("TopK", name, k, outputs=2, axis=axis, largest=largest)
    return [b.cast(values, dtype, a.dtype), places]
