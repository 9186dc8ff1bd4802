"""NumPy's chapter "Indexing routines": functions that take elements and that write them in place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from chx import _core
from chx._compat import zip_strict
from chx._core import ndarray
from chx._numpy import advanced_indexing, creation, manipulation, mathematics, transfer
from chx._numpy.arguments import (
    array_beside,
    array_like,
    arrays_like,
    check_written,
    checked_axis,
)
from chx._types import Shape


def _indices(name: str, a: ndarray, indices: Any) -> ndarray:
    """Indices of NumPy or in lists as an array on a's device; an empty list is one of indices too."""
    if not isinstance(indices, _core.ndarray):
        indices = np.asarray(indices)
        indices = indices.astype(np.int64) if indices.size == 0 else indices
    if indices.dtype.kind not in "iu":
        raise IndexError(f"[{name}] expects an array of integers as indices, got {indices.dtype}")
    if isinstance(indices, _core.ndarray):
        return indices
    return creation.array(indices, device=a.device)


def _fitted(name: str, shape: Shape, indices: ndarray, axis: int) -> Shape:
    """The shape of both, which broadcast but for the axis, with the array's own along it."""
    if indices.ndim != len(shape):
        raise _core.DimensionError(
            f"[{name}] expects indices of {len(shape)} dimensions, got shape {indices.shape}"
        )
    fitted = list(shape)
    for i, (n, m) in enumerate(zip_strict(shape, indices.shape)):
        if i != axis and n != m and 1 not in (n, m):
            raise _core.DimensionError(
                f"[{name}] expects shapes that agree but for axis {axis}, got {shape} and indices "
                f"{indices.shape}"
            )
        fitted[i] = n if i == axis or m == 1 else m
    return tuple(fitted)


def take_along_axis(arr: Any, indices: Any, axis: int | None) -> ndarray:
    """The elements at indices along an axis, for each position along the others, which broadcast.

    Without an axis (None), of the flattened array at the flattened indices. IndexError: out of range,
    when the result is read.
    """
    if isinstance(arr, ndarray) and isinstance(indices, ndarray) and axis is not None:
        try:
            return _core.take_along_axis(arr, indices, axis)
        except (_core.DimensionError, _core.DtypeError):  # they may broadcast; or an IndexError
            pass
    arr = array_beside("take_along_axis", arr, indices)
    indices = _indices("take_along_axis", arr, indices)
    if axis is None:
        arr, indices, axis = _core.ravel(arr), _core.ravel(indices), 0
    axis = checked_axis("take_along_axis", axis, arr.ndim)
    shape = _fitted("take_along_axis", arr.shape, indices, axis)
    if arr.shape != shape:
        arr = _core.broadcast_to(arr, shape)
    wide = (*shape[:axis], indices.shape[axis], *shape[axis + 1 :])
    if indices.shape != wide:
        indices = _core.broadcast_to(indices, wide)
    return _core.take_along_axis(arr, indices, axis)


def put_along_axis(arr: ndarray, indices: Any, values: Any, axis: int | None) -> None:
    """Writes values into arr at indices along an axis, for each position along the others.

    Indices and values broadcast to arr's shape but for the axis; without one (None) arr counts as
    flattened. IndexError: out of range; that is waited for.
    """
    name = "put_along_axis"
    check_written(name, arr)
    indices = _indices(name, arr, indices)
    values = array_like(values, arr).astype(arr.dtype, copy=False)
    if axis is None:
        flat = arr.reshape(arr.size)
        put_along_axis(flat, _core.ravel(indices), values, 0)
        if not arr.is_contiguous:
            _core.copyto(arr, flat.reshape(arr.shape))
        return
    axis = checked_axis(name, axis, arr.ndim)
    if _fitted(name, arr.shape, indices, axis) != arr.shape:
        raise _core.DimensionError(
            f"[{name}] expects indices that broadcast to {arr.shape} but for axis {axis}, got "
            f"{indices.shape}"
        )
    wide = (*arr.shape[:axis], indices.shape[axis], *arr.shape[axis + 1 :])
    at = advanced_indexing.wrapped(indices, arr.shape[axis], name, f"axis {axis}")
    at = _core.moveaxis(_core.broadcast_to(at, wide), axis, 0)
    new = _core.moveaxis(_core.broadcast_to(values, wide), axis, 0)
    lanes = _core.moveaxis(arr, axis, 0)
    count = math.prod(lanes.shape[1:])
    lane = _core.arange(count, dtype="int64", device=arr.device)
    places = at.reshape(len(at), count) * count + lane
    flat = lanes.reshape(len(lanes) * count).copy()
    _core.index_put(flat, _core.ravel(places), _core.ravel(new))
    _core.copyto(lanes, flat.reshape(lanes.shape))


