"""chx.onnx.export: what a function calls, as a file."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import onnx
from onnx import helper

import chx
from chx._programs import Jitted
from chx.onnx._export import (
    _attention as _attention,
    _elementwise as _elementwise,
    _layers as _layers,
    _losses as _losses,
    _normalizations as _normalizations,
    _reductions as _reductions,
    _resampling as _resampling,
    _scatter as _scatter,
    _shapes as _shapes,
)
from chx.onnx._export._builder import CONVERTERS, Builder
from chx.onnx._export._trace import Call, trace
from chx.onnx._import._tensors import NUMBERS

NEWEST = onnx.defs.onnx_opset_version()
_MOST_BYTES = 2**31 - 1  # of a file, by protobuf


def export(
    function: Callable[..., Any],
    inputs: Any,
    path: Any,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
) -> onnx.ModelProto:
    arrays = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    if not arrays or not all(isinstance(a, chx.ndarray) for a in arrays):
        kinds = [type(a).__name__ for a in arrays]
        raise TypeError(f"[export] expects arrays of chx as inputs, got {kinds}")
    # Each a place of its own, also where one array is given twice.
    arrays = [a.as_grad_stopped() for a in arrays]
    call, parameters = _callable(function)
    if any(parameter is None for _, parameter in parameters()):
        call(*arrays)  # layers make their parameters when they see what they are given
    calls, results = trace(call, arrays)
    builder = Builder()
    kept = _with_views(parameters(), calls)
    for name, parameter in kept:
        builder.names[id(parameter)] = name
    names_in = _names("input_names", input_names, [f"input_{i}" for i in range(len(arrays))])
    names_out = _names("output_names", output_names, [name for name, _ in results])
    builder.names.update({id(array): name for array, name in zip(arrays, names_in)})
    needed = _needed(calls, arrays, results)
    used = {id(value) for c in needed for value in c.inputs} | {id(a) for _, a in results}
    stored = {name: parameter for name, parameter in kept if id(parameter) in used}
    for name, parameter in stored.items():
        builder.initializer(chx.to_numpy(parameter), name)
    for c in needed:
        _convert(builder, c)
    for (_, array), name in zip(results, names_out):
        builder.nodes.append(helper.make_node("Identity", [builder.name(array)], [name], name=name))
    graph = helper.make_graph(
        builder.nodes,
        getattr(function, "__name__", type(function).__name__),
        [_info(array, name) for array, name in zip(arrays, names_in)],
        [_info(array, name) for (_, array), name in zip(results, names_out)],
        initializer=builder.initializers,
    )
    model = helper.make_model(
        graph,
        producer_name="chx",
        producer_version=chx.__version__,
        opset_imports=[helper.make_opsetid("", NEWEST)],
    )
    size = model.ByteSize()
    if size > _MOST_BYTES:
        raise ValueError(f"[export] expects a model below 2 GiB, got {size} bytes")
    onnx.checker.check_model(model, full_check=True)
    if path is not None:
        with open(os.fspath(path), "wb") as file:
            file.write(model.SerializeToString())
    return model


def _names(what: str, given: Sequence[str] | None, default: list[str]) -> list[str]:
    if given is None:
        return default
    if len(given) != len(default) or len(set(given)) != len(given):
        raise ValueError(f"[export] expects {len(default)} distinct {what}, got {list(given)}")
    return list(given)


def _callable(function: Any) -> tuple[Callable[..., Any], Callable[[], list[tuple[str, Any]]]]:
    """What to call with arrays, and what gives the parameters by name, of a Link of Chainer's."""
    if isinstance(function, Jitted):
        return function._function, list
    if not hasattr(function, "namedparams"):
        return function, list
    chainer: Any = importlib.import_module("chainer")  # a Link is there, so it is

    def call(*arrays: Any) -> Any:
        with chainer.using_config("train", False), chainer.using_config("enable_backprop", False):
            return function(*[chainer.Variable(a, requires_grad=False) for a in arrays])

    def parameters() -> list[tuple[str, Any]]:
        return [
            (name.strip("/").replace("/", "."), array)
            for name, parameter in sorted(function.namedparams())
            for array in (parameter._data[0], parameter.array)  # in its graph, and outside
        ]

    return call, parameters


def _with_views(
    parameters: list[tuple[str, Any]], calls: Sequence[Call]
) -> list[tuple[str, chx.ndarray]]:
    """The parameters, and what calls make of them that is the same array."""
    names = {id(parameter): name for name, parameter in parameters}
    found = list(parameters)
    for call in calls:
        if call.op == "view" and id(call.inputs[0]) in names:
            name = names[id(call.outputs[0])] = names[id(call.inputs[0])]
            found.append((name, call.outputs[0]))
    return found


def _needed(
    calls: Sequence[Call], arrays: Sequence[chx.ndarray], results: Sequence[tuple[str, Any]]
) -> list[Call]:
    """The calls whose results depend on the inputs and are needed for the outputs.

    What does not depend on them is a constant, whose elements are read afterwards.
    """
    dependent = {id(array) for array in arrays}
    changing = []
    for call in calls:
        if call.op.endswith("_like") or not any(id(value) in dependent for value in call.inputs):
            if "seed" in call.attrs:
                dependent.update(id(y) for y in call.outputs)
                changing.append(call)
            continue
        if call.writes:
            raise chx.NotImplementedError(
                f"[export] expects a function that writes to no array, got {call.op}"
            )
        dependent.update(id(y) for y in call.outputs)
        changing.append(call)
    wanted = {id(array) for _, array in results}
    needed = []
    for call in reversed(changing):
        if any(id(y) in wanted for y in call.outputs):
            needed.append(call)
            wanted.update(id(value) for value in call.inputs)
    return needed[::-1]


def _convert(builder: Builder, call: Call) -> None:
    convert = CONVERTERS.get(call.op)
    if convert is None:
        raise chx.NotImplementedError(
            f"[export] expects operators that have a form in ONNX, got {call.op}"
        )
    names = convert(builder, call)
    names = names if isinstance(names, list) else [names]
    for array, name in zip(call.outputs, names):
        builder.names[id(array)] = name


def _info(array: chx.ndarray, name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, NUMBERS[str(array.dtype)], array.shape)
