"""What may stand beside an array of chx, and its dtype: NumPy arrays, numbers, nested lists of them.

A NumPy array keeps its dtype. Numbers and lists of numbers take that of the arrays beside them if it
is one of their kind: they do not widen it. docs/numpy.md has the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._numpy import transfer
from chx._types import Dtype, NumpyArray, is_float

NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)
_LISTS = (list, tuple, range)
# NumPy makes arrays without dimensions of its numbers before it asks for these.
COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}


def as_operand(value: Any, arrays: Sequence[ndarray], operator: str = "") -> Any:
    """`value` as an array beside `arrays`, on the device of the first; NotImplemented if it is none.

    Raises:
      DtypeError: a NumPy array of a dtype that chx does not have.
      ValueError: a list whose parts have different shapes.
    """
    if isinstance(value, _core.ndarray):
        return value
    device = arrays[0].device
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError("chx has no masked arrays: use filled() to make this one an array")
    if isinstance(value, np.ndarray):
        weak = value.ndim == 0 and operator in COMPARISONS
        return transfer.upload(value, _dtype_beside(value, arrays) if weak else None, device=device)
    if isinstance(value, _LISTS):
        return _of_list(value, arrays, operator)
    if isinstance(value, NUMBERS):
        value = np.asarray(value)
        return transfer.upload(value, _dtype_beside(value, arrays), device=device)
    return NotImplemented


def _of_list(value: Sequence[Any], arrays: Sequence[ndarray], operator: str) -> Any:
    if first_array(value) is not None:  # which have gradients
        parts = [as_operand(part, arrays, operator) for part in value]
        if any(part is NotImplemented for part in parts):
            return NotImplemented
        return _core.stack(parts)
    values = np.asarray(value)
    if values.dtype.kind not in "biu" and not is_float(values.dtype):
        return NotImplemented
    dtype = None if _has(value, (np.ndarray,)) else _dtype_beside(values, arrays)
    return transfer.upload(values, dtype, device=arrays[0].device)


def first_array(value: Sequence[Any]) -> ndarray | None:
    """The first array of chx in nested lists, of those least deep; None if there is none."""
    level = list(value)
    while level:
        types = set(map(type, level))  # loops of C: a list may be long
        if _core.ndarray in types:
            return next(v for v in level if isinstance(v, _core.ndarray))
        if types.isdisjoint((list, tuple)):
            return None
        nested = level if types <= {list, tuple} else (v for v in level if type(v) in (list, tuple))
        level = list(chain.from_iterable(nested))
    return None


def _has(value: Sequence[Any], types: tuple[type, ...]) -> bool:
    """Whether something of these types is in nested lists."""
    if isinstance(value, range):
        return False
    return any(isinstance(v, types) or (isinstance(v, _LISTS) and _has(v, types)) for v in value)


def _dtype_beside(values: NumpyArray, arrays: Sequence[ndarray]) -> Dtype:
    """The dtype of numbers beside arrays: that of the arrays of their kind, if they fit there."""
    dtypes = [a.dtype for a in arrays]
    if values.size == 0:
        return promoted(dtypes)
    floats = is_float(values.dtype)
    of_kind = [d for d in dtypes if (is_float(d) if floats else d.kind in "iu")]
    dtype: Dtype = values.dtype
    if dtype.kind == "b" or not of_kind:
        return dtype
    beside = promoted(of_kind)
    if not floats:
        limits = np.iinfo(beside)
        if values.min() < limits.min or values.max() > limits.max:
            return dtype
    return beside


def promoted(dtypes: Sequence[Dtype]) -> Dtype:
    """The dtype of an operator's result from arrays of these: a float array makes it a float."""
    floats = [d for d in dtypes if is_float(d)]
    own = [d for d in floats if d.kind == "f"]  # NumPy's
    if len(own) < len(floats):  # the others are bfloat16
        return np.result_type(np.float32, *own) if own else floats[0]
    result: Dtype = np.result_type(*(floats or dtypes))
    return result
