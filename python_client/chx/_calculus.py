"""NumPy's functions of sequences: differences, integrals, interpolation, convolution. All by operators."""

import numpy as np

import chx
from chx import _core
from chx._arranging import _axis, _like


def _floating(a):
    return a if a.dtype.kind == "f" else a.astype("float64")


def _along(a, axis, start, stop=None):
    return a[(slice(None),) * axis + (slice(start, stop),)]


# --- Differences and integrals ---------------------------------------------------------------------


def gradient(f, *varargs, axis=None, edge_order=1):
    """The slopes along axes by central differences, one-sided at the edges (of order 1 or 2).

    `varargs`: one distance between neighbours for all axes, or for each axis a distance or its
    coordinates. One array for one axis, else a list. Integers give float64.

    Raises:
      ValueError: an axis has too few elements, or the distances don't fit.
    """
    if axis is None:
        axes = list(range(f.ndim))
    else:
        axes = [_axis("gradient", int(i), f.ndim) for i in np.atleast_1d(axis)]
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError(f"[gradient] expects 1 or {len(axes)} distances, got {len(varargs)}")
    if edge_order not in (1, 2):
        raise ValueError(f"[gradient] expects edge_order 1 or 2, got {edge_order}")
    steps = list(varargs) or [1.0]
    if len(steps) == 1:
        if len(axes) > 1 and np.ndim(steps[0]) > 0:
            raise TypeError(f"[gradient] expects one number or {len(axes)} distances")
        steps = steps * len(axes)
    f = _floating(f)
    slopes = [_slope(f, i, step, edge_order) for i, step in zip(axes, steps, strict=True)]
    return slopes[0] if len(slopes) == 1 else slopes


def _slope(f, axis, step, edge_order):
    n = f.shape[axis]
    if n < edge_order + 1:
        raise ValueError(f"[gradient] expects {edge_order + 1} elements along axis {axis}, got {n}")
    if np.ndim(step) > 1 or (np.ndim(step) == 1 and step.shape != (n,)):
        raise ValueError(f"[gradient] expects {n} coordinates along axis {axis}, got {step.shape}")
    if np.ndim(step) == 1:
        at = _like(step, f).astype(f.dtype).reshape([-1 if d == axis else 1 for d in range(f.ndim)])
        h = _along(at, axis, 1) - _along(at, axis, 0, -1)
        before, after = _along(h, axis, 0, -1), _along(h, axis, 1)
        first, second = _along(h, axis, 0, 1), _along(h, axis, 1, 2)
        last, second_last = _along(h, axis, -1), _along(h, axis, -2, -1)
    else:
        before = after = first = second = last = second_last = step

    def part(start, stop=None):
        return _along(f, axis, start, stop)

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


def _parabola(y0, y1, y2, h1, h2):
    """The slope at y0 of the parabola through three points with distances h1 and h2."""
    both = h1 + h2
    return y1 * (both / (h1 * h2)) - y0 * ((h1 + both) / (h1 * both)) - y2 * (h1 / (h2 * both))


def ediff1d(ary, to_end=None, to_begin=None):
    """Differences of neighbours of the flattened array, between what is given to put around them."""
    flat = _core.ravel(ary)
    parts = [chx.diff(flat)]
    if to_begin is not None:
        parts.insert(0, _core.ravel(_like(to_begin, ary)).astype(ary.dtype, copy=False))
    if to_end is not None:
        parts.append(_core.ravel(_like(to_end, ary)).astype(ary.dtype, copy=False))
    return parts[0] if len(parts) == 1 else _core.concatenate(parts, 0)


def trapz(y, x=None, dx=1.0, axis=-1):
    """The integral along an axis by the trapezoidal rule, at coordinates x or with distance dx."""
    axis = _axis("trapz", axis, y.ndim)
    y = _floating(y)
    means = (_along(y, axis, 1) + _along(y, axis, 0, -1)) * 0.5
    if x is not None:
        x = _like(x, y)
        if x.ndim == 1:
            dx = chx.diff(x).reshape([-1 if d == axis else 1 for d in range(y.ndim)])
        else:
            dx = chx.diff(x, axis=axis)
    return _core.sum(means * dx, axis)


def unwrap(p, discont=None, axis=-1, *, period=2 * np.pi):
    """p with whole periods added so that neighbours differ by half a period, or `discont`, at most."""
    axis = _axis("unwrap", axis, p.ndim)
    integral = p.dtype.kind in "iu" and isinstance(period, (int, np.integer))
    p = p if integral else _floating(p)
    half = period // 2 if integral else period / 2
    steps = chx.diff(p, axis=axis)
    bounded = _core.remainder(steps + half, period) - half
    if not integral or period % 2 == 0:
        up = _core.logical_and(_core.equal(bounded, -half), steps > 0)
        bounded = _core.where(up, half, bounded)
    change = bounded - steps
    change = _core.where(
        _core.abs(steps) < (half if discont is None else max(discont, half)), 0, change
    )
    rest = _along(p, axis, 1) + _core.cumsum(change, axis, dtype=p.dtype)
    return _core.concatenate([_along(p, axis, 0, 1), rest], axis)


