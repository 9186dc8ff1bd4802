"""NumPy's chapter "Statistics"; histograms are in histograms.py. Gradients come from the operators."""

from __future__ import annotations

import builtins
import math
import operator
from typing import Any

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._numpy import creation, mathematics, quantile_methods
from chx._numpy.arguments import array_beside, array_like, arrays_like, checked_axis
from chx._types import DtypeLike, NumpyArray, Shape, is_float


def quantile(
    a: ndarray, q: Any, axis: Any = None, keepdims: bool = False, *, method: str = "linear"
) -> ndarray:
    """The values below which a fraction q of the elements along axes lies; NaN where there is a NaN.

    q's dimensions come first in the result. `method` says what is between two elements: 'linear'
    interpolation, 'lower', 'higher', 'nearest', 'midpoint', or another one of numpy.quantile's.
    Integers give float64.

    Raises:
      ValueError: q is not in [0, 1], or an unknown method.
    """
    a = array_beside("quantile", a, q)
    return _quantiles("quantile", a, np.asarray(q, np.float64), axis, keepdims, method, False)


def percentile(
    a: ndarray, q: Any, axis: Any = None, keepdims: bool = False, *, method: str = "linear"
) -> ndarray:
    """quantile() for q from 0 to 100."""
    a = array_beside("percentile", a, q)
    return _quantiles(
        "percentile", a, np.asarray(q, np.float64) / 100, axis, keepdims, method, False
    )


def nanquantile(
    a: ndarray, q: Any, axis: Any = None, keepdims: bool = False, *, method: str = "linear"
) -> ndarray:
    """quantile() of what is not NaN; NaN if there is nothing else."""
    return _quantiles("nanquantile", a, np.asarray(q, np.float64), axis, keepdims, method, True)


def nanpercentile(
    a: ndarray, q: Any, axis: Any = None, keepdims: bool = False, *, method: str = "linear"
) -> ndarray:
    """percentile() of what is not NaN; NaN if there is nothing else."""
    q = np.asarray(q, np.float64) / 100
    return _quantiles("nanpercentile", a, q, axis, keepdims, method, True)


def median(a: ndarray, axis: Any = None, keepdims: bool = False) -> ndarray:
    """The median along axes: of an even number, the mean of both middle ones; NaN if there is one.

    Bool and integers give float32, as operators do.
    """
    if isinstance(axis, (tuple, list)):
        if not is_float(a.dtype):
            a = a.astype("float32")
        return _quantiles("median", a, np.asarray(0.5), axis, keepdims, "linear", False)
    return _core.median(a, axis, keepdims)


def nanmedian(a: ndarray, axis: Any = None, keepdims: bool = False) -> ndarray:
    """The median along axes of what is not NaN; NaN if there is nothing else."""
    return _quantiles("nanmedian", a, np.asarray(0.5), axis, keepdims, "linear", True)


def _lanes(name: str, a: ndarray, axis: Any) -> tuple[ndarray, Shape]:
    """The array with the axes in front, made one, and the shape with ones in their places."""
    if axis is None:
        axes = list(range(a.ndim))
    else:
        axes = [checked_axis(name, int(i), a.ndim) for i in np.atleast_1d(axis)]
        if len(set(axes)) != len(axes):
            raise ValueError(f"[{name}] expects each axis once, got {axis}")
    rest = [i for i in range(a.ndim) if i not in axes]
    kept = tuple(1 if i in axes else n for i, n in enumerate(a.shape))
    size = int(np.prod([a.shape[i] for i in axes], dtype=np.int64))
    return a.transpose(axes + rest).reshape(size, *(a.shape[i] for i in rest)), kept


