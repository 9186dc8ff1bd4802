"""Functions of NumPy that are made of a few operators: differences, searching, counting.

Gradients come from the operators. Those whose result's shape depends on values wait for them, and
say so.
"""

import numpy as np

import chx
from chx import _core
from chx._arranging import _axis, _like

# --- Differences -----------------------------------------------------------------------------------


def diff(a, n=1, axis=-1, prepend=None, append=None):
    """Differences of neighbours along an axis, n times; `prepend` and `append` are put around first:
    arrays, or a number along the axis.
    """
    if n < 0:
        raise ValueError(f"[diff] expects n from 0 on, got {n}")
    axis = _axis("diff", axis, a.ndim)
    if n and (prepend is not None or append is not None):
        shape = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
        parts = [a]
        for value, first in ((prepend, True), (append, False)):
            if value is None:
                continue
            if not isinstance(value, _core.ndarray):
                value = chx.array(np.asarray(value), a.dtype, device=a.device)
            value = _core.broadcast_to(value, shape) if value.ndim == 0 else value
            parts = [value, *parts] if first else [*parts, value]
        a = _core.concatenate(parts, axis)
    before = [slice(None)] * axis
    for _ in range(n):
        later, earlier = a[(*before, slice(1, None))], a[(*before, slice(None, -1))]
        a = _core.not_equal(later, earlier) if a.dtype == np.bool_ else later - earlier
    return a


# --- Searching and counting ----------------------------------------------------------------------


def array_equal(a1, a2, equal_nan=False):
    """Whether shapes and all elements are equal, as a bool. Waits for the answer."""
    a2 = _like(a2, a1)
    if a1.shape != a2.shape:
        return False
    same = _core.equal(a1, a2)
    if equal_nan:
        same = _core.logical_or(same, _core.logical_and(_core.isnan(a1), _core.isnan(a2)))
    return bool(_core.all(same))


def searchsorted(a, v, side="left", sorter=None):
    """Where the elements of v go into the sorted a (1-d), as int64: before or after equal ones.

    `sorter` are indices that sort an a which is not sorted.
    """
    if a.ndim != 1:
        raise _core.DimensionError(f"[searchsorted] expects one dimension, got shape {a.shape}")
    if sorter is not None:
        a = _core.take(a, _like(sorter, a), 0)
    v = _like(v, a)
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


def digitize(x, bins, right=False):
    """The number of the bin of each element: bins hold their lower edge, or with `right` the upper one.

    Bins increase or decrease; those on a device are waited for, to know which.

    Raises:
      ValueError: bins that do neither, or of another number of dimensions than one.
    """
    if not isinstance(bins, _core.ndarray):
        bins = np.asarray(bins)
    if bins.ndim != 1:
        raise ValueError(f"[digitize] expects bins of one dimension, got shape {bins.shape}")
    falls = _falls(bins)
    side = "left" if right else "right"
    if falls:
        return bins.size - searchsorted(_like(bins[::-1], x), x, side)
    return searchsorted(_like(bins, x), x, side)


def _falls(bins):
    """Whether bins decrease, which not all need to be equal for."""
    if bins.size < 2:
        return False
    later, earlier = bins[1:], bins[:-1]
    if isinstance(bins, _core.ndarray):
        answers = [_core.all(later >= earlier), _core.all(later <= earlier)]
        rises, falls = _core.stack(answers).tolist()
    else:
        rises, falls = (later >= earlier).all(), (later <= earlier).all()
    if not rises and not falls:
        raise ValueError("[digitize] expects bins that increase or decrease")
    return not rises


def bincount(x, weights=None, minlength=0):
    """How often each number from 0 on occurs, or the sum of its weights. Waits for the greatest.

    Raises:
      ValueError: there are negative numbers, or a negative minlength.
    """
    if x.ndim != 1 or x.dtype.kind not in "iub":
        raise TypeError(f"[bincount] expects integers of one dimension, got {x.dtype}{x.shape}")
    if minlength < 0:
        raise ValueError(f"[bincount] expects minlength from 0 on, got {minlength}")
    x = x.astype("int64") if x.dtype == np.bool_ else x
    size = minlength
    if x.size:
        if int(_core.amin(x)) < 0:
            raise ValueError("[bincount] expects numbers from 0 on")
        size = max(size, int(_core.amax(x)) + 1)
    if weights is None:
        weights = _core.ones(x.shape, "int64", device=x.device)
    return _core.take_along_axis_grad(_like(weights, x), x, [size], 0)


