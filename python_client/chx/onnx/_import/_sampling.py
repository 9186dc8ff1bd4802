"""GridSample, DeformConv, RoiAlign and NonMaxSuppression: elements at places that are computed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import chx
from chx.onnx._import._node import Node
from chx.onnx._import._registry import operator

_MOST_PLACES = 2**20  # of samples along a dimension, whose coordinates the client computes


def _fetch(x: Any, places: Sequence[Any], mode: str, limits: Any) -> Any:
    """Elements of x (N, C, spatial...) at whole places (N, P) in each dimension, as (N, C, P)."""
    sizes = x.shape[2:]
    inside: Any = None
    position: Any = None
    for place, size, limit in zip(places, sizes, limits):
        if mode == "zeros":
            within = chx.logical_and(place >= 0, place <= size - 1)
            inside = within if inside is None else chx.logical_and(inside, within)
        elif mode == "reflection":
            place = _reflected(place, *limit)
        # NaN and infinite places count as the first element.
        place = chx.clip(chx.nan_to_num(place), 0, size - 1).astype("int64")
        position = place if position is None else position * size + place
    flat = x.reshape(*x.shape[:2], -1)
    index = chx.expand_dims(position, 1)
    index = chx.broadcast_to(index, (x.shape[0], x.shape[1], index.shape[2]))
    values = chx.take_along_axis(flat, index, axis=2)
    if inside is None:
        return values
    return chx.where(chx.expand_dims(inside, 1), values, chx.zeros((), dtype=x.dtype))


def _reflected(place: Any, low: float, high: float) -> Any:
    span = high - low
    if span == 0:
        return chx.full_like(place, low)
    turned = chx.remainder(place - low, 2 * span)
    return chx.where(turned > span, 2 * span - turned, turned) + low


def interpolate(x: Any, places: Sequence[Any], mode: str, limits: Any) -> Any:
    """Between the elements around places (N, P), linearly in each dimension: (N, C, P)."""
    floors = [chx.floor(place) for place in places]
    apart = [place - floor for place, floor in zip(places, floors)]
    total: Any = None
    for corner in itertools.product((0, 1), repeat=len(places)):
        weight: Any = None
        for side, r in zip(corner, apart):
            part = r if side else 1 - r
            weight = part if weight is None else weight * part
        values = _fetch(x, [f + side for f, side in zip(floors, corner)], mode, limits)
        term = values * chx.expand_dims(weight, 1).astype(x.dtype)
        total = term if total is None else total + term
    return total


def _cubic_weights(r: Any) -> list[Any]:
    a = -0.75

    def far(t: Any) -> Any:
        return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a

    def near(t: Any) -> Any:
        return ((a + 2) * t - (a + 3)) * t * t + 1

    return [far(r + 1), near(r), near(1 - r), far(2 - r)]


def _interpolate_cubic(x: Any, places: Sequence[Any], mode: str, limits: Any) -> Any:
    floors = [chx.floor(place) for place in places]
    weights = [_cubic_weights(place - floor) for place, floor in zip(places, floors)]
    total: Any = None
    for taps in itertools.product(range(4), repeat=len(places)):
        weight: Any = None
        for tap, choices in zip(taps, weights):
            weight = choices[tap] if weight is None else weight * choices[tap]
        values = _fetch(x, [f + (tap - 1) for f, tap in zip(floors, taps)], mode, limits)
        term = values * chx.expand_dims(weight, 1).astype(x.dtype)
        total = term if total is None else total + term
    return total


@operator("GridSample")
def grid_sample(node: Node) -> Any:
    x, grid = node.array(0), node.array(1)
    mode = node.attr("mode", "linear" if node.version >= 20 else "bilinear")
    padding, corners = node.attr("padding_mode", "zeros"), node.attr("align_corners", 0)
    sizes = x.shape[2:]
    if grid.ndim != x.ndim or grid.shape[-1] != len(sizes):
        raise node.error(f"a grid of {x.ndim} dimensions, the last of {len(sizes)}", grid.shape)
    outs = grid.shape[1:-1]
    rows = grid.reshape(grid.shape[0], -1, len(sizes))
    limits = [(0, n - 1) if corners else (-0.5, n - 0.5) for n in sizes]
    places = []
    for i, (size, limit) in enumerate(zip(sizes, limits)):
        g = rows[:, :, len(sizes) - 1 - i]  # a grid has the last dimension first
        place = (g + 1) * ((size - 1) / 2) if corners else ((g + 1) * size - 1) / 2
        if mode == "nearest":
            place = chx.rint(place)
        if padding == "border":
            place = chx.clip(place, 0, size - 1)
        elif padding == "reflection":
            place = _reflected(place, *limit)
        places.append(place)
    if mode == "nearest":
        y = _fetch(x, [chx.rint(place) for place in places], padding, limits)
    elif mode in ("linear", "bilinear"):
        y = interpolate(x, places, padding, limits)
    elif mode in ("cubic", "bicubic"):
        y = _interpolate_cubic(x, places, padding, limits)
    else:
        raise node.error("mode nearest, linear or cubic", mode)
    return y.reshape(*x.shape[:2], *outs)


@operator("DeformConv")
def deform_conv(node: Node) -> Any:
    x, w, offset, b, mask = node.array(0), node.array(1), node.array(2), node[3], node[4]
    n, channels = x.shape[:2]
    kernel = list(w.shape[2:])
    dims = len(kernel)
    strides = node.attr("strides", [1] * dims)
    dilations = node.attr("dilations", [1] * dims)
    pads = node.attr("pads", [0] * 2 * dims)
    groups, offset_groups = node.attr("group", 1), node.attr("offset_group", 1)
    outs = offset.shape[2:]
    elements = math.prod(kernel)
    each = channels // offset_groups
    offsets = offset.reshape(n, offset_groups, elements, dims, math.prod(outs))
    columns = []
    for k, tap in enumerate(itertools.product(*map(range, kernel))):
        parts = []
        for group in range(offset_groups):
            places = []
            for i in range(dims):
                shape = [1] * dims
                shape[i] = outs[i]
                base = chx.arange(outs[i], dtype=str(x.dtype)) * strides[i]
                base = (base + (tap[i] * dilations[i] - pads[i])).reshape(*shape)
                base = chx.broadcast_to(base, outs).reshape(1, -1)
                places.append(base + offsets[:, group, k, i])
            source = x[:, group * each : (group + 1) * each]
            values = interpolate(source, places, "zeros", [(0, 0)] * dims)
            if mask is not None:
                scale = mask.reshape(n, offset_groups, elements, -1)[:, group, k]
                values = values * chx.expand_dims(scale, 1)
            parts.append(values)
        columns.append(chx.concatenate(parts, 1))
    stacked = chx.stack(columns, axis=2)  # (N, C, elements, places)
    per = channels // groups
    results = []
    for group in range(groups):
        rows = stacked[:, group * per : (group + 1) * per].reshape(n, per * elements, -1)
        outputs = w.shape[0] // groups
        kernels = w[group * outputs : (group + 1) * outputs].reshape(outputs, -1)
        results.append(chx.matmul(kernels, rows))
    y = chx.concatenate(results, 1).reshape(n, w.shape[0], *outs)
    return y if b is None else y + b.reshape(-1, *[1] * dims)


def _bin_places(start: float, length: float, bins: int, ratio: int, size: int) -> tuple[Any, Any]:
    """Coordinates of samples along a dimension, and which of them are outside."""
    if bins < 1 or not np.isfinite(length):
        raise ValueError(
            f"[RoiAlign] expects sizes above 0 and finite regions, got {bins}, {length}"
        )
    count = ratio if ratio > 0 else max(int(np.ceil(length / bins)), 1)
    if bins * count > _MOST_PLACES:
        raise ValueError(f"[RoiAlign] expects {_MOST_PLACES} samples at most, got {bins * count}")
    step = length / bins / count
    places = start + (np.arange(bins * count) + 0.5) * step
    outside = (places < -1) | (places > size)
    return np.clip(places, 0, size - 1), outside


@operator("RoiAlign")
def roi_align(node: Node) -> Any:
    """The places of samples are computed by the client: how many there are depends on the regions."""
    x, rois, batches = node.array(0), node.host(1), node.host(2)
    height, width = node.attr("output_height", 1), node.attr("output_width", 1)
    ratio, scale = node.attr("sampling_ratio", 0), node.attr("spatial_scale", 1.0)
    half = node.version >= 16 and node.attr("coordinate_transformation_mode", "half_pixel") == (
        "half_pixel"
    )
    largest = node.attr("mode", "avg") == "max"
    results = []
    for roi, batch in zip(rois.astype(np.float64), batches):
        if not 0 <= batch < x.shape[0]:
            raise node.error(f"batch indices below {x.shape[0]}", batch)
        x1, y1, x2, y2 = roi * scale - (0.5 if half else 0.0)
        h, w = y2 - y1, x2 - x1
        if not half:
            h, w = max(h, 1.0), max(w, 1.0)
        ys, no_y = _bin_places(y1, h, height, ratio, x.shape[2])
        xs, no_x = _bin_places(x1, w, width, ratio, x.shape[3])
        samples = _samples(x[int(batch)], ys, xs, no_y, no_x, largest)
        shape = (-1, x.shape[1], height, len(ys) // height, width, len(xs) // width)
        samples = samples.reshape(*shape)
        if largest:
            results.append(chx.amax(chx.amax(samples, axis=0), axis=(2, 4)))
        else:
            results.append(chx.mean(chx.sum(samples, axis=0), axis=(2, 4)))
    if not results:
        return chx.zeros((0, x.shape[1], height, width), dtype=x.dtype)
    return chx.stack(results, axis=0)


def _samples(image: Any, ys: Any, xs: Any, no_y: Any, no_x: Any, largest: bool) -> Any:
    """The four weighted corners of each sample, (4, C, rows, columns)."""
    terms = []
    low_y, low_x = np.floor(ys).astype(np.int64), np.floor(xs).astype(np.int64)
    for dy, dx in itertools.product((0, 1), repeat=2):
        rows = chx.take(image, chx.array(np.minimum(low_y + dy, image.shape[1] - 1)), axis=1)
        values = chx.take(rows, chx.array(np.minimum(low_x + dx, image.shape[2] - 1)), axis=2)
        wy = np.where(no_y, 0, ys - low_y if dy else 1 - (ys - low_y))
        wx = np.where(no_x, 0, xs - low_x if dx else 1 - (xs - low_x))
        terms.append(values * chx.array(np.outer(wy, wx).astype(str(image.dtype))))
    return chx.stack(terms, axis=0)


@operator("NonMaxSuppression")
def non_max_suppression(node: Node) -> Any:
    """The daemon compares the boxes; which are kept, one after the other, the client finds."""
    boxes, scores = node.array(0), node.array(1)
    most = int(node.number(2, 0))
    overlap, least = float(node.number(3, 0.0)), node.number(4)
    lows, highs = boxes[:, :, :2], boxes[:, :, 2:]
    if node.attr("center_point_box", 0):
        lows, highs = lows - highs / 2, lows + highs / 2
    else:
        lows, highs = chx.minimum(lows, highs), chx.maximum(lows, highs)
    areas = chx.prod(highs - lows, axis=2)
    top = chx.maximum(chx.expand_dims(lows, 1), chx.expand_dims(lows, 2))
    bottom = chx.minimum(chx.expand_dims(highs, 1), chx.expand_dims(highs, 2))
    shared = chx.prod(chx.maximum(bottom - top, 0), axis=3)
    union = chx.expand_dims(areas, 1) + chx.expand_dims(areas, 2) - shared
    ratio = chx.where(union > 0, shared / chx.where(union > 0, union, 1), 0.0)
    clash = chx.to_numpy(ratio > overlap)
    order = chx.to_numpy(chx.argsort(-scores, axis=2))
    allowed = np.ones(scores.shape, bool) if least is None else chx.to_numpy(scores > least)
    rows = []
    for batch, label in itertools.product(*map(range, scores.shape[:2])):
        kept: list[int] = []
        for box in order[batch, label]:
            if len(kept) >= most:
                break
            if allowed[batch, label, box] and not clash[batch, box, kept].any():
                kept.append(int(box))
        rows += [(batch, label, box) for box in kept]
    return chx.array(np.array(rows, np.int64).reshape(-1, 3))
