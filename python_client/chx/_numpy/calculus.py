"""Differences, integrals and interpolation. Gradients come from the operators."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from chx import _core
from chx._compat import zip_strict
from chx._core import ndarray
from chx._numpy import creation, mathematics, sorting
from chx._numpy.arguments import array_beside, array_like, checked_axis, floating, sliced
from chx._types import Scalar


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> ndarray:
    """Differences of neighbours along an axis, n times; `prepend` and `append` are put around first:
    arrays, or a number along the axis.
    """
    if n < 0:
        raise ValueError(f"[diff] expects n from 0 on, got {n}")
    a = array_beside("diff", a, prepend, append)
    axis = checked_axis("diff", axis, a.ndim)
    if n and (prepend is not None or append is not None):
        shape = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
        parts = [a]
        for value, first in ((prepend, True), (append, False)):
            if value is None:
                continue
            if not isinstance(value, _core.ndarray):
                value = creation.array(np.asarray(value), a.dtype, device=a.device)
            value = _core.broadcast_to(value, shape) if value.ndim == 0 else value
            parts = [value, *parts] if first else [*parts, value]
        a = _core.concatenate(parts, axis)
    before = [slice(None)] * axis
    for _ in range(n):
        later, earlier = a[(*before, slice(1, None))], a[(*before, slice(None, -1))]
        a = _core.not_equal(later, earlier) if a.dtype == np.bool_ else later - earlier
    return cast(ndarray, a)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> ndarray:
    """Differences of neighbours of the flattened array, between what is given to put around them."""
    ary = array_beside("ediff1d", ary, to_end, to_begin)
    flat = _core.ravel(ary)
    parts = [diff(flat)]
    if to_begin is not None:
        parts.insert(0, _core.ravel(array_like(to_begin, ary)).astype(ary.dtype, copy=False))
    if to_end is not None:
        parts.append(_core.ravel(array_like(to_end, ary)).astype(ary.dtype, copy=False))
    return parts[0] if len(parts) == 1 else _core.concatenate(parts, 0)


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """The slopes along axes by central differences, one-sided at the edges (of order 1 or 2).

    `varargs`: one distance between neighbours for all axes, or for each axis a distance or its
    coordinates. One array for one axis, else a list. Integers give float64.

    Raises:
      ValueError: an axis has too few elements, or the distances don't fit.
    """
    f = array_beside("gradient", f, *varargs)
    if axis is None:
        axes = list(range(f.ndim))
    else:
        axes = [checked_axis("gradient", int(i), f.ndim) for i in np.atleast_1d(axis)]
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError(f"[gradient] expects 1 or {len(axes)} distances, got {len(varargs)}")
    if edge_order not in (1, 2):
        raise ValueError(f"[gradient] expects edge_order 1 or 2, got {edge_order}")
    steps = list(varargs) or [1.0]
    if len(steps) == 1:
        if len(axes) > 1 and np.ndim(steps[0]) > 0:
            raise TypeError(f"[gradient] expects one number or {len(axes)} distances")
        steps = steps * len(axes)
    f = floating(f)
    slopes = [_slope(f, i, step, edge_order) for i, step in zip_strict(axes, steps)]
    return slopes[0] if len(slopes) == 1 else slopes


def _slope(f: ndarray, axis: int, step: Any, edge_order: int) -> ndarray:
    n = f.shape[axis]
    if n < edge_order + 1:
        raise ValueError(f"[gradient] expects {edge_order + 1} elements along axis {axis}, got {n}")
    if np.ndim(step) > 1 or (np.ndim(step) == 1 and step.shape != (n,)):
        raise ValueError(f"[gradient] expects {n} coordinates along axis {axis}, got {step.shape}")
    if np.ndim(step) == 1:
        at = (
            array_like(step, f)
            .astype(f.dtype)
            .reshape([-1 if d == axis else 1 for d in range(f.ndim)])
        )
        h = sliced(at, axis, 1) - sliced(at, axis, 0, -1)
        before, after = sliced(h, axis, 0, -1), sliced(h, axis, 1)
        first, second = sliced(h, axis, 0, 1), sliced(h, axis, 1, 2)
        last, second_last = sliced(h, axis, -1), sliced(h, axis, -2, -1)
    else:
        before = after = first = second = last = second_last = step

    def part(start: int, stop: int | None = None) -> ndarray:
        return sliced(f, axis, start, stop)

    inner = (
        part(2) * (before / (after * (before + after)))
        + part(1, -1) * ((after - before) / (before * after))
        - part(0, -2) * (after / (before * (before + after)))
    )
    if edge_order == 1:
        left = (part(1, 2) - part(0, 1)) / first
        right = (part(-1) - part(-2, -1)) / last
    else:
        left = _parabola(part(0, 1), part(1, 2), part(2, 3), first, second)
        right = -_parabola(part(-1), part(-2, -1), part(-3, -2), last, second_last)
    return _core.concatenate([left, inner, right], axis)


def _parabola(y0: ndarray, y1: ndarray, y2: ndarray, h1: Any, h2: Any) -> ndarray:
    """The slope at y0 of the parabola through three points with distances h1 and h2."""
    both = h1 + h2
    result: ndarray = (
        y1 * (both / (h1 * h2)) - y0 * ((h1 + both) / (h1 * both)) - y2 * (h1 / (h2 * both))
    )
    return result


def trapz(y: Any, x: Any = None, dx: float | ndarray = 1.0, axis: int = -1) -> ndarray:
    """The integral along an axis by the trapezoidal rule, at coordinates x or with distance dx."""
    y = array_beside("trapz", y, x, dx)
    axis = checked_axis("trapz", axis, y.ndim)
    y = floating(y)
    means = (sliced(y, axis, 1) + sliced(y, axis, 0, -1)) * 0.5
    if x is not None:
        x = array_like(x, y)
        if x.ndim == 1:
            dx = diff(x).reshape([-1 if d == axis else 1 for d in range(y.ndim)])
        else:
            dx = diff(x, axis=axis)
    return _core.sum(means * dx, axis)


def unwrap(
    p: ndarray, discont: float | None = None, axis: int = -1, *, period: float = 2 * np.pi
) -> ndarray:
    """p with whole periods added so that neighbours differ by half a period, or `discont`, at most."""
    axis = checked_axis("unwrap", axis, p.ndim)
    integral = p.dtype.kind in "iu" and isinstance(period, (int, np.integer))
    p = p if integral else floating(p)
    half = period // 2 if integral else period / 2
    steps = diff(p, axis=axis)
    bounded = _core.remainder(steps + half, period) - half
    if not integral or period % 2 == 0:
        up = _core.logical_and(_core.equal(bounded, -half), steps > 0)
        bounded = _core.where(up, half, bounded)
    change = bounded - steps
    change = _core.where(
        _core.abs(steps) < (half if discont is None else max(discont, half)), 0, change
    )
    rest = sliced(p, axis, 1) + _core.cumsum(change, axis, dtype=p.dtype)
    return _core.concatenate([sliced(p, axis, 0, 1), rest], axis)


def interp(
    x: Any,
    xp: Any,
    fp: Any,
    left: Scalar | None = None,
    right: Scalar | None = None,
    period: float | None = None,
) -> ndarray:
    """The value at x of the lines through the points (xp, fp), where xp increases.

    Beyond the ends it is `left` and `right`, by default the first and last of fp; with a `period` xp
    may have any order. Differentiable with respect to x and fp.

    Raises:
      ValueError: xp and fp are not one-dimensional, equally long and without gaps, or period is 0.
    """
    arrays = [v for v in (x, xp, fp) if isinstance(v, _core.ndarray)]
    x = floating(array_like(x, arrays[0]) if arrays else creation.asarray(x))
    xp, fp = floating(array_like(xp, x)), floating(array_like(fp, x))
    if xp.ndim != 1 or xp.shape != fp.shape or xp.size == 0:
        raise ValueError(
            f"[interp] expects two vectors of one length, got {xp.shape} and {fp.shape}"
        )
    if period is not None:
        if period == 0:
            raise ValueError("[interp] expects a period other than 0")
        period = abs(period)
        x, xp = _core.remainder(x, period), _core.remainder(xp, period)
        order = _core.argsort(xp)
        xp, fp = _core.take(xp, order, 0), _core.take(fp, order, 0)
        xp = _core.concatenate([xp[-1:] - period, xp, xp[:1] + period], 0)
        fp = _core.concatenate([fp[-1:], fp, fp[:1]], 0)
        left = right = None
    low = fp[0] if left is None else left
    high = fp[-1] if right is None else right
    if xp.size == 1:
        inside = _core.where(_core.isnan(x), x, fp[0])
    else:
        at = mathematics.clip(sorting.searchsorted(xp, x, "right") - 1, 0, xp.size - 2)
        x0, y0 = _core.take(xp, at, 0), _core.take(fp, at, 0)
        slope = (_core.take(fp, at + 1, 0) - y0) / (_core.take(xp, at + 1, 0) - x0)
        inside = y0 + slope * (x - x0)
    result = _core.where(x < xp[0], low, inside)
    result = _core.where(x > xp[-1], high, result)
    return _core.where(_core.equal(x, xp[-1]), fp[-1], result)
