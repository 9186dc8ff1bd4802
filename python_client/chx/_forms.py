"""Operators in the further forms that NumPy has: more arguments, numbers and lists where the operator
takes arrays. What the operator takes is passed on to it as it is.
"""

import math
import operator

import numpy as np

from chx import _averages, _core, _indexing
from chx._along import take_along_axis  # noqa: F401
from chx._arranging import _axis, _like

_KINDS = (None, "quicksort", "mergesort", "heapsort", "stable")


def _pair(name, a, b):
    """Both as arrays, on the device of the one that is."""
    if not isinstance(a, _core.ndarray) and not isinstance(b, _core.ndarray):
        raise TypeError(f"[{name}] expects at least one array")
    return (_like(a, b), b) if isinstance(b, _core.ndarray) else (a, _like(b, a))


# --- Comparing and choosing ------------------------------------------------------------------------


def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether |a - b| <= atol + rtol * |b|, as bool."""
    return _core.isclose(*_pair("isclose", a, b), rtol, atol, equal_nan)


def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all elements are close, as a bool array of shape ()."""
    return _core.allclose(*_pair("allclose", a, b), rtol, atol, equal_nan)


def where(condition, x=None, y=None):
    """x where a condition holds, else y; without them nonzero(), which waits."""
    if x is None and y is None:
        return _indexing.nonzero(condition)
    if x is None or y is None:
        raise ValueError("[where] expects both x and y, or neither")
    if not isinstance(condition, _core.ndarray):
        array = next((a for a in (x, y) if isinstance(a, _core.ndarray)), None)
        condition = condition if array is None else _like(condition, array)
    x, y = (
        _like(v, condition) if isinstance(v, (list, tuple, np.ndarray)) and np.ndim(v) else v
        for v in (x, y)
    )
    return _core.where(condition, x, y)


# --- Shapes ----------------------------------------------------------------------------------------


def _each(convert, arrays):
    results = [convert(a) for a in arrays]
    return results[0] if len(results) == 1 else results


def atleast_1d(*arys):
    """Arrays with at least one dimension: a list of them if there are several."""
    return _each(_core.atleast_1d, arys)


def atleast_2d(*arys):
    """Arrays with at least two dimensions, new ones in front: a list of them if there are several."""
    return _each(_core.atleast_2d, arys)


def atleast_3d(*arys):
    """Arrays with at least three dimensions: a list of them if there are several."""
    return _each(_core.atleast_3d, arys)


def expand_dims(a, axis):
    """A view with new axes of size 1 at the places that they have in the result."""
    if not isinstance(axis, (tuple, list)):
        return _core.expand_dims(a, axis)
    ndim = a.ndim + len(axis)
    axes = [_axis("expand_dims", i, ndim) for i in axis]
    if len(set(axes)) != len(axes):
        raise ValueError(f"[expand_dims] expects each axis once, got {axis}")
    return a[tuple(None if i in axes else slice(None) for i in range(ndim))]


def flip(m, axes=None, *, axis=None):
    """The elements in reverse order along axes, by default all. A view. NumPy says `axis`."""
    if axes is not None and axis is not None:
        raise TypeError("[flip] expects axes or axis, got both")
    return _core.flip(m, axis if axes is None else axes)


def roll(a, shift, axis=None):
    """The elements moved along axes, those beyond the end to the front; flattened without an axis.

    Several shifts, several axes or both; shifts along one axis add up.
    """
    if not isinstance(shift, (tuple, list, np.ndarray)) and not isinstance(axis, (tuple, list)):
        return _core.roll(a, shift, axis)
    shifts = [operator.index(n) for n in np.atleast_1d(shift)]
    if axis is None:
        return _core.roll(a, sum(shifts))
    axes = [_axis("roll", operator.index(i), a.ndim) for i in np.atleast_1d(axis)]
    if len(shifts) != len(axes) and 1 not in (len(shifts), len(axes)):
        raise ValueError(f"[roll] expects one shift, or one for each axis, got {shift} for {axis}")
    count = max(len(shifts), len(axes)) if shifts and axes else 0
    along = {}
    for n, i in zip(shifts * (count // len(shifts or [0])), axes * count, strict=False):
        along[i] = along.get(i, 0) + n
    return _core.roll(a, list(along.values()), list(along)) if along else _core.copy(a)


# --- Orders and sums -------------------------------------------------------------------------------


def _check_kind(name, kind):
    if kind not in _KINDS:
        kinds = ", ".join(map(repr, _KINDS))
        raise ValueError(f"[{name}] expects one of {kinds} as kind, got {kind!r}")


def sort(a, axis=-1, kind=None):
    """A sorted copy along an axis, NaNs last; flattened for None. Every `kind` is stable here."""
    _check_kind("sort", kind)
    return _core.sort(a, axis)


def argsort(a, axis=-1, kind=None):
    """The indices (int64) that sort along an axis. Every `kind` is stable here."""
    _check_kind("argsort", kind)
    return _core.argsort(a, axis)


def trace(a, offset=0, axis1=0, axis2=1, dtype=None):
    """The sum along a diagonal of two axes, of a dtype if one is given."""
    if dtype is None:
        return _core.trace(a, offset, axis1, axis2)
    return _core.sum(_core.diagonal(a, offset, axis1, axis2), -1, dtype=dtype)


def nancumsum(a, axis=None, dtype=None):
    """cumsum() in which NaNs count as 0."""
    return _core.cumsum(_replaced(a, 0), axis, dtype)


def nancumprod(a, axis=None, dtype=None):
    """cumprod() in which NaNs count as 1."""
    return _core.cumprod(_replaced(a, 1), axis, dtype)


def _replaced(a, value):
    return _core.where(_core.isnan(a), value, a) if a.dtype.kind == "f" else a


def median(a, axis=None, keepdims=False):
    """The median along axes: of an even number, the mean of both middle ones; NaN if there is one."""
    if isinstance(axis, (tuple, list)):
        return _averages.median_along("median", a, axis, keepdims)
    return _core.median(a, axis, keepdims)


def var(a, axis=None, keepdims=False, ddof=0, dtype=None):
    """The variance along axes: squared differences from the mean over the number less `ddof`.

    `ddof` may be a fraction. As NumPy's, it is infinite, or NaN where nothing differs, if that leaves
    nothing.
    """
    whole, share = _taken_off("var", a, axis, ddof)
    result = _core.var(a, axis, keepdims, whole, dtype)
    return result if share is None else result * share


def std(a, axis=None, keepdims=False, ddof=0, dtype=None):
    """The square root of var()."""
    whole, share = _taken_off("std", a, axis, ddof)
    result = _core.std(a, axis, keepdims, whole, dtype)
    return result if share is None else result * math.sqrt(share)


def _taken_off(name, a, axis, ddof):
    """What the operator takes off the number, and what else its variance is multiplied with."""
    if ddof == 0:
        return 0, None
    count = a.size
    if axis is not None:
        axes = axis if isinstance(axis, (tuple, list)) else (axis,)
        count = math.prod(a.shape[_axis(name, operator.index(i), a.ndim)] for i in axes)
    if ddof >= count:
        return 0, math.inf  # 0 * inf is NumPy's 0 / 0
    return (int(ddof), None) if ddof == int(ddof) else (0, count / (count - ddof))
