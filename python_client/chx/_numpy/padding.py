"""chx.pad: borders around arrays, in every mode of numpy.pad."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._numpy import creation
from chx._numpy.arguments import sliced
from chx._types import NumpyArray, is_float

_INDEXED = ("edge", "wrap", "reflect", "symmetric")
_STATISTICS: dict[str, Callable[..., ndarray]] = {
    "maximum": _core.amax,
    "minimum": _core.amin,
    "mean": _core.mean,
}
_MODES = ("constant", "empty", "linear_ramp", "median", *_INDEXED, *_STATISTICS)


def pad(
    array: ndarray,
    pad_width: Any,
    mode: Any = "constant",
    constant_values: Any = 0,
    *,
    end_values: Any = 0,
    stat_length: Any = None,
    reflect_type: str = "even",
    **kwargs: Any,
) -> ndarray:
    """The array with a border, whose widths, modes and keywords are numpy.pad's.

    `pad_width`, `constant_values`, `end_values` and `stat_length` are one number, a pair (before,
    after) or a pair for each axis. Of the array's dtype; differentiable in every mode ('empty' has
    zeros, so that its gradient is that of 'constant').

    `mode` may also be a function(vector, widths, axis, kwargs), which writes into the borders of the
    zero-padded vectors along each axis. Those have no gradient.

    Raises:
      TypeError: widths that are not integers, or other keywords than those above without a function.
      ValueError: an unknown mode, a negative width, or nothing to extend where there is a border.
    """
    if not callable(mode) and mode not in _MODES:
        raise ValueError(f"[pad] expects one of {', '.join(sorted(_MODES))}, got {mode!r}")
    if reflect_type not in ("even", "odd"):
        raise ValueError(f"[pad] expects reflect_type 'even' or 'odd', got {reflect_type!r}")
    if kwargs and not callable(mode):
        raise TypeError(f"[pad] expects other keywords with a function only, got {list(kwargs)}")
    if np.asarray(pad_width).dtype.kind not in "iu":
        raise TypeError(f"[pad] expects integers as widths, got {pad_width}")
    widths = _pairs(pad_width, array.ndim, np.int64)
    if (widths < 0).any():
        raise ValueError(f"[pad] expects widths from 0 on, got {pad_width}")
    if callable(mode):
        return _by_function(array, widths, mode, kwargs)
    if mode == "empty" or (mode == "constant" and np.ndim(constant_values) == 0):
        value = 0 if mode == "empty" else constant_values
        return _core.constant_pad(array, widths.ravel().tolist(), value)
    constants = _pairs(constant_values if mode == "constant" else end_values, array.ndim)
    lengths = _pairs(stat_length, array.ndim, object)
    for axis in range(array.ndim):
        before, after = map(int, widths[axis])
        if before == after == 0:
            continue
        if array.shape[axis] == 0 and mode != "constant":
            raise ValueError(f"[pad] expects elements along axis {axis}, got shape {array.shape}")
        if mode in _INDEXED:
            array = _by_index(array, axis, before, after, mode, reflect_type == "odd")
            continue
        borders = [
            _border(array, axis, side, n, mode, constants[axis][side], lengths[axis][side])
            for side, n in enumerate((before, after))
        ]
        array = _core.concatenate([borders[0], array, borders[1]], axis)
    return array


def _pairs(value: Any, ndim: int, dtype: Any = None) -> NumpyArray:
    return np.broadcast_to(np.asarray(value, dtype), (ndim, 2))


def _by_function(
    array: ndarray, widths: NumpyArray, function: Callable[..., Any], kwargs: dict[str, Any]
) -> ndarray:
    padded = _core.constant_pad(array, widths.ravel().tolist(), 0)
    for axis, pair in enumerate(widths.tolist()):
        lanes = _core.moveaxis(padded, axis, -1)
        for place in itertools.product(*map(range, lanes.shape[:-1])):
            function(lanes[place] if place else lanes, tuple(pair), axis, kwargs)
    return padded


def _by_index(array: ndarray, axis: int, before: int, after: int, mode: str, odd: bool) -> ndarray:
    size = array.shape[axis]
    if mode == "wrap":
        # Up to version 1.24 NumPy repeats in blocks that begin at the border; so does this.
        places = np.arange(-before, size + after) % size
    elif mode == "edge" or size == 1:
        places = np.clip(np.arange(-before, size + after), 0, size - 1)
    else:
        if odd:
            return _odd(array, axis, before, after, mode)
        period = 2 * size - (2 if mode == "reflect" else 0)
        places = np.arange(-before, size + after) % period
        mirrored = period - places - (0 if mode == "reflect" else 1)
        places = np.minimum(places, mirrored)
    return _core.take(array, creation.array(places, device=array.device), axis)


def _odd(array: ndarray, axis: int, before: int, after: int, mode: str) -> ndarray:
    """Reflected about the values of the edges, as far as there are elements, then again."""
    edge = 1 if mode == "reflect" else 0
    while before or after:
        most = array.shape[axis] - edge
        left, right = min(before, most), min(after, most)
        size = array.shape[axis]
        first = 2 * sliced(array, axis, 0, 1)
        last = 2 * sliced(array, axis, size - 1, size)
        parts = [
            first - _core.flip(sliced(array, axis, edge, edge + left), axis),
            array,
            last - _core.flip(sliced(array, axis, size - edge - right, size - edge), axis),
        ]
        array = _core.concatenate(parts, axis)
        before, after = before - left, after - right
    return array


def _border(
    array: ndarray, axis: int, side: int, width: int, mode: str, value: Any, length: int | None
) -> ndarray:
    """The `width` elements before (side 0) or after the array."""
    shape = list(array.shape)
    shape[axis] = width
    if mode == "constant":
        return _core.full(shape, value.item(), array.dtype, device=array.device)
    size = array.shape[axis]
    if mode == "linear_ramp":
        edge = sliced(array, axis, size - 1, size) if side else sliced(array, axis, 0, 1)
        return _ramp(edge, shape, axis, side, value.item())
    if length is None or length > size:
        length = size
    if length < 1:
        raise ValueError(f"[pad] expects stat_length from 1 on, got {length}")
    part = sliced(array, axis, size - length, size) if side else sliced(array, axis, 0, length)
    if mode == "median":
        ordered = _core.sort(part, axis)
        statistic = _core.mean(
            sliced(ordered, axis, (length - 1) // 2, length // 2 + 1), axis, True, _wide(array)
        )
        if is_float(array.dtype):  # NaNs are last
            last = sliced(ordered, axis, length - 1, length)
            statistic = _core.where(_core.isnan(last), np.nan, statistic)
    elif mode == "mean":
        statistic = _core.mean(part, axis, True, _wide(array))
    else:
        statistic = _STATISTICS[mode](part, axis, True)
    return _core.broadcast_to(_rounded(statistic, array.dtype), shape)


def _wide(array: ndarray) -> str | None:
    return "float64" if not is_float(array.dtype) else None


def _rounded(x: ndarray, dtype: np.dtype[Any]) -> ndarray:
    if x.dtype == dtype:
        return x
    return (_core.rint(x) if dtype.kind in "iu" else x).astype(dtype)


def _ramp(edge: ndarray, shape: Sequence[int], axis: int, side: int, end: float) -> ndarray:
    """From `end`, at the outside, to just before the edge."""
    width = shape[axis]
    share = np.arange(width) / max(width, 1)  # of the edge's value
    share = (share[::-1] if side else share).reshape(
        [-1 if d == axis else 1 for d in range(edge.ndim)]
    )
    floating = edge if is_float(edge.dtype) else edge.astype("float64")
    weight = creation.array(share, floating.dtype, device=edge.device)
    ramp = (floating - end) * weight + end
    if edge.dtype.kind in "iu":
        ramp = _core.trunc(ramp) if edge.dtype.kind == "u" else _core.floor(ramp)
    return _core.broadcast_to(ramp.astype(edge.dtype, copy=False), shape)
