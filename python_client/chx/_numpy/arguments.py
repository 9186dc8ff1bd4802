"""What the routines do with their arguments."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._numpy import creation, operands
from chx._types import DtypeLike, is_float


def array_like(value: Any, array: ndarray, dtype: DtypeLike | None = None) -> ndarray:
    """`value` as an array on another's device; of a dtype, or of that which operators give it."""
    if isinstance(value, _core.ndarray):
        return value
    there = operands.as_operand(value, [array]) if dtype is None else NotImplemented
    if there is NotImplemented:
        there = creation.array(np.asarray(value), dtype, device=array.device)
    return cast(ndarray, there)


def array_beside(name: str, value: Any, *others: Any) -> ndarray:
    """`value` as an array beside those of `others` that are.

    Raises:
      TypeError: none is an array.
    """
    if isinstance(value, _core.ndarray):
        return value
    return arrays_like(name, value, *(v for v in others if isinstance(v, _core.ndarray)))[0]


def arrays_like(name: str, *values: Any) -> list[ndarray]:
    """Values of which at least one is an array, all as arrays on its device.

    Raises:
      TypeError: none is an array, or one cannot be.
    """
    arrays = [v for v in values if isinstance(v, _core.ndarray)]
    if not arrays:
        kinds = ", ".join(type(v).__name__ for v in values)
        raise TypeError(f"[{name}] expects at least one ndarray of chx, got {kinds}")
    return [_converted(name, v, arrays) for v in values]


def check_written(name: str, a: Any) -> None:
    """TypeError unless `a` is an array: of anything else a copy would be written."""
    if not isinstance(a, _core.ndarray):
        raise TypeError(f"[{name}] expects an ndarray of chx to write, got {type(a).__name__}")


def _converted(name: str, value: Any, arrays: list[ndarray]) -> ndarray:
    array: ndarray = operands.as_operand(value, arrays)
    if array is NotImplemented:
        raise TypeError(
            f"[{name}] expects an array, a number or a list, got {type(value).__name__}"
        )
    return array


def checked_axis(name: str, axis: int, ndim: int) -> int:
    """An axis counted from the front; DimensionError if there is none of that number."""
    if not -ndim <= axis < ndim:
        raise _core.DimensionError(f"[{name}] expects an axis in [{-ndim}, {ndim}), got {axis}")
    return axis % ndim


def floating(a: ndarray) -> ndarray:
    """The array; of integers and bools as float64."""
    return a if is_float(a.dtype) else a.astype("float64")


def sliced(a: ndarray, axis: int, start: int | None, stop: int | None = None) -> ndarray:
    """a[start:stop] along an axis."""
    return a[(slice(None),) * axis + (slice(start, stop),)]
