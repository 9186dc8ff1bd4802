"""chx.onnx.load: a file as a callable."""

from __future__ import annotations

from typing import Any

import onnx

import chx
from chx._types import is_float
from chx.onnx._import import _families as _families
from chx.onnx._import._graph import Context, Graph
from chx.onnx._import._node import Constant, Value, to_array
from chx.onnx._import._tensors import dtype_name, read_model

_NEWEST = onnx.defs.onnx_opset_version()


class Model:
    """A model of an ONNX file. Call it with arrays, in the order of `inputs` or by name."""

    inputs: list[str]
    """The names of the inputs that a call needs."""
    outputs: list[str]
    """The names of the outputs."""
    parameters: dict[str, chx.ndarray]
    """The floating point initializers. A call uses these arrays, and what is written to them."""

    def __init__(self, source: Any) -> None:
        proto, folder = read_model(source)
        opsets = {
            ("" if o.domain == "ai.onnx" else o.domain): o.version for o in proto.opset_import
        }
        if opsets.get("", 1) > _NEWEST:
            raise ValueError(
                f"[onnx] expects operators of version {_NEWEST} or before, as this onnx package "
                f"knows, got {opsets['']}"
            )
        functions = {(f.domain, f.name, getattr(f, "overload", "")): f for f in proto.functions}
        self._graph = Graph(
            proto.graph, Context(opsets, functions, folder), f"graph {proto.graph.name!r}"
        )
        self.opsets = opsets
        constants = self._graph.constants
        self.parameters = {}
        for name, value in constants.items():
            array = value if isinstance(value, chx.ndarray) else None
            if isinstance(value, Constant) and is_float(value.value.dtype):
                array = value.array()
            if array is not None:
                self.parameters[name] = array
        self._types = {i.name: i.type for i in proto.graph.input}
        self.inputs = [i.name for i in proto.graph.input if i.name not in constants]
        self.outputs = self._graph.outputs

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """The output, or a tuple of several. An input of NumPy's is sent to the daemon."""
        if len(arrays) > len(self.inputs):
            raise TypeError(f"[onnx] expects inputs {self.inputs}, got {len(arrays)} arrays")
        values = dict(zip(self.inputs, arrays))
        for name, array in named.items():
            if name in values or name not in self._types:
                raise TypeError(f"[onnx] expects inputs {self.inputs}, got {name!r} besides")
            values[name] = array
        missing = [n for n in self.inputs if n not in values and not self._is_optional(n)]
        if missing:
            raise TypeError(f"[onnx] expects inputs {self.inputs}, got none for {missing}")
        values.update({n: None for n in self.inputs if n not in values})
        results = self._graph.run(
            {name: self._checked(name, value) for name, value in values.items()}, None
        )
        results = [_result(value) for value in results]
        return results[0] if len(results) == 1 else tuple(results)

    def _is_optional(self, name: str) -> bool:
        return bool(self._types[name].WhichOneof("value") == "optional_type")

    def _checked(self, name: str, value: Any) -> Value:
        return _checked(value, self._types[name], f"input {name!r}")


def _checked(value: Any, kind: Any, where: str) -> Value:
    form = kind.WhichOneof("value")
    if form == "optional_type":
        return None if value is None else _checked(value, kind.optional_type.elem_type, where)
    if form == "sequence_type":
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"[onnx] expects a list, got {type(value).__name__} ({where})")
        return [_checked(element, kind.sequence_type.elem_type, where) for element in value]
    if form != "tensor_type":
        raise TypeError(f"[onnx] expects tensors, sequences and optionals, got {form} ({where})")
    dtype = dtype_name(kind.tensor_type.elem_type, where)
    array = value if isinstance(value, chx.ndarray) else chx.array(value)
    if str(array.dtype) != dtype:
        raise TypeError(f"[onnx] expects an array of {dtype}, got {array.dtype} ({where})")
    if kind.tensor_type.HasField("shape"):
        sizes = [
            d.dim_value if d.HasField("dim_value") else None for d in kind.tensor_type.shape.dim
        ]
        if len(sizes) != array.ndim or any(
            want not in (None, size) for want, size in zip(sizes, array.shape)
        ):
            raise ValueError(f"[onnx] expects shape {tuple(sizes)}, got {array.shape} ({where})")
    return array


def _result(value: Value) -> Any:
    return [_result(v) for v in value] if isinstance(value, list) else to_array(value)
