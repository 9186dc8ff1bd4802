"""Histograms and other counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._numpy import calculus, creation, sorting
from chx._numpy.arguments import array_beside, array_like
from chx._types import is_float


def histogram(
    a: Any,
    bins: Any = 10,
    range: tuple[float, float] | None = None,
    density: bool = False,
    weights: Any = None,
) -> tuple[ndarray, ndarray]:
    """Counts in bins, and the edges: equal bins over a range, or those between given edges.

    Counts are int64, or sums of weights; with `density`, so that the integral is 1. Without a range
    it waits for it; edges on a device are trusted to increase.

    Raises:
      ValueError: no bins, edges that decrease, a range that is not finite or ends before it begins,
        or weights of another shape.
    """
    a = array_beside("histogram", a, bins, weights)
    flat = _core.ravel(a)
    edges = _edges(flat, bins, range)
    x = flat.astype(edges.dtype, copy=False)
    count = edges.size - 1
    # The last bin holds its upper edge too.
    place = _core.minimum(sorting.searchsorted(edges, x, "right") - 1, count - 1)
    inside = _core.logical_and(x >= edges[0], x <= edges[-1])
    place = _core.where(inside, place, count)
    if weights is None:
        weights = _core.ones(x.shape, "int64", device=a.device)
    else:
        weights = array_like(weights, a)
        if weights.shape != a.shape:
            raise ValueError(f"[histogram] expects weights of shape {a.shape}, got {weights.shape}")
    counts = _core.take_along_axis_grad(_core.ravel(weights), place, [count + 1], 0)[:count]
    if density:
        counts = counts / calculus.diff(edges) / _core.sum(counts)
    return counts, edges


def _edges(a: ndarray, bins: Any, range: tuple[float, float] | None) -> ndarray:
    if np.ndim(bins) == 1:
        if not isinstance(bins, _core.ndarray) and (np.diff(bins) < 0).any():
            raise ValueError(f"[histogram] expects edges that increase, got {bins}")
        edges = array_like(bins, a)
        return edges if is_float(edges.dtype) else edges.astype("float64")
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
    return creation.array(np.linspace(low, high, bins + 1), device=a.device)


def digitize(x: Any, bins: Any, right: bool = False) -> ndarray:
    """The number of the bin of each element: bins hold their lower edge, or with `right` the upper one.

    Bins increase or decrease; those on a device are waited for, to know which.

    Raises:
      ValueError: bins that do neither, or of another number of dimensions than one.
    """
    x = array_beside("digitize", x, bins)
    if not isinstance(bins, _core.ndarray):
        bins = np.asarray(bins)
    if bins.ndim != 1:
        raise ValueError(f"[digitize] expects bins of one dimension, got shape {bins.shape}")
    falls = _falls(bins)
    side = "left" if right else "right"
    if falls:
        result: ndarray = bins.size - sorting.searchsorted(array_like(bins[::-1], x), x, side)
        return result
    return sorting.searchsorted(array_like(bins, x), x, side)


def _falls(bins: Any) -> bool:
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


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> ndarray:
    """How often each number from 0 on occurs, or the sum of its weights. Waits for the greatest.

    Raises:
      ValueError: there are negative numbers, or a negative minlength.
    """
    x = array_beside("bincount", x, weights)
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
    return _core.take_along_axis_grad(array_like(weights, x), x, [size], 0)