def histogram(a, bins=10, range=None, density=False, weights=None):
    """Counts in bins, and the edges: equal bins over a range, or those between given edges.

    Counts are int64, or sums of weights; with `density`, so that the integral is 1. Without a range
    it waits for it; edges on a device are trusted to increase.

    Raises:
      ValueError: no bins, edges that decrease, a range that is not finite or ends before it begins,
        or weights of another shape.
    """
    flat = _core.ravel(a)
    edges = _edges(flat, bins, range)
    x = flat.astype(edges.dtype, copy=False)
    count = edges.size - 1
    # The last bin holds its upper edge too.
    place = _core.minimum(searchsorted(edges, x, "right") - 1, count - 1)
    inside = _core.logical_and(x >= edges[0], x <= edges[-1])
    place = _core.where(inside, place, count)
    if weights is None:
        weights = _core.ones(x.shape, "int64", device=a.device)
    else:
        weights = _like(weights, a)
        if weights.shape != a.shape:
            raise ValueError(f"[histogram] expects weights of shape {a.shape}, got {weights.shape}")
    counts = _core.take_along_axis_grad(_core.ravel(weights), place, [count + 1], 0)[:count]
    if density:
        counts = counts / diff(edges) / _core.sum(counts)
    return counts, edges


def _edges(a, bins, range):
    if np.ndim(bins) == 1:
        if not isinstance(bins, _core.ndarray) and (np.diff(bins) < 0).any():
            raise ValueError(f"[histogram] expects edges that increase, got {bins}")
        edges = _like(bins, a)
        return edges if edges.dtype.kind == "f" else edges.astype("float64")
    if bins < 1:
        raise ValueError(f"[histogram] expects at least one bin, got {bins}")
    if range is None:
        low, high = (float(_core.amin(a)), float(_core.amax(a))) if a.size else (0.0, 1.0)
    else:
        low, high = map(float, range)
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise ValueError(f"[histogram] expects a finite range that rises, got ({low}, {high})")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return chx.array(np.linspace(low, high, bins + 1), device=a.device)


def unique(
    ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True
):
    """The sorted distinct elements, or parts along an axis, and where asked for, the first index of
    each, the number of each element's, and how often each occurs. Waits for how many there are.

    NaNs are one element with `equal_nan`; in parts along an axis they always differ, as in NumPy.
    """
    if axis is None:
        rows = _core.ravel(ar)
        order = _core.argsort(rows)
    else:
        axis = _axis("unique", axis, ar.ndim)
        rows = _core.moveaxis(ar, axis, 0)
        order = _order_of_rows(rows)
    ordered = _core.take(rows, order, axis=0)
    count = len(rows)
    first = _core.ones((count,), "bool", device=ar.device)
    if count > 1:
        differ = _core.not_equal(ordered[1:], ordered[:-1])
        if axis is not None:
            differ = _core.any(differ, list(range(1, rows.ndim))) if rows.ndim > 1 else differ
        elif equal_nan and rows.dtype.kind == "f":
            differ = _core.logical_and(differ, _core.logical_not(_core.isnan(ordered[:-1])))
        first[1:] = differ
    (starts,) = chx.nonzero(first)
    found = _core.take(ordered, starts, axis=0)
    results = [found if axis is None else _core.moveaxis(found, 0, axis)]
    if return_index:
        results.append(_core.take(order, starts, axis=0))
    if return_inverse:
        numbers = _core.cumsum(first) - 1
        results.append(_core.take(numbers, _core.argsort(order), axis=0))
    if return_counts:
        end = chx.array([count], "int64", device=ar.device)
        results.append(diff(_core.concatenate([starts, end])))
    return results[0] if len(results) == 1 else tuple(results)


def _order_of_rows(rows):
    """What sorts the parts along axis 0 by their first elements, then by those after."""
    size = int(np.prod(rows.shape[1:], dtype=np.int64))
    if size == 0:
        return _core.arange(len(rows), dtype="int64", device=rows.device)
    columns = rows.reshape(len(rows), size).T
    return chx.lexsort([columns[i] for i in range(size - 1, -1, -1)])


def flatnonzero(a):
    """Positions (int64) of the non-zero elements in C order. Waits for their number."""
    return _core.nonzero_positions(a, int(_core.count_nonzero(a)))


def argwhere(a):
    """The indices of the non-zero elements, (number, ndim). Waits for their number."""
    return _core.stack(list(chx.nonzero(a)), axis=1)