def _quantiles(
    name: str, a: ndarray, q: NumpyArray, axis: Any, keepdims: bool, method: str, ignore_nan: bool
) -> ndarray:
    if not ((q >= 0) & (q <= 1)).all():
        raise ValueError(f"[{name}] expects fractions of the whole, got {q.tolist()}")
    if method not in quantile_methods.METHODS:
        raise ValueError(
            f"[{name}] expects one of {', '.join(quantile_methods.METHODS)}, got {method!r}"
        )
    if not is_float(a.dtype):
        a = a.astype("float64")
    lanes, kept = _lanes(name, a, axis)
    shape = q.shape + (kept if keepdims else lanes.shape[1:])
    if a.size == 0 and (ignore_nan or name == "median" or len(lanes) > 0):
        return _core.full(shape, np.nan, a.dtype, device=a.device)
    if len(lanes) == 0:
        raise _core.DimensionError(f"[{name}] expects elements, got shape {a.shape}")
    ordered = _core.sort(lanes, 0)
    nan = _core.isnan(ordered)
    if ignore_nan:
        result = _of_each_lane(ordered, nan, q, method)
    else:
        place = quantile_methods.places(np, np.float64(len(lanes)), q, method)
        low = np.floor(place).astype(np.int64)
        weight = creation.array(place - low, ordered.dtype, device=a.device)
        above = ordered[np.minimum(low + 1, len(lanes) - 1)]
        weight = weight.reshape(q.shape + (1,) * (ordered.ndim - 1))
        result = _between(ordered[low], above, weight)
        result = _core.where(nan[-1], np.nan, result)
    return result.reshape(shape)


def _between(below: ndarray, above: ndarray, weight: ndarray) -> ndarray:
    """The line between two elements. From an infinite one it goes nowhere, unless to the other one."""
    stays = _core.logical_and(_core.isinf(below), _core.not_equal(above, -below))
    stays = _core.logical_or(_core.equal(weight, 0), stays)
    return _core.where(stays, below, below + (above - below) * weight)


def _of_each_lane(ordered: ndarray, nan: ndarray, q: NumpyArray, method: str) -> ndarray:
    """Where lanes have different numbers of elements before the NaNs."""
    count = _core.sum(_core.logical_not(nan), 0).astype("float64")
    fractions = creation.array(q, "float64", device=ordered.device)
    fractions = fractions.reshape(q.shape + (1,) * count.ndim)
    place = quantile_methods.places(_core, count, fractions, method).reshape(q.size, *count.shape)
    low = _core.floor(place)
    at = low.astype("int64")
    above = _core.minimum(at + 1, _core.maximum(count - 1, 0).astype("int64"))
    y0 = _core.take_along_axis(ordered, at, 0)
    y1 = _core.take_along_axis(ordered, above, 0)
    result = _between(y0, y1, (place - low).astype(ordered.dtype))
    return _core.where(_core.equal(count, 0), np.nan, result).reshape(q.shape + count.shape)


