"""NumPy's chapter "Array creation routines"."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, cast

import numpy as np

from chx import _core
from chx._compat import zip_strict
from chx._core import ndarray
from chx._numpy import operands, transfer
from chx._types import DeviceLike, DtypeLike, Shape


def array(
    object: Any, dtype: DtypeLike | None = None, copy: bool = True, device: DeviceLike = None
) -> ndarray:
    """An array from nested sequences, numbers, NumPy arrays or another array.

    The values are copied at the call. Dtypes are NumPy's: integers int64, floats float64. Arrays of
    chx in lists are stacked, on the device of the first, and gradients flow to them; numbers beside
    them do not widen their dtype.
    Without `copy` a NumPy array that to_numpy(copy=False) gave, or a view of one, comes back as an
    array over the same memory; all others are copied all the same, with their strides if these
    don't spread the elements over much more memory.
    """
    if isinstance(object, _core.ndarray):
        if device is not None and _core._get_device(device) is not object.device:
            object = object.to_device(device)
            copy = False
        if dtype is not None and np.dtype(dtype) != object.dtype:
            return object.astype(dtype)
        return object.copy() if copy else object
    if isinstance(object, (list, tuple)) and (first := operands.first_array(object)) is not None:
        stacked = operands.as_operand(object, [first])
        if stacked is NotImplemented:
            raise _core.DtypeError("[array] expects numbers and arrays in lists")
        return array(stacked, dtype, False, device)
    return transfer.upload(object, dtype, copy, device)


def asarray(object: Any, dtype: DtypeLike | None = None, device: DeviceLike = None) -> ndarray:
    """As array(), without a copy of what is an array already."""
    return array(object, dtype, False, device)


def as_array_like(value: Any, like: ndarray) -> ndarray:
    return array(np.asarray(value), dtype=like.dtype, device=like.device)


def as_indices(value: Any, like: ndarray) -> ndarray:
    """take's indices, from what NumPy makes an array of; on the device of the array indexed."""
    return array(np.asarray(value), device=like.device)


def new_ndarray(shape: int | Shape, dtype: DtypeLike, device: DeviceLike = None) -> ndarray:
    return _core.empty(shape, dtype, device)


def asanyarray(a: Any, dtype: DtypeLike | None = None, device: DeviceLike = None) -> ndarray:
    """As asarray(): there are no subclasses of ndarray."""
    return asarray(a, dtype, device)


def ascontiguousarray(a: Any, dtype: DtypeLike | None = None, device: DeviceLike = None) -> ndarray:
    """The array in C order: itself if it is that already, of the dtype and on the device.

    Of one dimension at least, as NumPy's are.
    """
    there = asarray(a, dtype, device)
    if there.ndim == 0:
        return there.reshape(1)
    if not there.is_contiguous:
        return _core.copy(there)
    # Strides of axes that are never stepped are kept, on another device too.
    kept = isinstance(a, _core.ndarray) and a.is_contiguous and a.dtype == there.dtype
    if kept and a.strides != there.strides:
        return _core._as_strided(there, a.shape, a.strides, 0)
    return there


def frombuffer(
    buffer: Any,
    dtype: DtypeLike = "float32",
    count: int = -1,
    offset: int = 0,
    device: DeviceLike = None,
) -> ndarray:
    """A one-dimensional array of what is in an object with the buffer protocol.

    The values are copied at the call. ValueError if `count` and `offset` don't fit the buffer.
    """
    if isinstance(buffer, _core.ndarray):
        buffer = transfer.to_numpy(buffer, copy=False)
    return array(np.frombuffer(buffer, np.dtype(dtype), count, offset), device=device)


def fromfunction(
    function: Callable[..., Any],
    shape: tuple[int, ...],
    *,
    dtype: DtypeLike = float,
    device: DeviceLike = None,
    **kwargs: Any,
) -> ndarray:
    """The array of what `function` gives for NumPy arrays of the coordinates."""
    return array(np.fromfunction(function, shape, dtype=np.dtype(dtype), **kwargs), device=device)


def fromiter(
    iterable: Iterable[Any], dtype: DtypeLike, count: int = -1, device: DeviceLike = None
) -> ndarray:
    """A one-dimensional array of the numbers of an iterable: all, or the first `count`."""
    return array(np.fromiter(iterable, np.dtype(dtype), count), device=device)


def logspace(
    start: float,
    stop: float,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: DtypeLike = "float32",
    device: DeviceLike = None,
) -> ndarray:
    """base ** linspace(start, stop, ...), computed in float64; by default float32, as linspace()."""
    return array(np.logspace(start, stop, num, endpoint, base), dtype, device=device)


def geomspace(
    start: float,
    stop: float,
    num: int = 50,
    endpoint: bool = True,
    dtype: DtypeLike = "float32",
    device: DeviceLike = None,
) -> ndarray:
    """Numbers with a constant quotient, computed in float64; by default float32, as linspace().

    ValueError: start or stop is 0.
    """
    return array(np.geomspace(start, stop, num, endpoint), dtype, device=device)


def meshgrid(
    *xi: Any, indexing: str = "xy", sparse: bool = False, copy: bool = True
) -> list[ndarray]:
    """Coordinate arrays of a grid from one-dimensional ones, as a list; 'xy' swaps two axes.

    Arrays with more dimensions are flattened.
    With `sparse` each has ones where it would repeat itself. Without `copy` they are not of C order.
    """
    if not xi:
        return []
    if not sparse and copy:
        return _core.meshgrid(list(xi), indexing=cast(Literal["xy", "ij"], indexing))
    if indexing not in ("xy", "ij"):
        raise ValueError(f"[meshgrid] expects indexing 'xy' or 'ij', got {indexing!r}")
    device = next((x.device for x in xi if isinstance(x, _core.ndarray)), None)
    xi = tuple(x if isinstance(x, _core.ndarray) else array(x, device=device) for x in xi)
    axes = list(range(len(xi)))
    if indexing == "xy" and len(xi) > 1:
        axes[:2] = 1, 0
    grids = [
        x.reshape([x.size if axis == d else 1 for d in range(len(xi))])
        for x, axis in zip_strict(xi, axes)
    ]
    if not sparse:
        shape = np.broadcast_shapes(*(grid.shape for grid in grids))
        return [_core.broadcast_to(grid, shape) for grid in grids]
    return [_core.copy(grid) for grid in grids] if copy else grids


def vander(x: ndarray, N: int | None = None, increasing: bool = False) -> ndarray:
    """The powers N - 1 ... 0 of a vector's elements as columns, or 0 ... N - 1 if `increasing`."""
    if x.ndim != 1:
        raise ValueError(f"[vander] expects one dimension, got shape {x.shape}")
    count = x.size if N is None else N
    ones = _core.ones((x.size, 1), x.dtype, device=x.device)
    if count < 2:
        return ones[:, :count]
    repeated = _core.broadcast_to(x.reshape(x.size, 1), (x.size, count - 1))
    powers = _core.concatenate([ones, _core.cumprod(repeated, 1, dtype=x.dtype)], 1)
    return powers if increasing else _core.flip(powers, 1)
