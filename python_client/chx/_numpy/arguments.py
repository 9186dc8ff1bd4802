"""What the routines do with their arguments."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._numpy import creation
from chx._types import DtypeLike


def array_like(value: Any, array: ndarray, dtype: DtypeLike | None = None) -> ndarray:
    """`value` as an array on another's device."""
    if isinstance(value, _core.ndarray):
        return value
    return creation.array(np.asarray(value), dtype, device=array.device)


def arrays_like(values: Iterable[Any]) -> list[ndarray]:
    """Values of which at least one is an array, all as arrays on its device."""
    values = list(values)
    array = next((v for v in values if isinstance(v, _core.ndarray)), None)
    return values if array is None else [array_like(v, array) for v in values]


def checked_axis(name: str, axis: int, ndim: int) -> int:
    """An axis counted from the front; DimensionError if there is none of that number."""
    if not -ndim <= axis < ndim:
        raise _core.DimensionError(f"[{name}] expects an axis in [{-ndim}, {ndim}), got {axis}")
    return axis % ndim


def floating(a: ndarray) -> ndarray:
    """The array; of integers and bools as float64."""
    return a if a.dtype.kind == "f" else a.astype("float64")


def sliced(a: ndarray, axis: int, start: int | None, stop: int | None = None) -> ndarray:
    """a[start:stop] along an axis."""
    return a[(slice(None),) * axis + (slice(start, stop),)]
