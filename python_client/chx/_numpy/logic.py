"""NumPy's chapter "Logic functions"."""

from typing import Any

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._numpy.arguments import array_like, arrays_like
from chx._types import is_float


def _pair(name: str, a: Any, b: Any) -> tuple[ndarray, ndarray]:
    """Both as arrays, on the device of the one that is."""
    if not isinstance(a, _core.ndarray) and not isinstance(b, _core.ndarray):
        raise TypeError(f"[{name}] expects at least one array")
    return (array_like(a, b), b) if isinstance(b, _core.ndarray) else (a, array_like(b, a))


def isclose(
    a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> ndarray:
    """Whether |a - b| <= atol + rtol * |b|, as bool."""
    return _core.isclose(*_pair("isclose", a, b), rtol, atol, equal_nan)


def allclose(
    a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> ndarray:
    """Whether all elements are close, as a bool array of shape ()."""
    return _core.allclose(*_pair("allclose", a, b), rtol, atol, equal_nan)


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Whether shapes and all elements are equal, as a bool. Waits for the answer."""
    a1, a2 = arrays_like("array_equal", a1, a2)
    if a1.shape != a2.shape:
        return False
    same = _core.equal(a1, a2)
    if equal_nan:
        same = _core.logical_or(same, _core.logical_and(_core.isnan(a1), _core.isnan(a2)))
    return bool(_core.all(same))


def isposinf(x: ndarray) -> ndarray:
    """Whether x is positive infinity, as bool."""
    return (
        _core.equal(x, np.inf)
        if is_float(x.dtype)
        else _core.zeros(x.shape, "bool", device=x.device)
    )


def isneginf(x: ndarray) -> ndarray:
    """Whether x is negative infinity, as bool."""
    return (
        _core.equal(x, -np.inf)
        if is_float(x.dtype)
        else _core.zeros(x.shape, "bool", device=x.device)
    )
