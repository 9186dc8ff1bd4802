"""If, Loop and Scan: they run subgraphs, and the client decides which."""

from __future__ import annotations

from typing import Any

import numpy as np

import chx
from chx.onnx._import._node import Constant, Node, Value, to_array
from chx.onnx._import._registry import operator
from chx.onnx._import._tensors import dtype_name


def _holds(node: Node, value: Value) -> bool:
    if isinstance(value, Constant):
        return bool(value.value)
    if not isinstance(value, chx.ndarray) or value.size != 1:
        raise node.error("a condition of one element", value)
    return bool(value)


@operator("If")
def if_(node: Node) -> Any:
    branch = "then_branch" if _holds(node, node.inputs[0]) else "else_branch"
    return tuple(node.call(node.attr(branch), []))


def _stacked(node: Node, rows: list[Any], kind: Any, axis: int = 0) -> Any:
    """Outputs of all iterations; of none, an empty array of the dtype that the file says."""
    if rows:
        return chx.stack([to_array(row) for row in rows], axis=axis)
    sizes = [d.dim_value for d in kind.tensor_type.shape.dim]
    return chx.zeros((0, *sizes), dtype=dtype_name(kind.tensor_type.elem_type, node.label))


@operator("Loop")
def loop(node: Node) -> Any:
    body = node.attr("body")
    limit = node.number(0)
    going = not node.has(1) or _holds(node, node.inputs[1])
    carried = list(node.inputs[2:])
    rows: list[list[Any]] = [[] for _ in body.outputs[1 + len(carried) :]]
    i = 0
    while going and (limit is None or i < limit):
        results = node.call(body, [Constant(np.int64(i)), Constant(np.bool_(True)), *carried])
        going = _holds(node, results[0])
        for row, result in zip(rows, results[1 + len(carried) :]):
            row.append(result)
        carried = results[1 : 1 + len(carried)]
        i += 1
    kinds = body.output_types[1 + len(carried) :]
    return *carried, *(_stacked(node, row, kind) for row, kind in zip(rows, kinds))


@operator("Scan")
def scan(node: Node) -> Any:
    if node.version < 9:
        return _scan_of_batch(node)
    return _scan(node, list(node.inputs))


def _scan(node: Node, inputs: list[Value]) -> Any:
    body, count = node.attr("body"), node.attr("num_scan_inputs")
    if not 1 <= count <= len(inputs):
        raise node.error(f"num_scan_inputs of 1 to {len(inputs)}", count)
    states = inputs[: len(inputs) - count]
    outputs = len(body.outputs) - len(states)
    scans = [to_array(value) for value in inputs[len(states) :]]
    axes = node.attr("scan_input_axes", [0] * count)
    backwards = node.attr("scan_input_directions", node.attr("directions", [0] * count))
    scans = [chx.moveaxis(x, node.checked_axis(axis, x.ndim), 0) for x, axis in zip(scans, axes)]
    scans = [chx.flip(x, 0) if b else x for x, b in zip(scans, backwards)]
    rows: list[list[Any]] = [[] for _ in range(outputs)]
    if not scans or len({x.shape[0] for x in scans}) != 1:
        raise node.error("scanned inputs of one length", [x.shape for x in scans])
    for i in range(scans[0].shape[0]):
        results = node.call(body, [*states, *(x[i] for x in scans)])
        states = results[: len(states)]
        for row, result in zip(rows, results[len(states) :]):
            row.append(result)
    out_axes = node.attr("scan_output_axes", [0] * outputs)
    out_backwards = node.attr("scan_output_directions", [0] * outputs)
    kinds = body.output_types[len(states) :]
    results = [
        _stacked(node, row[::-1] if b else row, kind, axis)
        for row, kind, axis, b in zip(rows, kinds, out_axes, out_backwards)
    ]
    return *states, *results


def _scan_of_batch(node: Node) -> Any:
    """Operator set 8: the first input has lengths, and all others have a batch axis."""
    if node.has(0):
        raise node.error("no lengths of sequences, which operator set 8 had", "some")
    arrays = [to_array(value) for value in node.inputs[1:]]
    samples = [_scan(node, [a[i] for a in arrays]) for i in range(arrays[0].shape[0])]
    return tuple(chx.stack([to_array(v) for v in values], axis=0) for values in zip(*samples))
