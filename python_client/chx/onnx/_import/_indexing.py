"""Elements chosen by integer arrays and masks, and written to such places."""

from __future__ import annotations

import math
from typing import Any

import chx
from chx.onnx._import._node import Node
from chx.onnx._import._registry import operator


def counted(indices: Any, size: int) -> Any:
    """Indices as int64, negative ones counted from the end."""
    indices = indices.astype("int64")
    return chx.where(indices < 0, indices + size, indices)


@operator("Gather")
def gather(node: Node) -> Any:
    x = node.array(0)
    axis = node.axis(x.ndim)
    return chx.take(x, counted(node.array(1), x.shape[axis]), axis=axis)


@operator("GatherElements")
def gather_elements(node: Node) -> Any:
    x, indices = node.array(0), node.array(1)
    axis = node.axis(x.ndim)
    x_part = x[tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(indices.shape))]
    return chx.take_along_axis(x_part, counted(indices, x.shape[axis]), axis=axis)


def _positions(node: Node, indices: Any, sizes: tuple[int, ...]) -> Any:
    """Places in C order of indices whose last axis runs over the dimensions of these sizes."""
    position = chx.zeros(indices.shape[:-1], dtype="int64")
    for i, size in enumerate(sizes):
        index = counted(indices[..., i], size)
        if index.size and bool(chx.any(chx.logical_or(index < 0, index >= size))):
            raise IndexError(f"[{node.op}] expects indices in [-{size}, {size}), got others")
        position = position * size + index
    return position


@operator("GatherND")
def gather_nd(node: Node) -> Any:
    x, indices = node.array(0), node.array(1)
    batch = node.attr("batch_dims", 0)
    depth = indices.shape[-1]
    if not 0 <= batch < min(x.ndim, indices.ndim):
        raise node.error(f"batch_dims from 0 to {min(x.ndim, indices.ndim) - 1}", batch)
    if depth + batch > x.ndim:
        raise node.error(f"indices for at most {x.ndim - batch} dimensions", depth)
    lead = x.shape[:batch]
    sizes = x.shape[batch : batch + depth]
    rest = x.shape[batch + depth :]
    position = _positions(node, indices, sizes)
    if batch:
        offsets = chx.arange(math.prod(lead), dtype="int64") * math.prod(sizes)
        position = position + offsets.reshape(*lead, *[1] * (position.ndim - batch))
    rows = x.reshape(math.prod(lead) * math.prod(sizes), *rest)
    return chx.take(rows, position, axis=0)


def scatter(node: Node, x: Any, places: Any, values: Any, reduction: str) -> Any:
    """Rows of a copy of x, with values written to them or combined with them."""
    if reduction == "none":
        result = x.copy()
        chx.index_put(result, places, values)
        return result
    if reduction == "add":
        added = chx._core.take_along_axis_grad(values, _like_rows(places, values), x.shape, 0)
        return x + added
    rows = chx.concatenate([x, values], axis=0)
    ids = chx.concatenate([chx.arange(x.shape[0], dtype="int64"), places], axis=0)
    combine = {"mul": chx.segment_prod, "max": chx.segment_max, "min": chx.segment_min}[reduction]
    return combine(rows, ids, x.shape[0])


def _like_rows(places: Any, values: Any) -> Any:
    shape = [places.shape[0]] + [1] * (values.ndim - 1)
    return chx.broadcast_to(places.reshape(*shape), values.shape)


@operator("Scatter", "ScatterElements")
def scatter_elements(node: Node) -> Any:
    x, indices, values = node.array(0), node.array(1), node.array(2)
    axis = node.axis(x.ndim)
    position = chx.zeros(indices.shape, dtype="int64")
    for i, size in enumerate(x.shape):
        if i == axis:
            index = counted(indices, size)
            if index.size and bool(chx.any(chx.logical_or(index < 0, index >= size))):
                raise IndexError(f"[{node.op}] expects indices in [-{size}, {size}), got others")
        else:
            sizes = [1] * x.ndim
            sizes[i] = indices.shape[i]
            index = chx.arange(indices.shape[i], dtype="int64").reshape(*sizes)
        position = position * size + index
    flat = scatter(
        node, x.ravel(), position.ravel(), values.ravel(), node.attr("reduction", "none")
    )
    return flat.reshape(x.shape)


@operator("ScatterND")
def scatter_nd(node: Node) -> Any:
    x, indices, values = node.array(0), node.array(1), node.array(2)
    depth = indices.shape[-1]
    rest = x.shape[depth:]
    position = _positions(node, indices, x.shape[:depth])
    rows = x.reshape(math.prod(x.shape[:depth]), *rest)
    values = values.reshape(position.size, *rest)
    return scatter(node, rows, position.ravel(), values, node.attr("reduction", "none")).reshape(
        x.shape
    )


