"""Graphs of a file, prepared once, and run node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import AttributeProto

import chx
from chx._types import is_float
from chx.onnx._import import _expansion, _folding
from chx.onnx._import._node import Constant, Node, Value
from chx.onnx._import._registry import TABLE
from chx.onnx._import._tensors import to_numpy

_MOST_KNOWN = 1024  # elements of a float initializer that the client keeps
_MAX_DEPTH = 64


class Scope:
    """What the names in a graph stand for, those around it included."""

    def __init__(self, around: Scope | None = None) -> None:
        self.values: dict[str, Value] = {}
        self.around = around

    def find(self, name: str, where: str) -> Value:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.around
        raise ValueError(f"[onnx] expects a value {name!r} before its use, got none ({where})")


class Context:
    """What the graphs of one model share: versions of operator sets, functions, the folder."""

    def __init__(self, opsets: dict[str, int], functions: dict[Any, Any], folder: str | None):
        self.opsets = opsets
        self.functions = functions
        self.folder = folder
        self.depth = 0


class Step:
    """A node, prepared."""

    def __init__(self, proto: Any, context: Context, number: int, outer: dict[str, Any]) -> None:
        self.proto = proto
        self.domain = "" if proto.domain == "ai.onnx" else proto.domain
        self.op = proto.op_type
        name = f" {proto.name!r}" if proto.name else ""
        self.label = f"node {number}{name}, operator {self.op}"
        self.inputs = list(proto.input)
        self.outputs = list(proto.output)
        self.attributes = _attributes(proto, context, self.label, outer)
        self.version = context.opsets.get(self.domain, 0)
        self.function = TABLE.get((self.domain, self.op))
        self.model_function = context.functions.get(
            (proto.domain, self.op, getattr(proto, "overload", ""))
        )
        self.uses = set(self.inputs)
        for attribute in self.attributes.values():
            for graph in attribute if isinstance(attribute, list) else [attribute]:
                if isinstance(graph, Graph):
                    self.uses |= graph.uses


def _attributes(proto: Any, context: Context, label: str, outer: dict[str, Any]) -> dict[str, Any]:
    result = {}
    for attribute in proto.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name in outer:
                result[attribute.name] = outer[attribute.ref_attr_name]
            continue
        result[attribute.name] = _attribute(attribute, context, label, outer)
    return result


def _attribute(attribute: Any, context: Context, label: str, outer: dict[str, Any]) -> Any:
    kind = attribute.type
    where = f"attribute {attribute.name!r} of {label}"
    if kind == AttributeProto.INT:
        return attribute.i
    if kind == AttributeProto.FLOAT:
        return attribute.f
    if kind == AttributeProto.STRING:
        return attribute.s.decode("utf-8", "replace")
    if kind == AttributeProto.TENSOR:
        return to_numpy(attribute.t, context.folder, where)
    if kind == AttributeProto.GRAPH:
        return Graph(attribute.g, context, where, outer)
    if kind == AttributeProto.INTS:
        return list(attribute.ints)
    if kind == AttributeProto.FLOATS:
        return list(attribute.floats)
    if kind == AttributeProto.STRINGS:
        return [text.decode("utf-8", "replace") for text in attribute.strings]
    if kind == AttributeProto.TENSORS:
        return [to_numpy(tensor, context.folder, where) for tensor in attribute.tensors]
    if kind == AttributeProto.TYPE_PROTO:
        return attribute.tp
    name = AttributeProto.AttributeType.Name(kind)
    raise ValueError(f"[onnx] expects numbers, strings, tensors or graphs, got {name} ({where})")


class Graph:
    """A graph, or the body of a function."""

    def __init__(
        self, proto: Any, context: Context, where: str, outer: dict[str, Any] | None = None
    ) -> None:
        self.context = context
        self.where = where
        context.depth += 1
        if context.depth > _MAX_DEPTH:
            raise ValueError(f"[onnx] expects graphs at most {_MAX_DEPTH} deep, got more ({where})")
        self.constants: dict[str, Value] = {}
        for tensor in getattr(proto, "initializer", ()):
            self.constants[tensor.name] = _initializer(to_numpy(tensor, context.folder, where))
        if len(getattr(proto, "sparse_initializer", ())):
            raise ValueError(f"[onnx] expects dense initializers, got sparse ones ({where})")
        self.inputs = [i if isinstance(i, str) else i.name for i in proto.input]
        self.outputs = [o if isinstance(o, str) else o.name for o in proto.output]
        self.output_types = [None if isinstance(o, str) else o.type for o in proto.output]
        self.steps = [
            Step(node, context, number, outer or {}) for number, node in enumerate(proto.node)
        ]
        self.uses = {name for step in self.steps for name in step.uses} | set(self.outputs)
        self._last_uses = self._find_last_uses()
        context.depth -= 1

    def _find_last_uses(self) -> list[list[str]]:
        """For each step the names that are not used after it."""
        seen = set(self.outputs)
        result = []
        for step in reversed(self.steps):
            names = (step.uses | set(step.outputs)) - seen
            seen |= names
            result.append(list(names))
        return result[::-1]

    def run(
        self,
        inputs: Sequence[Value] | dict[str, Value],
        around: Scope | None,
        wanted: Sequence[str] | None = None,
    ) -> list[Value]:
        """The outputs, or those before the first that is not wanted: "" as a name.

        Inputs that are left out are initializers.
        """
        context = self.context
        scope = Scope(around)
        scope.values.update(self.constants)
        given = inputs if isinstance(inputs, dict) else dict(zip(self.inputs, inputs))
        scope.values.update(given)
        context.depth += 1
        try:
            if context.depth > _MAX_DEPTH:
                raise ValueError(f"[onnx] expects calls at most {_MAX_DEPTH} deep ({self.where})")
            for step, done in zip(self.steps, self._last_uses):
                _run_step(step, scope, context)
                for name in done:
                    scope.values.pop(name, None)
        finally:
            context.depth -= 1
        names = self.outputs
        if wanted is not None:  # a body may leave out what its node leaves out
            return [
                scope.find(name, self.where) if want else None for name, want in zip(names, wanted)
            ]
        return [scope.find(name, self.where) for name in names]


def _initializer(value: Any) -> Value:
    """On the device at once, where it is a weight."""
    if is_float(value.dtype) and value.size > _MOST_KNOWN:
        return chx.array(value)
    return Constant(value)


def _run_step(step: Step, scope: Scope, context: Context) -> None:
    values = [scope.find(name, step.label) if name else None for name in step.inputs]

    def call(graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        return graph.run(inputs, scope)

    attributes = dict(step.attributes)
    node = Node(step.label, step.op, step.version, attributes, values, step.outputs, call)
    results: Any
    try:
        folded = _folding.fold(node) if step.domain == "" else None
        if folded is not None:
            results = folded
        elif step.model_function is not None:
            results = _call_function(step.model_function, node, context)
        else:
            results = NotImplemented if step.function is None else step.function(node)
        if results is NotImplemented:
            opset = context.opsets.get("", 1)
            body = _expansion.body(step.proto, step.domain, node, opset)
            results = _call_function(body, node, context)
    except (ValueError, TypeError, IndexError, RuntimeError) as error:
        if step.label in str(error):
            raise
        raise _with_label(error, step.label) from error
    except (KeyError, AttributeError, ArithmeticError, AssertionError) as error:
        # Of an attribute that is missing, or has another type or value than the operator's.
        raise ValueError(
            f"[{step.op}] expects attributes and inputs as its operator set has them, got what leads "
            f"to {type(error).__name__}: {error} ({step.label})"
        ) from error
    results = results if isinstance(results, tuple) else (results,)
    for name, result in zip(step.outputs, results):
        if name:
            scope.values[name] = Constant(result) if isinstance(result, np.ndarray) else result


def _with_label(error: Exception, label: str) -> Exception:
    """The same kind of error, which says in which node it is."""
    kinds = [
        kind for kind in type(error).__mro__ if kind.__module__ in ("builtins", "chx", "chx._core")
    ]
    labelled: Exception = kinds[0](f"{error} ({label})")
    return labelled


def _call_function(proto: Any, node: Node, context: Context) -> tuple[Value, ...]:
    inner = Context({o.domain: o.version for o in proto.opset_import}, context.functions, None)
    inner.opsets[""] = inner.opsets.get("", context.opsets.get("", 1))
    inner.depth = context.depth + 1
    attributes = {a.name: _attribute(a, inner, node.label, {}) for a in proto.attribute_proto}
    attributes.update(node.attributes)
    body = Graph(proto, inner, node.label, attributes)
    values = [*node.inputs] + [None] * (len(body.inputs) - len(node.inputs))
    return tuple(body.run(values, None, node.outputs))
