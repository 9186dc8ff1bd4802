"""NumPy's chapter "Data type routines"."""

from typing import Any

import numpy as np

from chx import _core
from chx._numpy import operands
from chx._types import Dtype, DtypeLike, is_float


def result_type(*arrays_and_dtypes: Any) -> Dtype:
    """The dtype that an operator gives to arrays, dtypes and numbers: the rule of docs/numpy.md.

    Lists are no operands here, as in NumPy.

    Raises:
      ValueError: nothing is given.
    """
    if not arrays_and_dtypes:
        raise ValueError("[result_type] expects at least one array, dtype or number")
    numbers = [v for v in arrays_and_dtypes if isinstance(v, operands.NUMBERS)]
    others = [v for v in arrays_and_dtypes if not isinstance(v, operands.NUMBERS)]
    kinds = {np.asarray(v).dtype.kind for v in numbers}
    # Of a number alone: the dtype of chx.full.
    number = "float32" if "f" in kinds else "bool" if kinds == {"b"} else "int32"
    if not others:
        return np.dtype(number)
    dtype = operands.promoted([_dtype_of(v) for v in others])
    wider = (not is_float(dtype) and "f" in kinds) or (dtype.kind == "b" and kinds & {"i", "u"})
    return np.dtype(number) if wider else dtype


def can_cast(from_: Any, to: DtypeLike, casting: Any = "safe") -> bool:
    """Whether an array or a dtype can be cast to a dtype, by a rule of numpy.can_cast.

    Raises:
      TypeError: `from_` is a number, whose dtype depends on what stands beside it.
    """
    if isinstance(from_, operands.NUMBERS):
        raise TypeError(f"[can_cast] expects an array or a dtype, got {type(from_).__name__}")
    return bool(np.can_cast(_dtype_of(from_), to, casting))


def _dtype_of(value: Any) -> Dtype:
    dtype: Dtype = (
        value.dtype if isinstance(value, (_core.ndarray, np.ndarray)) else np.dtype(value)
    )
    return dtype
