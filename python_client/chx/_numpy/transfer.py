"""Values on their way between the memory of NumPy and that of the daemon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chx import _core
from chx._autograd import modes
from chx._compat import zip_strict
from chx._core import Device, ndarray
from chx._types import DeviceLike, DtypeLike, NumpyArray, is_float

# From here on the system's allocator gives memory back and makes it anew, small page by small page.
_LARGE_RESULT = 4 << 20


def to_numpy(array: ndarray, copy: bool = True) -> NumpyArray:
    """The array's values as a new NumPy array; waits for them.

    Without `copy` and for an array on "native" of a daemon reached over a Unix socket, the NumPy
    array is the array's memory itself, with its strides: what either side writes, the other sees.
    All that was called before has run by then, and as long as the NumPy array lives, operators on
    that memory have run when their calls return. It is a read-only copy when the daemon is on another
    host or the session has no memory left to share. Of an array on another backend, such as a GPU's,
    it is always a copy, which may be written.

    Copies of 4 MiB and more lie in memory that the library uses again when nobody has them (at most
    256 MiB idle, which the system may take back): their `base` is not None.
    """
    if not isinstance(array, _core.ndarray):
        raise TypeError(f"expected an ndarray, got {type(array).__name__}")
    shared = None if copy else shared_view(array)
    if shared is not None:
        return shared
    if array.nbytes < _LARGE_RESULT:
        out = np.empty(array.shape, array.dtype)
    else:
        out = np.ndarray(array.shape, array.dtype, _core._result_memory(array.nbytes))
    _core._fetch(array, out.reshape(-1).view(np.uint8))
    # Writes that the array was expected to see fail rather than get lost.
    out.flags.writeable = bool(copy) or array.device.backend.name != "native"
    return out


def shared_view(array: ndarray) -> NumpyArray | None:
    """The array's memory itself, as to_numpy() without `copy` says. None: it is not shared."""
    shared = _core._export(array)
    if shared is None:
        return None
    memory, offset, strides = shared
    return np.ndarray(array.shape, array.dtype, memory, offset, strides)


def values_outside_graphs(
    name: str, arrays: Sequence[ndarray]
) -> tuple[list[NumpyArray], Device | None]:
    """NumPy arrays of arrays of which none is in a graph, and the device of the first."""
    for a in arrays:
        if not isinstance(a, _core.ndarray):
            raise TypeError(f"[{name}] expects ndarrays, got {type(a).__name__}")
        if a.is_backprop_required(modes.anygraph):
            raise RuntimeError(f"[{name}] has no gradient: use as_grad_stopped()")
    return [to_numpy(a) for a in arrays], arrays[0].device if arrays else None


def upload(
    object: Any, dtype: DtypeLike | None = None, copy: bool = True, device: DeviceLike = None
) -> ndarray:
    """An array of what numpy.asarray() takes; see chx.array() for `copy`.

    Raises:
      DtypeError: chx has no such dtype.
    """
    values = np.asarray(object, dtype)
    if values.dtype.hasobject:
        raise _core.DtypeError(f"unsupported dtype: {values.dtype}")
    if not copy and values is object:
        shared = same_memory(values, device)
        if shared is not None:
            return shared
        if (
            not values.flags.c_contiguous
            and (strided := upload_strided(values, device)) is not None
        ):
            return strided
    # In native byte order and C order, which is what is sent.
    flat = values.astype(values.dtype.newbyteorder("="), copy=False).ravel()
    odd = not copy and values is object and odd_strides(values)
    shape = flat.shape if odd else values.shape
    result = _core._upload(flat.view(np.uint8), flat.dtype, shape, device)
    return _core._as_strided(result, values.shape, values.strides, 0) if odd else result


def same_memory(values: NumpyArray, device: DeviceLike) -> ndarray | None:
    """The array over the memory of a NumPy array, if that is one that the daemon knows."""
    if not values.flags.writeable or not values.dtype.isnative:
        return None
    if values.dtype.kind not in "biu" and not is_float(values.dtype):
        return None
    address = values.__array_interface__["data"][0]
    try:
        return _core._import(address, values.dtype, values.shape, values.strides, device)
    except _core.DtypeError:
        return None  # which the copy says better


def odd_strides(values: NumpyArray) -> bool:
    """Whether a NumPy array in C order has strides of its own, for axes that are never stepped."""
    stride, odd = values.itemsize, False
    if not values.flags.c_contiguous or any(s % stride for s in values.strides):
        return False
    for n, s in zip_strict(reversed(values.shape), reversed(values.strides)):
        odd = odd or s != (stride if values.size else 0)
        stride *= n
    return odd


def upload_strided(
    values: NumpyArray, device: DeviceLike = None, limit: float | None = None
) -> ndarray | None:
    """A copy of a NumPy array that has its strides; zeros lie between its elements.

    None if kernels could not work with such strides, or if it takes more than `limit` bytes, by
    default 64 KiB or four times the elements'.
    """
    itemsize = values.itemsize
    before = size = 0
    if values.size:
        steps = [s * (n - 1) for n, s in zip_strict(values.shape, values.strides)]
        before = -sum(step for step in steps if step < 0)
        size = before + sum(step for step in steps if step > 0) + itemsize
    if limit is None:
        limit = max(65536, 4 * values.nbytes)
    if size > limit or not values.dtype.isnative or any(s % itemsize for s in values.strides):
        return None
    memory = np.zeros(size, np.uint8)
    if values.size:
        np.ndarray(values.shape, values.dtype, memory, before, values.strides)[...] = values
    base = _core._upload(memory, values.dtype, (size // itemsize,), device)
    return _core._as_strided(base, values.shape, values.strides, before)