@operator("TensorScatter")
def tensor_scatter(node: Node) -> Any:
    """New keys or values written into a cache, from a place of each batch on."""
    x, values = node.array(0), node.array(1)
    axis = node.checked_axis(node.attr("axis", -2), x.ndim)
    size, count = x.shape[axis], values.shape[axis]
    starts = node[2]
    starts = chx.zeros((x.shape[0],), dtype="int64") if starts is None else starts.astype("int64")
    places = starts.reshape(-1, 1) + chx.arange(count, dtype="int64")
    if node.attr("mode", "linear") == "circular":
        places = chx.remainder(places, size)
    front = chx.moveaxis(x, axis, 1).copy()
    rows = front.reshape(x.shape[0] * size, *front.shape[2:])
    offsets = (chx.arange(x.shape[0], dtype="int64") * size).reshape(-1, 1)
    new = chx.moveaxis(values, axis, 1).reshape(-1, *front.shape[2:])
    chx.index_put(rows, (places + offsets).ravel(), new)
    return chx.moveaxis(rows.reshape(front.shape), 1, axis)


@operator("OneHot")
def one_hot(node: Node) -> Any:
    indices, depth, values = node.array(0), int(node.number(1)), node.array(2)
    axis = node.checked_axis(node.attr("axis", -1), indices.ndim + 1)
    places = indices.astype("int64")
    places = chx.expand_dims(chx.where(places < 0, places + depth, places), axis)
    shape = [1] * places.ndim
    shape[axis] = depth
    hot = chx.equal(places, chx.arange(depth, dtype="int64").reshape(*shape))
    return chx.where(hot, values[1], values[0])


@operator("Compress")
def compress(node: Node) -> Any:
    x, condition = node.array(0), node.array(1)
    x, axis = (x.ravel(), 0) if "axis" not in node.attributes else (x, node.axis(x.ndim))
    return chx.take(x, chx.nonzero(condition)[0], axis=axis)


@operator("NonZero")
def nonzero(node: Node) -> Any:
    x = node.array(0)
    return chx.stack(chx.nonzero(x if x.ndim else x.reshape(1)), axis=0)


@operator("TopK")
def top_k(node: Node) -> Any:
    x = node.array(0)
    k = node.attr("k") if node.version < 10 else int(node.number(1))
    axis = node.axis(x.ndim, -1)
    if not 0 <= k <= x.shape[axis]:
        raise node.error(f"k of at most {x.shape[axis]}", k)
    if node.attr("largest", 1):
        # From the end backwards, so that of equal elements the first one is first.
        order = x.shape[axis] - 1 - chx.flip(chx.argsort(chx.flip(x, axis), axis=axis), axis)
    else:
        order = chx.argsort(x, axis=axis)
    order = order[tuple(slice(k) if i == axis else slice(None) for i in range(x.ndim))]
    return chx.take_along_axis(x, order, axis=axis), order


@operator("Unique")
def unique(node: Node) -> Any:
    x = node.array(0)
    axis = node.attr("axis")
    axis = None if axis is None else node.checked_axis(axis, x.ndim)
    values, first, inverse, counts = chx.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.ravel()
    if not node.attr("sorted", 1):
        order = chx.argsort(first)
        values = chx.take(values, order, axis=axis or 0)
        first, counts = chx.take(first, order, axis=0), chx.take(counts, order, axis=0)
        inverse = chx.take(chx.argsort(order), inverse, axis=0)
    return values, *(a.astype("int64") for a in (first, inverse, counts))


@operator("ReverseSequence")
def reverse_sequence(node: Node) -> Any:
    x, lengths = node.array(0), node.array(1)
    batch, time = node.attr("batch_axis", 1), node.attr("time_axis", 0)
    front = chx.moveaxis(x, (batch, time), (0, 1))
    steps = chx.arange(front.shape[1], dtype="int64")
    ends = lengths.reshape(-1, 1)
    places = chx.where(steps < ends, ends - 1 - steps, steps)
    places = chx.broadcast_to(places.reshape(*places.shape, *[1] * (x.ndim - 2)), front.shape)
    return chx.moveaxis(chx.take_along_axis(front, places, axis=1), (0, 1), (batch, time))


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(node: Node) -> Any:
    return chx.take(node.array(0), node.array(1).ravel(), axis=-1)


@operator("Binarizer", domain="ai.onnx.ml")
def binarizer(node: Node) -> Any:
    x = node.array(0)
    return (x > node.attr("threshold", 0.0)).astype(x.dtype)
