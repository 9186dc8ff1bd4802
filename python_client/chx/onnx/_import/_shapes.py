"""Shapes, and what moves elements as they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import chx
from chx.onnx._import._node import Constant, Node
from chx.onnx._import._registry import operator
from chx.onnx._import._tensors import dtype_name


@operator("Shape")
def shape(node: Node) -> Any:
    sizes = node.array(0).shape
    return Constant(np.array(sizes[node.attr("start", 0) : node.attr("end")], np.int64))


@operator("Size")
def size(node: Node) -> Any:
    return Constant(np.array(node.array(0).size, np.int64))


@operator("Reshape")
def reshape(node: Node) -> Any:
    x = node.array(0)
    sizes = node.ints_of("shape", 1)
    if sizes is None:
        raise node.error("a shape", "none")
    if not node.attr("allowzero", 0):
        if any(n == 0 and i >= x.ndim for i, n in enumerate(sizes)):
            raise node.error(f"zeros for sizes of shape {x.shape}", sizes)
        sizes = [x.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    if sizes.count(-1) > 1 or any(n < -1 for n in sizes):
        raise node.error("sizes, and -1 at most once", sizes)
    if -1 in sizes:
        known = math.prod([n for n in sizes if n != -1])
        if known == 0 or x.size % known:
            raise node.error(f"a shape of {x.size} elements", sizes)
        sizes[sizes.index(-1)] = x.size // known
    return chx.reshape(x, tuple(sizes))


@operator("Flatten")
def flatten(node: Node) -> Any:
    x = node.array(0)
    axis = node.attr("axis", 1)
    axis += x.ndim if axis < 0 else 0
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@operator("Transpose")
def transpose(node: Node) -> Any:
    return chx.transpose(node.array(0), node.attr("perm"))


@operator("Squeeze")
def squeeze(node: Node) -> Any:
    x, axes = node.array(0), node.ints_of("axes", 1)
    return chx.squeeze(x, None if axes is None else tuple(axes))


@operator("Unsqueeze")
def unsqueeze(node: Node) -> Any:
    x, axes = node.array(0), node.ints_of("axes", 1) or []
    ndim = x.ndim + len(axes)
    places = {node.checked_axis(axis, ndim) for axis in axes}
    if len(places) != len(axes):
        raise node.error("distinct axes", axes)
    rest = iter(x.shape)
    return x.reshape(tuple(1 if i in places else next(rest) for i in range(ndim)))


@operator("Concat")
def concat(node: Node) -> Any:
    return chx.concatenate(node.arrays(), node.attr("axis", 1))


@operator("Split")
def split(node: Node) -> Any:
    x = node.array(0)
    axis = node.axis(x.ndim)
    sizes = node.ints_of("split", 1)
    if sizes is None:
        count = node.attr("num_outputs", len(node.outputs))
        if not 1 <= count <= max(len(node.outputs), 1):
            raise node.error(f"num_outputs of 1 to {len(node.outputs)}", count)
        each = -(-x.shape[axis] // count)
        sizes = [max(min(each, x.shape[axis] - i * each), 0) for i in range(count)]
    if sum(sizes) != x.shape[axis] or any(n < 0 for n in sizes):
        raise node.error(f"sizes that add up to {x.shape[axis]}", sizes)
    return tuple(parts(x, sizes, axis))


def parts(x: Any, sizes: list[int], axis: int) -> list[Any]:
    """The array cut into parts of these sizes."""
    ends = np.cumsum(sizes).tolist()
    return list(chx.split(x, ends[:-1], axis)) if len(sizes) > 1 else [x]


@operator("Slice")
def slice_(node: Node) -> Any:
    x = node.array(0)
    starts, ends = node.ints_of("starts", 1), node.ints_of("ends", 2)
    if starts is None or ends is None:
        raise node.error("starts and ends", "none")
    axes, steps = node.ints_of("axes", 3), node.ints(4)
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise node.error("as many starts as ends, axes and steps", (starts, ends, axes, steps))
    key = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps):
        place = node.checked_axis(axis, x.ndim)
        length = x.shape[place]
        if step == 0:
            raise node.error("steps that are not 0", steps)
        if step < 0 and end < -length:
            key[place] = slice(start, None, step)  # beyond the first element
        else:
            key[place] = slice(start, end, step)
    return x[tuple(key)]


@operator("Expand")
def expand(node: Node) -> Any:
    x, sizes = node.array(0), node.ints(1) or []
    return chx.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(sizes)))


@operator("Tile")
def tile(node: Node) -> Any:
    x = node.array(0)
    if len(node) == 3:  # operator set 1: a count along an axis
        counts = [1] * x.ndim
        counts[node.checked_axis(int(node.number(2)), x.ndim)] = int(node.number(1))
        return chx.tile(x, tuple(counts))
    return chx.tile(x, tuple(node.ints(1) or ()))


@operator("Pad")
def pad(node: Node) -> Any:
    x = node.array(0)
    widths = node.ints_of("pads", 1) if "pads" in node.attributes else node.attr("paddings")
    widths = node.ints(1) if widths is None else widths
    axes = node.ints(3) if node.version >= 18 else None
    axes = list(range(x.ndim)) if axes is None else [node.checked_axis(a, x.ndim) for a in axes]
    if widths is None or len(widths) != 2 * len(axes):
        raise node.error(f"{2 * len(axes)} pads", widths)
    pairs = [(0, 0)] * x.ndim
    for i, axis in enumerate(axes):
        pairs[axis] = (widths[i], widths[i + len(axes)])
    x = x[tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pairs, x.shape))]
    pairs = [(max(a, 0), max(b, 0)) for a, b in pairs]
    mode = node.attr("mode", "constant")
    if mode != "constant":
        return chx.pad(x, pairs, mode)
    value = node.attr("value", 0) if node.version < 11 else node.number(2, 0)
    return chx.pad(x, pairs, constant_values=value)


@operator("Trilu")
def trilu(node: Node) -> Any:
    k = int(node.number(1, 0))
    return (chx.triu if node.attr("upper", 1) else chx.tril)(node.array(0), k)


@operator("DepthToSpace")
def depth_to_space(node: Node) -> Any:
    x, b = node.array(0), node.attr("blocksize")
    if node.attr("mode", "DCR") == "CRD":
        return chx.pixel_shuffle(x, b)
    n, c, h, w = x.shape
    y = chx.transpose(x.reshape(n, b, b, c // (b * b), h, w), (0, 3, 4, 1, 5, 2))
    return y.reshape(n, c // (b * b), h * b, w * b)


@operator("SpaceToDepth")
def space_to_depth(node: Node) -> Any:
    x, b = node.array(0), node.attr("blocksize")
    if node.attr("mode", "DCR") == "CRD":
        return chx.pixel_unshuffle(x, b)
    n, c, h, w = x.shape
    y = chx.transpose(x.reshape(n, c, h // b, b, w // b, b), (0, 3, 5, 1, 2, 4))
    return y.reshape(n, c * b * b, h // b, w // b)


@operator("Constant")
def constant(node: Node) -> Any:
    for name, dtype in {
        "value_float": "float32",
        "value_floats": "float32",
        "value_int": "int64",
        "value_ints": "int64",
    }.items():
        if name in node.attributes:
            return Constant(np.array(node.attributes[name], dtype))
    if "value" not in node.attributes:
        raise node.error("a value of numbers", sorted(node.attributes))
    return Constant(node.attributes["value"])


@operator("ConstantOfShape")
def constant_of_shape(node: Node) -> Any:
    value = node.attr("value", np.zeros(1, np.float32))
    sizes = tuple(node.ints(0) or ())
    if any(n < 0 for n in sizes):
        raise node.error("sizes from 0 on", sizes)
    return chx.full(sizes, value.reshape(()).item(), dtype=str(value.dtype))


@operator("EyeLike")
def eye_like(node: Node) -> Any:
    x = node.array(0)
    if x.ndim != 2:
        raise node.error("an array of 2 dimensions", x.shape)
    number = node.attr("dtype")
    dtype = str(x.dtype) if number is None else dtype_name(number, node.label)
    rows, columns = x.shape
    return chx.eye(rows, columns, k=node.attr("k", 0), dtype=dtype)


@operator("Range")
def range_(node: Node) -> Any:
    start, limit, step = (node.number(i) for i in range(3))
    dtype = node.array(0).dtype
    if step == 0:
        raise node.error("a step that is not 0", step)
    count = max(int(np.ceil((limit - start) / step)), 0)
    return chx.arange(count, dtype=dtype) * step + start if count else chx.zeros((0,), dtype=dtype)


@operator("CenterCropPad")
def center_crop_pad(node: Node) -> Any:
    x, sizes = node.array(0), node.ints(1) or []
    axes = node.attr("axes", list(range(x.ndim)))
    key, pairs = [slice(None)] * x.ndim, [(0, 0)] * x.ndim
    for axis, want in zip((node.checked_axis(a, x.ndim) for a in axes), sizes):
        have = x.shape[axis]
        first = abs(have - want) // 2
        if want < have:
            key[axis] = slice(first, first + want)
        else:
            pairs[axis] = (first, want - have - first)
    return chx.pad(x[tuple(key)], pairs)