def choose(a: Any, choices: Any, mode: str = "raise") -> ndarray:
    """The element of choices[a[i]] at i, for each i; a and the choices broadcast.

    `mode` says what an index out of range does: 'raise' (ValueError; waits), 'wrap' or 'clip'.
    """
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"[choose] expects 'raise', 'wrap' or 'clip', got {mode!r}")
    a, *choices = arrays_like("choose", a, *choices)
    shape = np.broadcast_shapes(a.shape, *(c.shape for c in choices))
    stacked = _core.stack([_core.broadcast_to(c, shape) for c in choices])
    index = _core.broadcast_to(a.astype("int64", copy=False), shape)
    if mode == "wrap":
        index = _core.remainder(index, len(choices))
    elif mode == "clip":
        index = mathematics.clip(index, 0, len(choices) - 1)
    elif index.size and bool(_core.any(_core.logical_or(index < 0, index >= len(choices)))):
        raise ValueError(f"[choose] expects indices in [0, {len(choices)})")
    return _core.take_along_axis(stacked, index.reshape(1, *shape), 0)[0]


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> ndarray:
    """Of each element's choices the first whose condition holds, or the default.

    Raises:
      ValueError: the lists differ in length, or are empty.
      TypeError: a condition is not bool.
    """
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError(
            f"[select] expects as many conditions as choices, got {len(condlist)} and "
            f"{len(choicelist)}"
        )
    given = [v for v in (*condlist, *choicelist, default) if isinstance(v, _core.ndarray)]
    conditions = arrays_like("select", *condlist, *given)[: len(condlist)]
    for condition in conditions:
        if condition.dtype != np.bool_:
            raise TypeError(f"[select] expects bool conditions, got {condition.dtype}")
    result: Any = default
    for condition, choice in zip_strict(reversed(conditions), reversed(choicelist)):
        result = _core.where(condition, choice, result)
    return cast(ndarray, result)


def compress(condition: Any, a: Any, axis: int | None = None) -> ndarray:
    """The parts of a along an axis (flattened by default) for which a condition holds.

    Waits for a condition on a device. IndexError: the condition holds beyond the end.
    """
    a = array_beside("compress", a, condition)
    if axis is None:
        a, axis = _core.ravel(a), 0
    if isinstance(condition, _core.ndarray):
        condition = transfer.to_numpy(condition)
    condition = np.asarray(condition, bool)
    if condition.ndim != 1:
        raise ValueError(f"[compress] expects a condition of one dimension, got {condition.shape}")
    places = np.flatnonzero(condition)
    axis = checked_axis("compress", axis, a.ndim)
    if places.size and places[-1] >= a.shape[axis]:
        raise IndexError(f"[compress] index {places[-1]} is out of bounds for axis {axis}")
    return _core.take(a, creation.array(places, device=a.device), axis)


def put(a: ndarray, ind: Any, v: Any, mode: str = "raise") -> None:
    """a.flat[ind] = v, in place; values that are too few are repeated.

    `mode`: 'raise' (IndexError; an index on a device is waited for), 'wrap' or 'clip'.
    """
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"[put] expects 'raise', 'wrap' or 'clip', got {mode!r}")
    check_written("put", a)
    ind = (
        creation.asarray(ind, device=a.device)
        if isinstance(ind, _core.ndarray)
        else np.asarray(ind)
    )
    ind = ind.reshape(-1)
    if ind.size == 0:
        return
    if mode == "wrap":
        ind = ind % a.size
    elif mode == "clip":
        ind = (
            mathematics.clip(ind, 0, a.size - 1)
            if isinstance(ind, _core.ndarray)
            else ind.clip(0, a.size - 1)
        )
    values = manipulation.resize(array_like(v, a), (ind.size,)).astype(a.dtype, copy=False)
    flat = a.reshape(a.size)
    flat[ind] = values
    if not a.is_contiguous:
        _core.copyto(a, flat.reshape(a.shape))


def putmask(a: ndarray, mask: Any, values: Any) -> None:
    """Writes values, repeated to a's size, into a where a mask of its shape holds, in place."""
    check_written("putmask", a)
    new = manipulation.resize(array_like(values, a), a.shape).astype(a.dtype, copy=False)
    _core.copyto(a, _core.where(array_like(mask, a), new, a))


def place(arr: ndarray, mask: Any, vals: Any) -> None:
    """Writes the first values to the first places where a mask holds, and so on; they are repeated.

    ValueError: there are no values.
    """
    check_written("place", arr)
    vals = _core.ravel(array_like(vals, arr)).astype(arr.dtype, copy=False)
    mask = array_like(mask, arr).astype("bool", copy=False).reshape(arr.shape)
    if vals.size == 0:
        raise ValueError("[place] expects values, got none")
    number = _core.cumsum(mask).reshape(arr.shape) - 1
    new = _core.take(vals, _core.remainder(number, vals.size), 0)
    _core.copyto(arr, _core.where(mask, new, arr))


def fill_diagonal(a: ndarray, val: Any, wrap: bool = False) -> None:
    """Writes a value, or the elements of an array in turn, to a[i, i, ...], in place.

    With `wrap` the diagonal of a tall matrix goes on after a row is left out.
    """
    check_written("fill_diagonal", a)
    if a.ndim < 2 or (a.ndim > 2 and len(set(a.shape)) != 1):
        raise ValueError(f"[fill_diagonal] expects a matrix or equal axes, got shape {a.shape}")
    if a.ndim == 2:
        step = a.shape[1] + 1
        end = a.size if wrap else min(a.size, a.shape[1] * a.shape[1])
    else:
        step = 1 + sum(a.shape[0] ** i for i in range(1, a.ndim))
        end = a.size
    flat = a.reshape(a.size)
    diagonal = flat[:end:step]
    if not isinstance(val, _core.ndarray) and np.ndim(val) == 0:
        _core.copyto(diagonal, val)
    else:
        _core.copyto(diagonal, manipulation.resize(array_like(val, a), diagonal.shape))
    if not a.is_contiguous:
        _core.copyto(a, flat.reshape(a.shape))
