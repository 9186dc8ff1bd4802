"""NumPy's chapter "Sorting, searching and counting"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._numpy import index_arrays
from chx._numpy.arguments import array_beside, array_like, arrays_like, checked_axis

_KINDS = (None, "quicksort", "mergesort", "heapsort", "stable")


def _check_kind(name: str, kind: str | None) -> None:
    if kind not in _KINDS:
        kinds = ", ".join(map(repr, _KINDS))
        raise ValueError(f"[{name}] expects one of {kinds} as kind, got {kind!r}")


def sort(a: ndarray, axis: int | None = -1, kind: str | None = None) -> ndarray:
    """A sorted copy along an axis, NaNs last; flattened for None. Every `kind` is stable here."""
    _check_kind("sort", kind)
    return _core.sort(a, axis)


def argsort(a: ndarray, axis: int | None = -1, kind: str | None = None) -> ndarray:
    """The indices (int64) that sort along an axis. Every `kind` is stable here."""
    _check_kind("argsort", kind)
    return _core.argsort(a, axis)


def lexsort(keys: Any, axis: int = -1) -> ndarray:
    """The indices (int64) that sort by several keys: by the last one first, then by those before."""
    order: ndarray | None = None
    for key in arrays_like("lexsort", *keys):
        if order is None:
            order = _core.argsort(key, axis)
            continue
        next_order = _core.argsort(_core.take_along_axis(key, order, axis), axis)
        order = _core.take_along_axis(order, next_order, axis)
    assert order is not None
    return order


def _check_kth(name: str, kth: Any, size: int) -> None:
    for k in np.atleast_1d(kth):
        if not -size <= k < size:
            raise ValueError(f"[{name}] expects kth in [{-size}, {size}), got {k}")


def partition(a: ndarray, kth: int | Sequence[int], axis: int | None = -1) -> ndarray:
    """A copy in which the k-th element along an axis is where sorting would put it.

    Smaller ones come before it and the others after, in an order that here is the sorted one.
    """
    _check_kth(
        "partition",
        kth,
        a.size if axis is None else a.shape[checked_axis("partition", axis, a.ndim)],
    )
    return _core.sort(a, axis)


def argpartition(a: ndarray, kth: int | Sequence[int], axis: int | None = -1) -> ndarray:
    """The indices (int64) of a partition(), which here are those of sorting."""
    size = (
        a.size
        if axis is None or a.ndim == 0
        else a.shape[checked_axis("argpartition", axis, a.ndim)]
    )
    _check_kth("argpartition", kth, size)
    return _core.argsort(a, axis)


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> ndarray:
    """Where the elements of v go into the sorted a (1-d), as int64: before or after equal ones.

    `sorter` are indices that sort an a which is not sorted.
    """
    a = array_beside("searchsorted", a, v, sorter)
    if a.ndim != 1:
        raise _core.DimensionError(f"[searchsorted] expects one dimension, got shape {a.shape}")
    if sorter is not None:
        a = _core.take(a, array_like(sorter, a), 0)
    v = array_like(v, a)
    if side not in ("left", "right"):
        raise ValueError(f"[searchsorted] expects side 'left' or 'right', got {side!r}")
    flat = _core.ravel(v)
    parts = [flat, a] if side == "left" else [a, flat]
    start = 0 if side == "left" else a.size
    # Equal elements keep their order: a new one's place, less the new ones before it.
    order = _core.argsort(_core.concatenate(parts))
    is_new = _core.logical_and(order >= start, order < start + flat.size)
    new_before = _core.cumsum(is_new) - 1
    place = _core.argsort(order)[start : start + flat.size]
    return (place - _core.take(new_before, place, axis=0)).reshape(v.shape)


def flatnonzero(a: ndarray) -> ndarray:
    """Positions (int64) of the non-zero elements in C order. Waits for their number."""
    return _core.nonzero_positions(a, int(_core.count_nonzero(a)))


def argwhere(a: ndarray) -> ndarray:
    """The indices of the non-zero elements, (number, ndim). Waits for their number."""
    return _core.stack(list(index_arrays.nonzero(a)), axis=1)


def extract(condition: Any, arr: Any) -> ndarray:
    """The elements of arr, in C order, where a condition of its size holds. Waits for their number."""
    condition, arr = arrays_like("extract", condition, arr)
    if condition.size != arr.size:
        raise ValueError(f"[extract] expects {arr.size} conditions, got {condition.size}")
    return _core.take(_core.ravel(arr), flatnonzero(condition), 0)
