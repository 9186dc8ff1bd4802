"""NumPy's chapter "Mathematical functions"; differences and integrals are in calculus.py."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._numpy import creation, transfer
from chx._numpy.arguments import array_beside
from chx._types import DtypeLike, Operand, is_float


def clip(a: Any, a_min: Operand | None, a_max: Operand | None) -> ndarray:
    """The elements limited to [a_min, a_max]: numbers or arrays, one of which may be None.

    Differentiable, as maximum and minimum are.

    Raises:
      ValueError: both bounds are None.
    """
    if a_min is None and a_max is None:
        raise ValueError("[clip] expects a_min, a_max or both, got None")
    a = array_beside("clip", a, a_min, a_max)
    if a_min is not None:
        a = _core.maximum(a, a_min)
    if a_max is not None:
        a = _core.minimum(a, a_max)
    return cast(ndarray, a)


def fix(a: ndarray) -> ndarray:
    """Towards zero, to whole numbers. By NumPy; RuntimeError if the array is in a graph."""
    (values,), device = transfer.values_outside_graphs("fix", [a])
    return creation.array(np.asarray(np.fix(values)), device=device)


def modf(x: ndarray) -> tuple[ndarray, ndarray]:
    """(fraction, whole part), both with the sign of x. The whole part has no gradient."""
    x = x if is_float(x.dtype) else x.astype("float32")
    whole = _core.trunc(x)
    fraction = _core.where(_core.isinf(x), 0, x - whole)
    return _core.copysign(fraction, x), whole


def divmod(x1: Any, x2: Any) -> tuple[ndarray, ndarray]:
    """(x1 // x2, x1 % x2)."""
    return _core.floor_divide(x1, x2), _core.remainder(x1, x2)


def nancumsum(a: ndarray, axis: int | None = None, dtype: DtypeLike | None = None) -> ndarray:
    """cumsum() in which NaNs count as 0."""
    return _core.cumsum(_replaced(a, 0), axis, dtype)


def nancumprod(a: ndarray, axis: int | None = None, dtype: DtypeLike | None = None) -> ndarray:
    """cumprod() in which NaNs count as 1."""
    return _core.cumprod(_replaced(a, 1), axis, dtype)


def _replaced(a: ndarray, value: float) -> ndarray:
    return _core.where(_core.isnan(a), value, a) if is_float(a.dtype) else a


def real(val: ndarray) -> ndarray:
    """The array itself: there are no complex dtypes."""
    return val


def imag(val: ndarray) -> ndarray:
    """Zeros of the array's shape and dtype: there are no complex dtypes."""
    return _core.zeros_like(val)


def conjugate(x: ndarray) -> ndarray:
    """A copy: there are no complex dtypes."""
    return _core.copy(x)


conj = conjugate
