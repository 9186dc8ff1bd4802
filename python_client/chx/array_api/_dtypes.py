"""The standard's data types and what it asks of them. float16 is there as an extra.

There is no uint16, uint32, uint64, complex64 or complex128: chxd has no such arrays.
"""

from __future__ import annotations

import builtins
import functools
from typing import Any, NamedTuple

import numpy as np

from chx import _core
from chx._core import Device, ndarray
from chx._runtime import connection
from chx._types import DeviceLike, Dtype, Scalar

bool_ = np.dtype("bool")
int8 = np.dtype("int8")
int16 = np.dtype("int16")
int32 = np.dtype("int32")
int64 = np.dtype("int64")
uint8 = np.dtype("uint8")
float16 = np.dtype("float16")
float32 = np.dtype("float32")
float64 = np.dtype("float64")

ALL = (bool_, int8, int16, int32, int64, uint8, float16, float32, float64)
_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}
_NUMBERS = (builtins.bool, int, float)


class FloatInfo(NamedTuple):
    """What finfo() gives: Python numbers, and the dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]


class IntInfo(NamedTuple):
    """What iinfo() gives: Python numbers, and the dtype."""

    bits: int
    max: int
    min: int
    dtype: np.dtype[Any]


def dtype_of(x: Any) -> np.dtype[Any]:
    """The dtype of an array, or a dtype in any of its forms.

    Raises:
      DtypeError: chxd has no such arrays.
    """
    dtype = x.dtype if isinstance(x, _core.ndarray) else np.dtype(x)
    if dtype not in ALL:
        raise _core.DtypeError(f"unsupported dtype: {dtype}")
    return dtype


def finfo(type: Dtype | ndarray, /) -> FloatInfo:
    """The machine limits of a float dtype, or of an array's.

    Raises:
      TypeError: the dtype is another.
    """
    dtype = dtype_of(type)
    if dtype.kind != "f":
        raise TypeError(f"[finfo] expects a float dtype, got {dtype}")
    info = np.finfo(dtype)
    return FloatInfo(
        info.bits,
        float(info.eps),
        float(info.max),
        float(info.min),
        float(info.smallest_normal),
        dtype,
    )


def iinfo(type: Dtype | ndarray, /) -> IntInfo:
    """The machine limits of an integer dtype, or of an array's.

    Raises:
      TypeError: the dtype is another.
    """
    dtype = dtype_of(type)
    if dtype.kind not in "iu":
        raise TypeError(f"[iinfo] expects an integer dtype, got {dtype}")
    info = np.iinfo(dtype)
    return IntInfo(info.bits, int(info.max), int(info.min), dtype)


def isdtype(dtype: Dtype, kind: Dtype | str | tuple[Dtype | str, ...]) -> bool:
    """Whether a dtype is of a kind: a dtype, a kind's name, or a tuple of these.

    Raises:
      ValueError: there is no kind of that name.
    """
    if isinstance(kind, tuple):
        return builtins.any([isdtype(dtype, k) for k in kind])
    dtype = dtype_of(dtype)
    if not isinstance(kind, str):
        return dtype == np.dtype(kind)
    if kind not in _KINDS:
        raise ValueError(f"[isdtype] expects one of {', '.join(_KINDS)}, got '{kind}'")
    return dtype.kind in _KINDS[kind]


def _promote(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    # As the daemon does: a float dtype is not widened for an integer's sake.
    if (a.kind == "f") != (b.kind == "f"):
        return a if a.kind == "f" else b
    return np.promote_types(a, b)


def result_type(*arrays_and_dtypes: ndarray | Dtype | Scalar) -> np.dtype[Any]:
    """The dtype that arrays and dtypes promote to. Python numbers only count by their kind.

    Raises:
      ValueError: there is no array and no dtype.
    """
    dtypes = [dtype_of(x) for x in arrays_and_dtypes if not isinstance(x, _NUMBERS)]
    if not dtypes:
        raise ValueError("[result_type] expects an array or a dtype")
    result = functools.reduce(_promote, dtypes)
    for number in arrays_and_dtypes:
        if not isinstance(number, _NUMBERS) or isinstance(number, builtins.bool):
            continue
        if result == bool_:  # of which there is no arithmetic
            result = int64 if isinstance(number, int) else float64
        else:
            result = (_core.empty((0,), result) + number).dtype
    return result


def can_cast(from_: Dtype | ndarray, to: Dtype, /) -> bool:
    """Whether an array or dtype can be cast to a dtype safely, as NumPy has it.

    That is, within a kind, where promotion leads there; bools go everywhere, and integers to wide
    enough floats.
    """
    return bool(np.can_cast(dtype_of(from_), dtype_of(to)))


def astype(x: ndarray, dtype: Dtype, /, *, copy: bool = True, device: DeviceLike = None) -> ndarray:
    """The array cast to a dtype; itself if nothing changes and `copy` is False."""
    if device is not None:
        x = x.to_device(device)
    return x.astype(dtype_of(dtype), copy)


class Info:
    """What __array_namespace_info__() gives."""

    def capabilities(self) -> dict[str, bool | int | None]:
        """What the standard lets a library leave out, and how many dimensions an array may have."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 10}

    def default_device(self) -> Device:
        """The device of arrays that are made without one."""
        return _core.get_default_device()

    def devices(self) -> list[Device]:
        """The devices of the default session."""
        return list(connection.connect_default().devices)

    def default_dtypes(self, *, device: DeviceLike = None) -> dict[str, np.dtype[Any] | None]:
        """The dtypes of arrays that are made without one. There is no complex one: None."""
        return {
            "real floating": float64,
            "complex floating": None,
            "integral": int64,
            "indexing": int64,
        }

    def dtypes(
        self, *, device: DeviceLike = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype[Any]]:
        """The standard's dtypes by their names, all or those of a kind."""
        named = {str(dtype): dtype for dtype in ALL if dtype != float16}
        return {n: d for n, d in named.items() if kind is None or isdtype(d, kind)}
