"""NumPy's chapter "Set routines". Results whose size depends on values are waited for."""

from __future__ import annotations

from typing import Any

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._numpy import calculus, creation, index_arrays, mathematics, sorting
from chx._numpy.arguments import array_beside, arrays_like, checked_axis
from chx._types import is_float


def unique(
    ar: ndarray,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
) -> Any:
    """The sorted distinct elements, or parts along an axis, and where asked for, the first index of
    each, the number of each element's, and how often each occurs. Waits for how many there are.

    NaNs are one element with `equal_nan`; in parts along an axis they always differ, as in NumPy.
    """
    if axis is None:
        rows = _core.ravel(ar)
        order = _core.argsort(rows)
    else:
        axis = checked_axis("unique", axis, ar.ndim)
        rows = _core.moveaxis(ar, axis, 0)
        order = _order_of_rows(rows)
    ordered = _core.take(rows, order, axis=0)
    count = len(rows)
    first = _core.ones((count,), "bool", device=ar.device)
    if count > 1:
        differ = _core.not_equal(ordered[1:], ordered[:-1])
        if axis is not None:
            differ = _core.any(differ, list(range(1, rows.ndim))) if rows.ndim > 1 else differ
        elif equal_nan and is_float(rows.dtype):
            differ = _core.logical_and(differ, _core.logical_not(_core.isnan(ordered[:-1])))
        first[1:] = differ
    (starts,) = index_arrays.nonzero(first)
    found = _core.take(ordered, starts, axis=0)
    results = [found if axis is None else _core.moveaxis(found, 0, axis)]
    if return_index:
        results.append(_core.take(order, starts, axis=0))
    if return_inverse:
        numbers = _core.cumsum(first) - 1
        results.append(_core.take(numbers, _core.argsort(order), axis=0))
    if return_counts:
        end = creation.array([count], "int64", device=ar.device)
        results.append(calculus.diff(_core.concatenate([starts, end])))
    return results[0] if len(results) == 1 else tuple(results)


def _order_of_rows(rows: ndarray) -> ndarray:
    """What sorts the parts along axis 0 by their first elements, then by those after."""
    size = int(np.prod(rows.shape[1:], dtype=np.int64))
    if size == 0:
        return _core.arange(len(rows), dtype="int64", device=rows.device)
    columns = rows.reshape(len(rows), size).T
    return sorting.lexsort([columns[i] for i in range(size - 1, -1, -1)])


def in1d(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False) -> ndarray:
    """Whether each element of the flattened ar1 is in ar2 (or is not, with `invert`), as bool."""
    ar1, ar2 = arrays_like("in1d", ar1, ar2)
    flat, others = _core.ravel(ar1), _core.ravel(ar2)
    if others.size == 0:
        return _core.full(flat.shape, bool(invert), "bool", device=ar1.device)
    dtype = np.promote_types(flat.dtype, others.dtype)
    flat, others = flat.astype(dtype, copy=False), others.astype(dtype, copy=False)
    ordered = _core.sort(others)
    place = mathematics.clip(sorting.searchsorted(ordered, flat), 0, others.size - 1)
    found = _core.take(ordered, place, 0)
    return _core.not_equal(found, flat) if invert else _core.equal(found, flat)


def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False
) -> ndarray:
    """Whether each element is in another array (or is not, with `invert`), as bool of its shape."""
    element = array_beside("isin", element, test_elements)
    return in1d(element, test_elements, assume_unique, invert).reshape(element.shape)


def union1d(ar1: Any, ar2: Any) -> ndarray:
    """The sorted distinct elements of both."""
    ar1, ar2 = arrays_like("union1d", ar1, ar2)
    result: ndarray = unique(_core.concatenate([_core.ravel(ar1), _core.ravel(ar2)], 0))
    return result


def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """The sorted distinct elements that are in both; with `return_indices` also the first place of
    each in either.
    """
    ar1, ar2 = arrays_like("intersect1d", ar1, ar2)
    if not return_indices:
        first = unique(ar1)
        return first[in1d(first, ar2)]
    first, place1 = unique(ar1, return_index=True)
    second, place2 = unique(ar2, return_index=True)
    in_both, in_second = in1d(first, second), in1d(second, first)
    return first[in_both], place1[in_both], place2[in_second]


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> ndarray:
    """The sorted distinct elements of ar1 that are not in ar2; in ar1's order if it is unique."""
    ar1 = array_beside("setdiff1d", ar1, ar2)
    first = _core.ravel(ar1) if assume_unique else unique(ar1)
    result: ndarray = first[in1d(first, ar2, invert=True)]
    return result


def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> ndarray:
    """The sorted distinct elements that are in exactly one of both."""
    ar1, ar2 = arrays_like("setxor1d", ar1, ar2)
    first, second = unique(ar1), unique(ar2)
    only = [first[in1d(first, second, invert=True)], second[in1d(second, first, invert=True)]]
    return _core.sort(_core.concatenate(only, 0))
