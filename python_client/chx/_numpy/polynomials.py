"""Polynomials by their coefficients, the highest power first. Gradients come from the operators."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from chx import _core, linalg
from chx._core import ndarray
from chx._numpy import creation, operands, products
from chx._numpy.arguments import arrays_like, floating


def polyval(p: Any, x: Any) -> ndarray:
    """The value at x of the polynomial with the coefficients p, by Horner's scheme.

    Of integers it is one; one of p and x is an array, and the other may be a list or NumPy's.
    """
    p, x = arrays_like("polyval", p, x)
    if p.ndim != 1:
        raise _core.DimensionError(f"[polyval] expects one dimension of p, got shape {p.shape}")
    y = _core.zeros(x.shape, operands.promoted([p.dtype, x.dtype]), device=x.device)
    for i in range(p.size):
        y = y * x + p[i]
    return y


def polyfit(
    x: Any,
    y: Any,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Any = None,
    cov: bool | str = False,
) -> Any:
    """The coefficients, the highest power first, of the polynomial of a degree that fits points best.

    By least squares, of differences times the weights w. y is (m,) or (m, k), of k polynomials. Waits
    for the rank. Integers give float64.

    Returns:
      (deg + 1,) or (deg + 1, k). With `full` also the residuals, the rank, the singular values and
      rcond; else with `cov` also the covariance matrix of the coefficients, scaled by chi2 / degrees
      of freedom, or with 'unscaled' not.

    Raises:
      ValueError: `deg` is negative, shapes don't fit, or there are too few points for `cov`.
    """
    x, y, *weights = arrays_like("polyfit", x, y, *([] if w is None else [w]))
    x, y = floating(x), floating(y)
    if deg < 0:
        raise ValueError(f"[polyfit] expects a degree from 0 on, got {deg}")
    if x.ndim != 1 or x.size == 0 or y.ndim not in (1, 2) or len(y) != x.size:
        raise ValueError(f"[polyfit] expects m x and (m,) or (m, k) y, got {x.shape}, {y.shape}")
    left, right = creation.vander(x, deg + 1), y
    for weight in weights:
        if weight.shape != x.shape:
            raise ValueError(f"[polyfit] expects {x.size} weights, got shape {weight.shape}")
        left = left * weight.reshape(-1, 1)
        right = right * (weight.reshape(-1, 1) if y.ndim == 2 else weight)
    scale = _core.sqrt(_core.sum(_core.square(left), 0))
    left = left / scale
    rcond = x.size * float(np.finfo(x.dtype).eps) if rcond is None else rcond
    scaled, residuals, rank, s = linalg.lstsq(left, right, rcond)
    coefficients = scaled / (scale.reshape(-1, 1) if y.ndim == 2 else scale)
    if full:
        return coefficients, residuals, rank, s, rcond
    if rank != deg + 1:
        warnings.warn("[polyfit] the points do not determine all coefficients", stacklevel=2)
    if not cov:
        return coefficients
    base = linalg.inv(_core.matmul(left.T, left)) / products.outer(scale, scale)
    if cov != "unscaled":
        if x.size <= deg + 1:
            raise ValueError(f"[polyfit] expects more than {deg + 1} points for cov, got {x.size}")
        base = (base[..., None] if y.ndim == 2 else base) * (residuals / (x.size - deg - 1))
    elif y.ndim == 2:
        base = base[..., None]
    return coefficients, base
