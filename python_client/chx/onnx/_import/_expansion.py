"""Operators that the standard defines by others: the bodies that come with the onnx package."""

from __future__ import annotations

from typing import Any

import onnx

import chx
from chx.onnx._import._node import Constant, Node, Value
from chx.onnx._import._tensors import NUMBERS


def body(proto: Any, domain: str, node: Node, opset: int) -> Any:
    """The function that defines the operator, with the node's attributes and all defaults.

    Args:
      proto: the node in the file.
      domain: of the operator.
      node: with its inputs; what attributes it lacks are added.
      opset: the version of ONNX's own operators in the model.

    Raises:
      chx.NotImplementedError: there is none.
    """
    try:
        schema = onnx.defs.get_schema(node.op, node.version, domain)
    except onnx.defs.SchemaError:
        schema = None
    text = None if schema is None else _text(schema, proto, node, opset)
    if not text:
        raise chx.NotImplementedError(
            f"[onnx] expects an operator that is known here, got {node.op} of "
            f"{domain or 'ai.onnx'} {node.version} ({node.label})"
        )
    for name, attribute in schema.attributes.items():
        if attribute.default_value.type and name not in node.attributes:
            value = onnx.helper.get_attribute_value(attribute.default_value)
            node.attributes[name] = value.decode() if isinstance(value, bytes) else value
    function = onnx.FunctionProto()
    function.ParseFromString(text)
    return function


def _text(schema: Any, proto: Any, node: Node, opset: int) -> Any:
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= opset]
        text = schema.get_function_with_opset_version(max(versions)) if versions else None
        if text:
            return text
    if not schema.has_context_dependent_function:
        return None
    newest = max(opset, schema.since_version)
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= newest]
    if not versions:
        return None
    types = [_type_of(value).SerializeToString() for value in node.inputs]
    return schema.get_context_dependent_function_with_opset_version(
        max(versions), proto.SerializeToString(), types
    )


def _type_of(value: Value) -> Any:
    if isinstance(value, Constant):
        return onnx.helper.make_tensor_type_proto(
            NUMBERS[str(value.value.dtype)], value.value.shape
        )
    if isinstance(value, chx.ndarray):
        return onnx.helper.make_tensor_type_proto(NUMBERS[str(value.dtype)], value.shape)
    if isinstance(value, list) and value:
        return onnx.helper.make_sequence_type_proto(_type_of(value[0]))
    return onnx.TypeProto()
