"""Functions over axes: sums and means, searching, sorting, sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from chx import _core
from chx._core import ndarray
from chx._numpy import calculus, index_arrays, sorting
from chx._types import Axis, Dtype
from chx.array_api import _dtypes
from chx.array_api._manipulation import _axis


def _accumulated(function: Callable[..., ndarray], x: ndarray, dtype: Any, *args: Any) -> ndarray:
    """A sum or product; in a dtype if one is named. Integers are int64 otherwise."""
    if dtype is not None:
        dtype = _dtypes.dtype_of(dtype)
        x = x.astype(dtype, copy=False)
    result = function(x, *args)
    return result if dtype is None else result.astype(dtype, copy=False)


def _running(
    name: str,
    function: Callable[..., ndarray],
    x: ndarray,
    axis: int | None,
    dtype: Any,
    include_initial: bool,
    initial: int,
) -> ndarray:
    if axis is None and x.ndim != 1:
        raise ValueError(f"[{name}] expects an axis of an array of shape {x.shape}")
    axis = _axis(name, 0 if axis is None else axis, x.ndim)
    result = _accumulated(function, x, dtype, axis)
    if not include_initial:
        return result
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    first = _core.full(shape, initial, result.dtype, x.device)
    return _core.concatenate([first, result], axis)


def cumulative_sum(
    x: ndarray,
    /,
    *,
    axis: int | None = None,
    dtype: Dtype | None = None,
    include_initial: bool = False,
) -> ndarray:
    """Sums of the elements so far along an axis, after a zero if `include_initial`.

    Raises:
      ValueError: the axis is left out of an array that is not one-dimensional.
    """
    return _running("cumulative_sum", _core.cumsum, x, axis, dtype, include_initial, 0)


def cumulative_prod(
    x: ndarray,
    /,
    *,
    axis: int | None = None,
    dtype: Dtype | None = None,
    include_initial: bool = False,
) -> ndarray:
    """Products of the elements so far along an axis, after a one if `include_initial`.

    Raises:
      ValueError: the axis is left out of an array that is not one-dimensional.
    """
    return _running("cumulative_prod", _core.cumprod, x, axis, dtype, include_initial, 1)


def max(x: ndarray, /, *, axis: Axis = None, keepdims: bool = False) -> ndarray:
    """The greatest elements; NaN if one is. DimensionError if there are none."""
    return _core.amax(x, axis, keepdims)


def mean(x: ndarray, /, *, axis: Axis = None, keepdims: bool = False) -> ndarray:
    """The arithmetic mean; of no elements, NaN."""
    return _core.mean(x, axis, keepdims)


def min(x: ndarray, /, *, axis: Axis = None, keepdims: bool = False) -> ndarray:
    """The smallest elements; NaN if one is. DimensionError if there are none."""
    return _core.amin(x, axis, keepdims)


def prod(
    x: ndarray, /, *, axis: Axis = None, dtype: Dtype | None = None, keepdims: bool = False
) -> ndarray:
    """The product, of integers as int64 unless a dtype is named; of no elements, 1."""
    return _accumulated(_core.prod, x, dtype, axis, keepdims)


def sum(
    x: ndarray, /, *, axis: Axis = None, dtype: Dtype | None = None, keepdims: bool = False
) -> ndarray:
    """The sum, of integers as int64 unless a dtype is named; of no elements, 0."""
    return _accumulated(_core.sum, x, dtype, axis, keepdims)


def var(
    x: ndarray, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> ndarray:
    """The mean squared distance to the mean, with the number of elements less `correction`."""
    if correction == int(correction):
        return _core.var(x, axis, keepdims, int(correction))
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    count = 1
    for a in axes:
        count *= x.shape[a]
    # As a product, a count that is equal to the correction gives infinity or NaN.
    return _core.var(x, axis, keepdims) * count / (count - correction)


def std(
    x: ndarray, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> ndarray:
    """The square root of var()."""
    return _core.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def all(x: ndarray, /, *, axis: Axis = None, keepdims: bool = False) -> ndarray:
    """Whether all elements are true, or not zero; of none, True."""
    return _core.all(x, axis, keepdims)


def any(x: ndarray, /, *, axis: Axis = None, keepdims: bool = False) -> ndarray:
    """Whether some element is true, or not zero; of none, False."""
    return _core.any(x, axis, keepdims)


def _where_greatest(
    function: Callable[..., ndarray], x: ndarray, axis: int | None, keepdims: bool
) -> ndarray:
    result = function(x, axis)
    if not keepdims:
        return result
    kept = [1] * x.ndim if axis is None else [*x.shape]
    if axis is not None:
        kept[axis] = 1
    return result.reshape(kept)


def argmax(x: ndarray, /, *, axis: int | None = None, keepdims: bool = False) -> ndarray:
    """The index (int64) of the first greatest element, along an axis or of the flattened array."""
    return _where_greatest(_core.argmax, x, axis, keepdims)


def argmin(x: ndarray, /, *, axis: int | None = None, keepdims: bool = False) -> ndarray:
    """The index (int64) of the first smallest element, along an axis or of the flattened array."""
    return _where_greatest(_core.argmin, x, axis, keepdims)


def count_nonzero(x: ndarray, /, *, axis: Axis = None, keepdims: bool = False) -> ndarray:
    """How many elements are not zero, as int64."""
    return _core.count_nonzero(x, axis, keepdims)


def nonzero(x: ndarray, /) -> tuple[ndarray, ...]:
    """Indices (int64) of the elements that are not zero, an array for each axis. Waits.

    Raises:
      DimensionError: the array has no dimensions.
    """
    return index_arrays.nonzero(x)


def searchsorted(
    x1: ndarray,
    x2: ndarray,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: ndarray | None = None,
) -> ndarray:
    """Where the elements of x2 go into the sorted x1 (1-d), as int64; `sorter` would sort x1.

    Raises:
      ValueError: the side is not 'left' or 'right'.
    """
    if sorter is not None:
        x1 = _core.take(x1, sorter, 0)
    return sorting.searchsorted(x1, x2, side)


def argsort(
    x: ndarray, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> ndarray:
    """The indices (int64) that sort along an axis. Equal elements keep their order in any case."""
    axis = _axis("argsort", axis, x.ndim)
    if not descending:
        return _core.argsort(x, axis)
    # From behind, so that those that are equal keep their order.
    backwards = _core.argsort(_core.flip(x, axis), axis)
    return x.shape[axis] - 1 - _core.flip(backwards, axis)


def sort(
    x: ndarray, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> ndarray:
    """The elements sorted along an axis, NaNs last; first if `descending`."""
    axis = _axis("sort", axis, x.ndim)
    ordered = _core.sort(x, axis)
    return _core.flip(ordered, axis) if descending else ordered


class UniqueAll(NamedTuple):
    """What unique_all() gives."""

    values: ndarray
    indices: ndarray
    inverse_indices: ndarray
    counts: ndarray


class UniqueCounts(NamedTuple):
    """What unique_counts() gives."""

    values: ndarray
    counts: ndarray


class UniqueInverse(NamedTuple):
    """What unique_inverse() gives."""

    values: ndarray
    inverse_indices: ndarray


def unique_all(x: ndarray, /) -> UniqueAll:
    """The distinct elements in order, where each is first, the place of each of x's, and counts.

    NaNs are not equal, so each is one of the values. Indices and counts are int64. Waits for how
    many there are.
    """
    flat = _core.ravel(x)
    order = _core.argsort(flat)
    ordered = _core.take(flat, order, 0)
    first = _core.ones(flat.shape, "bool", x.device)
    if flat.size > 1:
        first[1:] = _core.not_equal(ordered[1:], ordered[:-1])
    (starts,) = index_arrays.nonzero(first)
    numbers = _core.cumsum(first) - 1
    inverse = _core.take(numbers, _core.argsort(order), 0).reshape(x.shape)
    end = _core.full((1,), flat.size, "int64", x.device)
    counts = calculus.diff(_core.concatenate([starts, end]))
    return UniqueAll(_core.take(ordered, starts, 0), _core.take(order, starts, 0), inverse, counts)


def unique_counts(x: ndarray, /) -> UniqueCounts:
    """The distinct elements in order and how often each occurs: see unique_all()."""
    result = unique_all(x)
    return UniqueCounts(result.values, result.counts)


def unique_inverse(x: ndarray, /) -> UniqueInverse:
    """The distinct elements in order and the place of each of x's: see unique_all()."""
    result = unique_all(x)
    return UniqueInverse(result.values, result.inverse_indices)


def unique_values(x: ndarray, /) -> ndarray:
    """The distinct elements in order: see unique_all()."""
    return unique_all(x).values
