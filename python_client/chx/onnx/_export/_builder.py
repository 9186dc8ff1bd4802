"""Nodes and constants of a file that is being written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import chx
from chx.onnx._export._trace import Call
from chx.onnx._import._tensors import NUMBERS

Converter = Callable[["Builder", Call], Any]
"""Gives the name of a call's output, or a list of several."""

CONVERTERS: dict[str, Converter] = {}


def converter(*names: str) -> Callable[[Converter], Converter]:
    """Enters a function for operators of these names."""

    def enter(function: Converter) -> Converter:
        for name in names:
            CONVERTERS[name] = function
        return function

    return enter


class Builder:
    """Collects nodes and initializers."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.names: dict[int, str] = {}
        """Of arrays, by id: they live as long as the calls."""
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._count = 0

    def fresh(self, hint: str) -> str:
        self._count += 1
        return f"{hint}_{self._count}"

    def initializer(self, value: Any, name: str) -> str:
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def constant(self, value: Any, dtype: Any) -> str:
        """A small array, once for all that use it."""
        array = np.asarray(value, dtype)
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self._constants:
            name = self.fresh("constant")
            # np.ascontiguousarray makes one dimension of none.
            self.initializers.append(numpy_helper.from_array(array, name))
            self._constants[key] = name
        return self._constants[key]

    def ints(self, values: Sequence[int]) -> str:
        return self.constant(list(values), np.int64)

    def op(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """A node; its output's name, or a list of several."""
        names = [self.fresh(op.lower()) for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=names[0], **attributes))
        return names[0] if outputs == 1 else names

    def name(self, array: chx.ndarray) -> str:
        """Of an array that is an input, or has been computed; of others, a new initializer."""
        if id(array) not in self.names:
            self.names[id(array)] = self.initializer(chx.to_numpy(array), self.fresh("value"))
        return self.names[id(array)]

    def cast(self, name: str, have: Any, want: Any) -> Any:
        return name if have == want else self.op("Cast", name, to=NUMBERS[str(want)])

    def operand(self, value: Any, dtype: Any) -> Any:
        """An input of a call, an array or a number, as one of a dtype."""
        if isinstance(value, chx.ndarray):
            return self.cast(self.name(value), value.dtype, dtype)
        return self.constant(value, str(dtype))

    def operands(self, call: Call, dtype: Any = None) -> list[str]:
        """All inputs, of the dtype of the output unless another is given."""
        dtype = call.outputs[0].dtype if dtype is None else dtype
        return [self.operand(value, dtype) for value in call.inputs if value is not None]

    def reshape(self, name: str, shape: Sequence[int]) -> Any:
        return self.op("Reshape", name, self.ints(shape), allowzero=int(0 in shape))


def axes_of(call: Call, name: str = "axis") -> list[int]:
    """The axes of a call's first input, all for None, counted from the front."""
    ndim = call.inputs[0].ndim
    axes = call.attrs.get(name)
    if axes is None:
        return list(range(ndim))
    axes = [axes] if isinstance(axes, int) else axes
    return [axis + ndim if axis < 0 else axis for axis in axes]


def refuse(call: Call, expects: str, got: Any) -> Exception:
    error: Exception = chx.NotImplementedError(f"[export] expects {expects}, got {got} ({call.op})")
    return error
