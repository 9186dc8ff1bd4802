"""Operators that the standard defines by others: the bodies that come with the onnx package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx

import chx
from chx.onnx._import._node import Constant, Node, Value
from chx.onnx._import._tensors import NUMBERS

if TYPE_CHECKING:
    from chx.onnx._import._graph import Context, Step


def expand(step: Step, node: Node, context: Context) -> tuple[Value, ...]:
    """The results of the body of the operator's function."""
    from chx.onnx._import._graph import _call_function

    body = _body(step, node, context)
    if body is None:
        domain = step.domain or "ai.onnx"
        raise chx.NotImplementedError(
            f"[onnx] expects an operator that is known here, got {step.op} of {domain} "
            f"{step.version} ({step.label})"
        )
    inner = node
    schema = onnx.defs.get_schema(step.op, step.version, step.domain)
    for name, attribute in schema.attributes.items():
        if attribute.default_value.type and name not in inner.attributes:
            inner.attributes[name] = onnx.helper.get_attribute_value(attribute.default_value)
            if isinstance(inner.attributes[name], bytes):
                inner.attributes[name] = inner.attributes[name].decode()
    return _call_function(body, inner, context)


def _body(step: Step, node: Node, context: Context) -> Any:
    try:
        schema = onnx.defs.get_schema(step.op, step.version, step.domain)
    except onnx.defs.SchemaError:
        return None
    text = None
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= context.opsets.get("", 1)]
        text = schema.get_function_with_opset_version(max(versions)) if versions else None
    if not text and schema.has_context_dependent_function:
        versions = [
            v
            for v in schema.context_dependent_function_opset_versions
            if v <= max(context.opsets.get("", 1), schema.since_version)
        ]
        types = [_type_of(value).SerializeToString() for value in node.inputs]
        if versions:
            text = schema.get_context_dependent_function_with_opset_version(
                max(versions), step.proto.SerializeToString(), types
            )
    if not text:
        return None
    body = onnx.FunctionProto()
    body.ParseFromString(text)
    return body


def _type_of(value: Value) -> Any:
    if isinstance(value, Constant):
        return onnx.helper.make_tensor_type_proto(NUMBERS[str(value.value.dtype)], value.value.shape)
    if isinstance(value, chx.ndarray):
        return onnx.helper.make_tensor_type_proto(NUMBERS[str(value.dtype)], value.shape)
    if isinstance(value, list) and value:
        return onnx.helper.make_sequence_type_proto(_type_of(value[0]))
    return onnx.TypeProto()