def interp(x, xp, fp, left=None, right=None, period=None):
    """The value at x of the lines through the points (xp, fp), where xp increases.

    Beyond the ends it is `left` and `right`, by default the first and last of fp; with a `period` xp
    may have any order. Differentiable with respect to x and fp.

    Raises:
      ValueError: xp and fp are not one-dimensional, equally long and without gaps, or period is 0.
    """
    x = _floating(chx.asarray(x))
    xp, fp = _floating(_like(xp, x)), _floating(_like(fp, x))
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
        at = chx.clip(chx.searchsorted(xp, x, "right") - 1, 0, xp.size - 2)
        x0, y0 = _core.take(xp, at, 0), _core.take(fp, at, 0)
        slope = (_core.take(fp, at + 1, 0) - y0) / (_core.take(xp, at + 1, 0) - x0)
        inside = y0 + slope * (x - x0)
    result = _core.where(x < xp[0], low, inside)
    result = _core.where(x > xp[-1], high, result)
    return _core.where(_core.equal(x, xp[-1]), fp[-1], result)


# --- Products of sequences -------------------------------------------------------------------------


def _sequences(name, a, v, mode):
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"[{name}] expects mode 'full', 'same' or 'valid', got {mode!r}")
    a = chx.asarray(a) if not isinstance(v, _core.ndarray) else _like(a, v)
    v = _like(v, a)
    if a.ndim > 1 or v.ndim > 1 or a.size == 0 or v.size == 0:
        raise ValueError(f"[{name}] expects two vectors with elements, got {a.shape} and {v.shape}")
    return _core.ravel(a), _core.ravel(v)


def _correlated(long, short, mode):
    """The sums of products of `short` with the windows of `long`, which reach beyond the ends."""
    n, m = long.size, short.size
    before = {"full": m - 1, "same": m // 2, "valid": 0}[mode]
    after = {"full": m - 1, "same": (m - 1) // 2, "valid": 0}[mode]
    dtype = np.promote_types(long.dtype, short.dtype)
    dtype = np.dtype("int64") if dtype == np.bool_ else dtype
    long, short = long.astype(dtype, copy=False), short.astype(dtype, copy=False)
    padded = _core.constant_pad(long, [before, after])
    if dtype.kind == "f":
        return _core.conv(padded.reshape(1, 1, -1), short.reshape(1, 1, m)).reshape(-1)
    windows = np.arange(n + before + after - m + 1)[:, None] + np.arange(m)
    return _core.matmul(_core.take(padded, chx.array(windows, device=long.device), 0), short)


def convolve(a, v, mode="full"):
    """The convolution of two vectors: all of it, of the longer one's length, or without the edges.

    As NumPy's, of bool vectors it is logical.
    """
    a, v = _sequences("convolve", a, v, mode)
    if v.size > a.size:
        a, v = v, a
    result = _correlated(a, _core.flip(v, 0), mode)
    return result.astype("bool") if a.dtype == v.dtype == np.bool_ else result


def correlate(a, v, mode="valid"):
    """The cross-correlation of two vectors: sums of a[n + k] * v[n], for each k."""
    a, v = _sequences("correlate", a, v, mode)
    swapped = v.size > a.size
    result = _correlated(v, a, mode) if swapped else _correlated(a, v, mode)
    result = _core.flip(result, 0) if swapped else result
    return result.astype("bool") if a.dtype == v.dtype == np.bool_ else result


def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    """The cross products of vectors of 2 or 3 elements along an axis; of two 2-vectors, a number.

    Raises:
      ValueError: vectors of another length.
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    b = _like(b, a)
    a = _core.moveaxis(a, _axis("cross", axisa, a.ndim), -1)
    b = _core.moveaxis(b, _axis("cross", axisb, b.ndim), -1)
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise ValueError(f"[cross] expects vectors of 2 or 3 elements, got {a.shape} and {b.shape}")
    x1, y1 = a[..., 0], a[..., 1]
    x2, y2 = b[..., 0], b[..., 1]
    z = x1 * y2 - y1 * x2
    if a.shape[-1] == b.shape[-1] == 2:
        return z
    if a.shape[-1] == 2:
        x, y = y1 * b[..., 2], -(x1 * b[..., 2])
    elif b.shape[-1] == 2:
        x, y = -(a[..., 2] * y2), a[..., 2] * x2
    else:
        x, y = y1 * b[..., 2] - a[..., 2] * y2, a[..., 2] * x2 - x1 * b[..., 2]
    return _core.moveaxis(_core.stack([x, y, z], -1), -1, _axis("cross", axisc, z.ndim + 1))


# --- Pairs of results, and complex numbers' parts --------------------------------------------------


def modf(x):
    """(fraction, whole part), both with the sign of x. The whole part has no gradient."""
    x = x if x.dtype.kind == "f" else x.astype("float32")
    whole = _core.trunc(x)
    fraction = _core.where(_core.isinf(x), 0, x - whole)
    return _core.copysign(fraction, x), whole


def divmod(x1, x2):
    """(x1 // x2, x1 % x2)."""
    if np.ndim(x2):
        x2 = _like(x2, x1)
    return _core.floor_divide(x1, x2), _core.remainder(x1, x2)


def real(val):
    """The array itself: there are no complex dtypes."""
    return val


def imag(val):
    """Zeros of the array's shape and dtype: there are no complex dtypes."""
    return _core.zeros_like(val)


def conjugate(x):
    """A copy: there are no complex dtypes."""
    return _core.copy(x)


conj = conjugate


def isposinf(x):
    """Whether x is positive infinity, as bool."""
    return (
        _core.equal(x, np.inf)
        if x.dtype.kind == "f"
        else _core.zeros(x.shape, "bool", device=x.device)
    )


def isneginf(x):
    """Whether x is negative infinity, as bool."""
    return (
        _core.equal(x, -np.inf)
        if x.dtype.kind == "f"
        else _core.zeros(x.shape, "bool", device=x.device)
    )
