"""Types of arguments, for annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from chx._compat import TypeAlias
from chx._core import Device, ndarray

Scalar: TypeAlias = Union[bool, int, float, np.generic]
DtypeLike: TypeAlias = Union[str, type, np.dtype[Any]]
DeviceLike: TypeAlias = Union[str, Device, None]
Dtype: TypeAlias = np.dtype[Any]
Shape: TypeAlias = tuple[int, ...]
Axis: TypeAlias = Union[int, Shape, None]
NumpyArray: TypeAlias = np.ndarray[Any, Any]
# What may stand beside an array, and that or an array.
Other: TypeAlias = Union[Scalar, NumpyArray, list[Any], tuple[Any, ...]]
Operand: TypeAlias = Union[ndarray, Other]
Indices: TypeAlias = Union[int, NumpyArray, Sequence[Any]]
# Of distributions: the size of the result, and a parameter, which is a number, an array, or a sequence
# or NumPy array of numbers.
Size: TypeAlias = Union[int, Shape, None]
Parameter: TypeAlias = Any


def is_float(dtype: Dtype) -> bool:
    """Whether it is one of floats: NumPy does not count bfloat16 among its own."""
    return dtype.kind == "f" or is_bfloat16(dtype)


def is_bfloat16(dtype: Dtype) -> bool:
    """Whether it is what ml_dtypes adds to NumPy's dtypes: buffers and files have no name for it."""
    return dtype.name == "bfloat16"
