"""Types of arguments, for annotations."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from chx._core import Device, ndarray

Scalar: TypeAlias = bool | int | float | np.generic
DtypeLike: TypeAlias = str | type | np.dtype[Any]
DeviceLike: TypeAlias = str | Device | None
Dtype: TypeAlias = np.dtype[Any]
Shape: TypeAlias = tuple[int, ...]
Axis: TypeAlias = int | Shape | None
NumpyArray: TypeAlias = np.ndarray[Any, Any]
# What may stand beside an array, and that or an array.
Other: TypeAlias = Scalar | NumpyArray | list[Any] | tuple[Any, ...]
Operand: TypeAlias = ndarray | Other
Indices: TypeAlias = int | NumpyArray | Sequence[Any]
# Of distributions: the size of the result, and a parameter, which is a number, an array, or a sequence
# or NumPy array of numbers.
Size: TypeAlias = int | Shape | None
Parameter: TypeAlias = Any
