"""Resize and Upsample: along each axis a weighted sum of a few elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import chx
from chx._types import is_float
from chx.onnx._import._node import Node
from chx.onnx._import._registry import operator

_MOST_OUTS = 2**24  # whose coordinates the client computes


def _coordinates(node: Node, n: int, outs: int, scale: float, roi: Any) -> Any:
    """Where the elements of the result are in the input."""
    new = node.version >= 11
    mode = node.attr("coordinate_transformation_mode", "half_pixel" if new else "asymmetric")
    if not 0 <= outs <= _MOST_OUTS:
        raise ValueError(
            f"[Resize] expects {_MOST_OUTS} elements along an axis at most, got {outs}"
        )
    x = np.arange(outs, dtype=np.float64)
    length = scale * n
    if mode == "asymmetric":
        return x / scale
    if mode == "align_corners":
        return x * (n - 1) / (length - 1) if length != 1 else np.zeros(outs)
    if mode == "tf_crop_and_resize":
        span = (roi[1] - roi[0]) * (n - 1)
        return roi[0] * (n - 1) + (x * span / (length - 1) if length != 1 else span / 2)
    if mode == "pytorch_half_pixel" and length == 1:
        return np.full(outs, -0.5)
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if mode == "half_pixel_symmetric":
        return n / 2 * (1 - outs / length) + (x + 0.5) / scale - 0.5
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return (x + 0.5) / scale - 0.5
    raise node.error("a known coordinate_transformation_mode", mode)


def _cubic(x: Any, a: float) -> Any:
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _taps(node: Node, x: Any, n: int, scale: float) -> tuple[Any, Any]:
    """Indices and weights, (outputs, elements of each sum)."""
    mode = node.attr("mode", "nearest")
    if mode == "nearest":
        how = node.attr("nearest_mode", "round_prefer_floor" if node.version >= 11 else "floor")
        rounding: dict[str, Any] = {
            "round_prefer_floor": lambda x: np.ceil(x - 0.5),
            "round_prefer_ceil": lambda x: np.floor(x + 0.5),
            "floor": np.floor,
            "ceil": np.ceil,
        }
        return np.clip(rounding[how](x), 0, n - 1).astype(np.int64)[:, None], None
    if mode not in ("linear", "cubic"):
        raise node.error("mode nearest, linear or cubic", mode)
    shrink = min(scale, 1.0) if node.attr("antialias", 0) else 1.0
    reach = math.ceil((1 if mode == "linear" else 2) / shrink)
    whole = np.floor(x)
    places = whole[:, None] + np.arange(1 - reach, reach + 1)
    apart = (places - x[:, None]) * shrink
    if mode == "linear":
        weights = np.maximum(1 - np.abs(apart), 0)
    else:
        weights = _cubic(apart, node.attr("cubic_coeff_a", -0.75))
    if node.attr("exclude_outside", 0):
        weights = np.where((places >= 0) & (places < n), weights, 0)
    weights = weights / weights.sum(1, keepdims=True)
    return np.clip(places, 0, n - 1).astype(np.int64), weights


def _along(node: Node, x: Any, axis: int, scale: float, outs: int, roi: Any) -> Any:
    n = x.shape[axis]
    coordinates = _coordinates(node, n, outs, scale, roi)
    places, weights = _taps(node, coordinates, n, scale)
    shape = [1] * x.ndim
    shape[axis] = outs
    y: Any = None
    if weights is None:
        y = chx.take(x, chx.array(places[:, 0]), axis=axis)
    else:
        for place, weight in zip(places.T, weights.T):
            term = chx.take(x, chx.array(np.ascontiguousarray(place)), axis=axis)
            term = term * chx.array(weight.reshape(shape).astype(str(x.dtype)))
            y = term if y is None else y + term
    if node.attr("coordinate_transformation_mode") == "tf_crop_and_resize":
        outside = (coordinates < 0) | (coordinates > n - 1)
        if outside.any():
            value = chx.full((), node.attr("extrapolation_value", 0.0), dtype=y.dtype)
            y = chx.where(chx.array(outside.reshape(shape)), value, y)
    return y


def _plan(node: Node, x: Any) -> tuple[list[int], list[float], list[int], list[Any]]:
    """Axes, scales, sizes, and the part of each axis that is read."""
    axes = [node.checked_axis(a, x.ndim) for a in node.attr("axes", list(range(x.ndim)))]
    lengths = [x.shape[axis] for axis in axes]
    index = 2 if node.op == "Resize" and node.version >= 11 else 1
    scales = node.attr("scales") if "scales" in node.attributes else node.host(index)
    if node.op == "Upsample" and "height_scale" in node.attributes:
        scales = [1, 1, node.attr("height_scale"), node.attr("width_scale")]
    sizes = node.ints(3) if index == 2 else None
    if sizes:
        scales = [m / n if n else 1.0 for m, n in zip(sizes, lengths)]
        policy = node.attr("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            scale = (min if policy == "not_larger" else max)(scales)
            scales = [scale] * len(axes)
            sizes = [int(scale * n + 0.5) for n in lengths]
    else:
        scales = [float(s) for s in ([] if scales is None else scales)]
        sizes = [int(math.floor(n * s)) for n, s in zip(lengths, scales)]
    if len(scales) != len(axes) or any(not s > 0 for s in scales):
        raise node.error(f"{len(axes)} positive scales or sizes", scales)
    roi = node.host(1) if index == 2 else None
    crop = node.attr("coordinate_transformation_mode") == "tf_crop_and_resize"
    parts = [(0.0, 1.0)] * len(axes)
    if crop and roi is not None and roi.size == 2 * len(axes):
        parts = [(float(roi[i]), float(roi[i + len(axes)])) for i in range(len(axes))]
    return axes, scales, sizes, parts


def _as_interpolate(node: Node, x: Any, plan: list[Any]) -> dict[str, Any] | None:
    """The arguments by which one operator gives the same; None where there are none."""
    mode, how = node.attr("mode", "nearest"), node.attr("coordinate_transformation_mode")
    if not is_float(x.dtype) or how == "tf_crop_and_resize" or any(axis < 2 for axis, *_ in plan):
        return None
    if mode == "linear":
        if x.ndim > 5 or node.attr("antialias", 0) or node.attr("exclude_outside", 0):
            return None
    elif mode != "nearest":
        return None
    size = list(x.shape[2:])
    corners = mode == "linear" and how == "align_corners"
    for axis, scale, outs, part in plan:
        n = x.shape[axis]
        if outs == 0:
            return None
        coordinates, counted = _coordinates(node, n, outs, scale, part), np.arange(outs)
        if mode == "nearest":
            same = (_taps(node, coordinates, n, scale)[0][:, 0] == counted * n // outs).all()
        else:
            step = (n - 1) / max(outs - 1, 1) if corners else n / outs
            places = counted * step if corners else (counted + 0.5) * step - 0.5
            coordinates, places = (np.clip(p, 0, n - 1) for p in (coordinates, places))
            same = np.allclose(coordinates, places, 1e-12, 1e-12)
        if not same:
            return None
        size[axis - 2] = outs
    if mode == "linear":
        mode = ("linear", "bilinear", "trilinear")[x.ndim - 3]
    return {"size": tuple(size), "mode": mode, "align_corners": corners}


@operator("Resize", "Upsample")
def resize(node: Node) -> Any:
    x = node.array(0)
    dtype = x.dtype
    plan = [
        (axis, scale, outs, part)
        for axis, scale, outs, part in zip(*_plan(node, x))
        if scale != 1 or outs != x.shape[axis] or part != (0.0, 1.0)
    ]
    arguments = _as_interpolate(node, x, plan) if plan else None
    if arguments is not None:
        return chx.interpolate(x, **arguments)
    if node.attr("mode", "nearest") != "nearest" and not is_float(dtype):
        x = x.astype("float32")
    for step in plan:
        x = _along(node, x, *step)
    return x.astype(dtype)
