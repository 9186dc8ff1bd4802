"""Arrays from nothing, from numbers and from other arrays. Floats are float64, integers int64."""

from __future__ import annotations

import builtins
from typing import Any, Literal, cast

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._numpy import creation, dlpack, transfer
from chx._types import DeviceLike, Dtype, Scalar, Shape
from chx.array_api import _dtypes


def asarray(
    obj: Any, /, *, dtype: Dtype | None = None, device: DeviceLike = None, copy: bool | None = None
) -> ndarray:
    """An array from an array, numbers in nested sequences, or what NumPy makes an array of.

    `copy`: True makes one always; None, where it must; False never.

    Raises:
      DtypeError: chxd has no arrays of that dtype.
      ValueError: there is no way without a copy, and `copy` is False.
    """
    dtype = None if dtype is None else _dtypes.dtype_of(dtype)
    if isinstance(obj, _core.ndarray):
        same_device = device is None or _core._get_device(device) is obj.device
        if copy is False and not (same_device and dtype in (None, obj.dtype)):
            raise ValueError("[asarray] expects an array of that dtype and device if copy is False")
        return creation.array(obj, dtype, builtins.bool(copy), device)
    if copy is False:
        shared = transfer.same_memory(obj, device) if isinstance(obj, np.ndarray) else None
        if shared is None or dtype not in (None, shared.dtype):
            raise ValueError("[asarray] expects an array over chx's memory if copy is False")
        return shared
    return creation.array(_plain(obj), dtype, device=device)


def _plain(obj: Any) -> Any:
    """Nested lists with our arrays taken out: NumPy would read them element by element."""
    if isinstance(obj, _core.ndarray):
        return transfer.to_numpy(obj)
    return [_plain(item) for item in obj] if isinstance(obj, (list, tuple)) else obj


def arange(
    start: Scalar,
    /,
    stop: Scalar | None = None,
    step: Scalar = 1,
    *,
    dtype: Dtype | None = None,
    device: DeviceLike = None,
) -> ndarray:
    """Evenly spaced numbers from start (0 if it is the only one) to before stop."""
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        whole = builtins.all(isinstance(x, (int, np.integer)) for x in (start, stop, step))
        dtype = _dtypes.int64 if whole else _dtypes.float64
    return _core.arange(start, stop, step, _dtypes.dtype_of(dtype), device)


def _float(dtype: Any) -> np.dtype[Any]:
    return _dtypes.float64 if dtype is None else _dtypes.dtype_of(dtype)


def empty(shape: int | Shape, *, dtype: Dtype | None = None, device: DeviceLike = None) -> ndarray:
    """An array of unspecified values."""
    return _core.empty(shape, _float(dtype), device)


def zeros(shape: int | Shape, *, dtype: Dtype | None = None, device: DeviceLike = None) -> ndarray:
    """An array of zeros."""
    return _core.zeros(shape, _float(dtype), device)


def ones(shape: int | Shape, *, dtype: Dtype | None = None, device: DeviceLike = None) -> ndarray:
    """An array of ones."""
    return _core.ones(shape, _float(dtype), device)


def full(
    shape: int | Shape,
    fill_value: Scalar | ndarray,
    *,
    dtype: Dtype | None = None,
    device: DeviceLike = None,
) -> ndarray:
    """An array of one number; without a dtype, of the number's kind.

    Raises:
      OverflowError: the number is an integer out of the dtype's range.
    """
    if isinstance(fill_value, _core.ndarray):
        dtype = fill_value.dtype if dtype is None else dtype
        fill_value = fill_value.item()
    dtype = np.asarray(fill_value).dtype if dtype is None else dtype
    dtype = _dtypes.dtype_of(dtype)
    limits = np.iinfo(dtype) if dtype.kind in "iu" else None
    if limits is not None and not limits.min <= cast(float, fill_value) <= limits.max:
        raise OverflowError(f"[full] expects a number that {dtype} holds, got {fill_value}")
    return _core.full(shape, fill_value, dtype, device)


def _like(x: ndarray, dtype: Any, device: DeviceLike) -> tuple[Shape, np.dtype[Any], DeviceLike]:
    dtype = x.dtype if dtype is None else _dtypes.dtype_of(dtype)
    return x.shape, dtype, x.device if device is None else device


def empty_like(x: ndarray, /, *, dtype: Dtype | None = None, device: DeviceLike = None) -> ndarray:
    """An array of x's shape, of unspecified values."""
    return _core.empty(*_like(x, dtype, device))


def zeros_like(x: ndarray, /, *, dtype: Dtype | None = None, device: DeviceLike = None) -> ndarray:
    """Zeros of x's shape."""
    return _core.zeros(*_like(x, dtype, device))


def ones_like(x: ndarray, /, *, dtype: Dtype | None = None, device: DeviceLike = None) -> ndarray:
    """Ones of x's shape."""
    return _core.ones(*_like(x, dtype, device))


def full_like(
    x: ndarray,
    /,
    fill_value: Scalar | ndarray,
    *,
    dtype: Dtype | None = None,
    device: DeviceLike = None,
) -> ndarray:
    """One number in x's shape; of x's dtype unless another is named."""
    shape, dtype, device = _like(x, dtype, device)
    return full(shape, fill_value, dtype=dtype, device=device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Dtype | None = None,
    device: DeviceLike = None,
) -> ndarray:
    """Ones on the k-th diagonal of a matrix, zeros elsewhere."""
    n_cols = n_rows if n_cols is None else n_cols
    k = max(-n_rows, min(k, n_cols))  # beyond there is nothing, however far
    return _core.eye(n_rows, n_cols, k, _float(dtype), device)


def linspace(
    start: Scalar,
    stop: Scalar,
    /,
    num: int,
    *,
    dtype: Dtype | None = None,
    device: DeviceLike = None,
    endpoint: bool = True,
) -> ndarray:
    """`num` evenly spaced numbers from start to stop, which is the last one or left out."""
    return _core.linspace(start, stop, num, endpoint, _float(dtype), device)


def meshgrid(*arrays: ndarray, indexing: Literal["xy", "ij"] = "xy") -> list[ndarray]:
    """Coordinate arrays of a grid from one-dimensional ones, as a list.

    Raises:
      ValueError: the dtypes differ.
    """
    if len({x.dtype for x in arrays}) > 1:
        raise ValueError(f"[meshgrid] expects one dtype, got {[str(x.dtype) for x in arrays]}")
    return creation.meshgrid(*arrays, indexing=indexing)


def tril(x: ndarray, /, *, k: int = 0) -> ndarray:
    """The lower triangles of matrices: zeros above the k-th diagonal."""
    return _core.tril(x, k)


def triu(x: ndarray, /, *, k: int = 0) -> ndarray:
    """The upper triangles of matrices: zeros below the k-th diagonal."""
    return _core.triu(x, k)


def from_dlpack(x: Any, /, *, device: DeviceLike = None, copy: bool | None = None) -> ndarray:
    """An array with the values of another library's array; see chx.from_dlpack().

    Raises:
      AttributeError: x has no __dlpack__().
      BufferError: x cannot be shown in host memory.
      ValueError: `copy` is False, but there is no way without one.
    """
    return dlpack.from_dlpack(x, device, copy)
