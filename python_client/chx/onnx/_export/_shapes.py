"""What moves elements as they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from chx.onnx._export._builder import Builder, converter, refuse
from chx.onnx._export._trace import Call


@converter("view")
def _same(b: Builder, call: Call) -> Any:
    return b.op("Identity", b.name(call.inputs[0]))


@converter("reshape", "ravel", "squeeze", "expand_dims", "atleast_1d", "atleast_2d", "atleast_3d")
def _reshape(b: Builder, call: Call) -> Any:
    return b.reshape(b.name(call.inputs[0]), call.outputs[0].shape)


@converter("transpose", "swapaxes", "moveaxis", "rollaxis")
def _transpose(b: Builder, call: Call) -> Any:
    a, order = call.inputs[0], _order(call)
    return b.op("Transpose", b.name(a), perm=order)


def _order(call: Call) -> list[int]:
    """Which axis of the input each axis of the output is."""
    attrs = call.attrs
    ndim = call.inputs[0].ndim
    if call.op == "transpose":
        axes = attrs["axes"]
        return [a % ndim for a in axes] if axes is not None else list(range(ndim))[::-1]
    if call.op == "swapaxes":
        order = list(range(ndim))
        i, j = attrs["axis1"] % ndim, attrs["axis2"] % ndim
        order[i], order[j] = order[j], order[i]
        return order
    if call.op == "rollaxis":
        axis, start = attrs["axis"] % ndim, attrs["start"]
        start = start + ndim if start < 0 else start
        order = [a for a in range(ndim) if a != axis]
        order.insert(start - (axis < start), axis)
        return order
    source = [a % ndim for a in attrs["source"] or ()]
    target = [a % ndim for a in attrs["destination"] or ()]
    order = [a for a in range(ndim) if a not in source]
    for place, axis in sorted(zip(target, source)):
        order.insert(place, axis)
    return order


@converter("broadcast_to")
def _broadcast_to(b: Builder, call: Call) -> Any:
    return b.op("Expand", b.name(call.inputs[0]), b.ints(call.outputs[0].shape))


@converter("concatenate", "hstack", "vstack", "dstack")
def _concatenate(b: Builder, call: Call) -> Any:
    names = b.operands(call)
    axis = call.attrs.get("axis", 0)
    shapes = [a.shape for a in call.inputs]
    if axis is None:
        names = [b.reshape(name, (-1,)) for name in names]
        return b.op("Concat", *names, axis=0)
    if call.op != "concatenate":
        axis = {"hstack": 1, "vstack": 0, "dstack": 2}[call.op]
        make = {"hstack": np.atleast_1d, "vstack": np.atleast_2d, "dstack": np.atleast_3d}[call.op]
        wide = [make(np.empty(shape)).shape for shape in shapes]
        names = [b.reshape(n, w) if w != s else n for n, w, s in zip(names, wide, shapes)]
        axis = min(axis, len(wide[0]) - 1)
    return b.op("Concat", *names, axis=int(axis))


@converter("stack")
def _stack(b: Builder, call: Call) -> Any:
    axis = call.attrs["axis"] % call.outputs[0].ndim
    axes = b.ints([axis])
    return b.op("Concat", *[b.op("Unsqueeze", n, axes) for n in b.operands(call)], axis=axis)


@converter("split")
def _split(b: Builder, call: Call) -> Any:
    axis = call.attrs["axis"] % call.inputs[0].ndim
    sizes = [y.shape[axis] for y in call.outputs]
    name = b.name(call.inputs[0])
    result = b.op("Split", name, b.ints(sizes), outputs=len(sizes), axis=axis)
    return result if isinstance(result, list) else [result]


def decoded(words: list[int]) -> tuple[Any, ...]:
    """The key that an encoded basic index stands for (ops/basic_index.cc)."""
    key: list[Any] = []
    i = 0
    while i < len(words):
        kind, flags = words[i] & 3, words[i]
        if kind == 0:
            key.append(words[i + 1])
            i += 2
        elif kind == 3:
            bounds = (words[i + 1 + j] if flags & (4 << j) else None for j in range(3))
            key.append(slice(*bounds))
            i += 4
        else:
            key.append(None if kind == 1 else Ellipsis)
            i += 1
    return tuple(key)


@converter("getitem")
def _getitem(b: Builder, call: Call) -> Any:
    (a,) = call.inputs
    key = decoded(call.attrs["index"])
    given = sum(k is not None and k is not Ellipsis for k in key)
    whole = [slice(None)] * (a.ndim - given)
    places = [i for i, k in enumerate(key) if k is Ellipsis]
    items = list(key)
    place = places[0] if places else len(items)
    items[place : place + len(places)] = whole
    starts: list[int] = []
    ends: list[int] = []
    axes: list[int] = []
    steps: list[int] = []
    axis = 0
    for item in items:
        if item is None:
            continue
        n = a.shape[axis]
        if isinstance(item, slice):
            start, stop, step = item.indices(n)
        else:
            start = item + n if item < 0 else item
            stop, step = start + 1, 1
        if (start, stop, step) != (0, n, 1):
            # A last element before the first one: no negative number says that but a large one.
            stop = -(2**31) if step < 0 and stop < 0 else stop
            for values, value in ((starts, start), (ends, stop), (axes, axis), (steps, step)):
                values.append(value)
        axis += 1
    name = b.name(a)
    if axes:
        name = b.op("Slice", name, *(b.ints(v) for v in (starts, ends, axes, steps)))
    return b.reshape(name, call.outputs[0].shape)


@converter("flip", "flipud", "fliplr", "roll", "repeat", "diagonal")
def _by_places(b: Builder, call: Call) -> Any:
    """Where each element of the output is in the input, by NumPy's function of the same name."""
    (a,) = call.inputs
    places = np.arange(a.size).reshape(a.shape)
    attrs = call.attrs
    if call.op == "flip":
        axes = attrs["axes"]
        places = np.flip(places, None if axes is None else tuple(axes))
    elif call.op in ("flipud", "fliplr"):
        places = getattr(np, call.op)(places)
    elif call.op == "roll":
        axis = attrs["axis"]
        places = np.roll(places, tuple(attrs["shift"]), None if axis is None else tuple(axis))
    elif call.op == "repeat":
        places = np.repeat(places, attrs["repeats"], attrs["axis"])
    else:
        places = np.diagonal(places, attrs["offset"], attrs["axis1"], attrs["axis2"])
    flat = b.reshape(b.name(a), (-1,))
    return b.op("Gather", flat, b.constant(places, np.int64), axis=0)


