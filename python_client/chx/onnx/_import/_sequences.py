"""Sequences, which are lists, and optionals, of which the empty one is None."""

from __future__ import annotations

from typing import Any

import numpy as np

import chx
from chx.onnx._import._node import Constant, Node, to_array
from chx.onnx._import._registry import operator
from chx.onnx._import._shapes import parts


def _list(node: Node, index: int = 0) -> list[Any]:
    value = node.inputs[index]
    if not isinstance(value, list):
        raise node.error(f"a sequence as input {index}", type(value).__name__)
    return value


def _place(node: Node, index: int, size: int) -> int:
    place = int(node.number(index))
    if not -size <= place < size:
        raise node.error(f"a position in [-{size}, {size})", place)
    return place


@operator("SequenceEmpty")
def sequence_empty(node: Node) -> Any:
    return ([],)


@operator("SequenceConstruct")
def sequence_construct(node: Node) -> Any:
    return (list(node.inputs),)


@operator("SequenceAt")
def sequence_at(node: Node) -> Any:
    values = _list(node)
    return (values[_place(node, 1, len(values))],)


@operator("SequenceInsert")
def sequence_insert(node: Node) -> Any:
    values = list(_list(node))
    place = len(values)
    if node.has(2):
        place = int(node.number(2))
        if not -len(values) <= place <= len(values):
            raise node.error(f"a position in [-{len(values)}, {len(values)}]", place)
    values.insert(place, node.inputs[1])
    return (values,)


@operator("SequenceErase")
def sequence_erase(node: Node) -> Any:
    values = list(_list(node))
    del values[_place(node, 1, len(values)) if node.has(1) else -1]
    return (values,)


@operator("SequenceLength")
def sequence_length(node: Node) -> Any:
    return Constant(np.int64(len(_list(node))))


@operator("ConcatFromSequence")
def concat_from_sequence(node: Node) -> Any:
    arrays = [to_array(value) for value in _list(node)]
    join = chx.stack if node.attr("new_axis", 0) else chx.concatenate
    return join(arrays, axis=node.attr("axis"))


@operator("SplitToSequence")
def split_to_sequence(node: Node) -> Any:
    x = node.array(0)
    axis = node.axis(x.ndim)
    length = x.shape[axis]
    sizes = node.host(1)
    if sizes is None or sizes.ndim == 0:
        each = 1 if sizes is None else int(sizes)
        if each < 1:
            raise node.error("a size from 1 on", each)
        counts = [min(each, length - i) for i in range(0, length, each)]
    else:
        counts = [int(n) for n in sizes]
        if sum(counts) != length or any(n < 0 for n in counts):
            raise node.error(f"sizes that add up to {length}", counts)
    pieces = parts(x, counts, axis)
    if sizes is None and not node.attr("keepdims", 1):
        pieces = [chx.squeeze(piece, axis) for piece in pieces]
    return (pieces,)


@operator("SequenceMap")
def sequence_map(node: Node) -> Any:
    body, first = node.attr("body"), _list(node)
    rows = []
    for i in range(len(first)):
        others = [v[i] if isinstance(v, list) else v for v in node.inputs[1:]]
        rows.append(node.call(body, [first[i], *others]))
    return tuple([row[i] for row in rows] for i in range(len(body.outputs)))


@operator("Optional")
def optional(node: Node) -> Any:
    return (node.inputs[0] if node.has(0) else None,)


@operator("OptionalHasElement")
def optional_has_element(node: Node) -> Any:
    return Constant(np.bool_(node.has(0)))


@operator("OptionalGetElement")
def optional_get_element(node: Node) -> Any:
    if not node.has(0):
        raise node.error("an optional with an element", "an empty one")
    return (node.inputs[0],)