def average(
    a: Any,
    axis: Any = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """The mean along axes, weighted if there are weights: of a's shape, or of one axis's length.

    With `returned`, also the sum of the weights, in the mean's shape.

    Raises:
      ValueError: the weights are of another shape.
    """
    a = array_beside("average", a, weights)
    if axis is not None:
        for i in np.atleast_1d(axis):
            checked_axis("average", int(i), a.ndim)
    if weights is None:
        mean = _core.mean(a, axis, keepdims)
        total = _core.full(
            mean.shape, a.size / builtins.max(mean.size, 1), mean.dtype, device=a.device
        )
        return (mean, total) if returned else mean
    a, weights = arrays_like("average", a, weights)
    if weights.shape != a.shape:
        if weights.ndim != 1 or not isinstance(axis, (int, np.integer)):
            raise ValueError(f"[average] expects weights of shape {a.shape}, got {weights.shape}")
        normal = checked_axis("average", int(axis), a.ndim)
        if weights.size != a.shape[normal]:
            raise ValueError(f"[average] expects {a.shape[normal]} weights, got {weights.size}")
        weights = weights.reshape([-1 if i == normal else 1 for i in range(a.ndim)])
        weights = _core.broadcast_to(weights, a.shape)
    if not is_float(a.dtype) and not is_float(weights.dtype):
        a, weights = a.astype("float64"), weights.astype("float64")  # products might not fit
    total = _core.sum(weights, axis, keepdims)
    mean = _core.sum(a * weights, axis, keepdims) / total
    return (mean, total) if returned else mean


def var(
    a: ndarray,
    axis: Any = None,
    keepdims: bool = False,
    ddof: float = 0,
    dtype: DtypeLike | None = None,
) -> ndarray:
    """The variance along axes: squared differences from the mean over the number less `ddof`.

    `ddof` may be a fraction. As NumPy's, it is infinite, or NaN where nothing differs, if that leaves
    nothing.
    """
    whole, share = _taken_off("var", a, axis, ddof)
    result = _core.var(a, axis, keepdims, whole, dtype)
    return result if share is None else result * share


def std(
    a: ndarray,
    axis: Any = None,
    keepdims: bool = False,
    ddof: float = 0,
    dtype: DtypeLike | None = None,
) -> ndarray:
    """The square root of var()."""
    whole, share = _taken_off("std", a, axis, ddof)
    result = _core.std(a, axis, keepdims, whole, dtype)
    return result if share is None else result * math.sqrt(share)


def _taken_off(name: str, a: ndarray, axis: Any, ddof: float) -> tuple[int, float | None]:
    """What the operator takes off the number, and what else its variance is multiplied with."""
    if ddof == 0:
        return 0, None
    count = a.size
    if axis is not None:
        axes = axis if isinstance(axis, (tuple, list)) else (axis,)
        count = math.prod(a.shape[checked_axis(name, operator.index(i), a.ndim)] for i in axes)
    if ddof >= count:
        return 0, math.inf  # 0 * inf is NumPy's 0 / 0
    return (int(ddof), None) if ddof == int(ddof) else (0, count / (count - ddof))


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
) -> ndarray:
    """The covariance matrix of variables (rows; columns without `rowvar`) over observations.

    `y` has further variables; `ddof` is taken off the count (default 1, or 0 with `bias`);
    `fweights` are how often observations occurred, `aweights` how much they count. Integers give
    float64.

    Raises:
      ValueError: more than two dimensions, or weights that don't fit.
    """
    m = array_beside("cov", m, y, fweights, aweights)
    x = _variables(m, rowvar)
    if y is not None:
        x = _core.concatenate([x, _variables(array_like(y, m), rowvar)], 0)
    count = x.shape[1]
    ddof = (0 if bias else 1) if ddof is None else ddof
    weights = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        given = array_like(given, m)
        if given.shape != (count,):
            raise ValueError(f"[cov] expects {count} {name}, got shape {given.shape}")
        given = given.astype(x.dtype, copy=False)
        weights = given if weights is None else weights * given
    if weights is None:
        centred = x - _core.mean(x, 1, True)
        result = _core.matmul(centred, centred.T) / (count - ddof)
    else:
        total = _core.sum(weights)
        centred = x - (_core.sum(x * weights, 1) / total).reshape(-1, 1)
        free = total - ddof
        if aweights is not None and ddof:
            own = array_like(aweights, m).astype(x.dtype, copy=False)
            free = total - _core.sum(weights * own) / total * ddof
        result = _core.matmul(centred * weights, centred.T) / free
    return result.reshape(()) if len(x) == 1 else result


def _variables(m: ndarray, rowvar: bool) -> ndarray:
    if m.ndim > 2:
        raise ValueError(f"[cov] expects at most two dimensions, got shape {m.shape}")
    m = m if is_float(m.dtype) else m.astype("float64")
    if m.ndim < 2:
        return m.reshape(1, m.size)
    return m if rowvar or m.shape[0] == 1 else m.T


def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> ndarray:
    """The correlation coefficients of variables: their cov() over the product of deviations."""
    covariance = cov(x, y, rowvar)
    if covariance.ndim == 0:
        return covariance / covariance
    deviation = _core.sqrt(_core.diagonal(covariance))
    result = covariance / deviation.reshape(-1, 1) / deviation
    return mathematics.clip(result, -1.0, 1.0)