@converter("tile")
def _tile(b: Builder, call: Call) -> Any:
    (a,) = call.inputs
    reps = list(call.attrs["reps"])
    ndim = max(len(reps), a.ndim)
    name = b.name(a)
    if ndim > a.ndim:
        name = b.reshape(name, (1,) * (ndim - a.ndim) + a.shape)
    return b.op("Tile", name, b.ints([1] * (ndim - len(reps)) + reps))


@converter("constant_pad")
def _pad(b: Builder, call: Call) -> Any:
    widths = call.attrs["widths"]
    dtype = call.outputs[0].dtype
    value = b.constant(call.attrs["value"], dtype)
    return b.op("Pad", b.name(call.inputs[0]), b.ints(widths[::2] + widths[1::2]), value)


@converter("take")
def _take(b: Builder, call: Call) -> Any:
    a, indices = call.inputs
    axis = call.attrs["axis"] % a.ndim
    index = b.operand(indices, np.dtype("int64"))
    n = a.shape[axis]
    if call.attrs["mode"] == 1:  # wrap
        index = b.op("Mod", index, b.constant(n, np.int64))
    elif call.attrs["mode"] == 2:  # clip
        index = b.op("Clip", index, b.constant(0, np.int64), b.constant(n - 1, np.int64))
    return b.op("Gather", b.name(a), index, axis=axis)


@converter("take_along_axis")
def _take_along_axis(b: Builder, call: Call) -> Any:
    a, indices = call.inputs
    axis = call.attrs["axis"] % a.ndim
    shape = [1 if i == axis else n for i, n in enumerate(a.shape)]
    if any(n not in (m, 1) for n, m in zip(shape, indices.shape) if n != 1):
        raise refuse(call, f"indices of shape {a.shape} but for axis {axis}", indices.shape)
    return b.op("GatherElements", b.name(a), b.operand(indices, np.dtype("int64")), axis=axis)


@converter("tril", "triu")
def _triangle(b: Builder, call: Call) -> Any:
    k = b.constant(call.attrs["k"], np.int64)
    return b.op("Trilu", b.name(call.inputs[0]), k, upper=int(call.op == "triu"))
