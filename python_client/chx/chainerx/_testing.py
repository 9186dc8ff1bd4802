"""Arrays for tests: with given strides, and from a buffer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import chx
from chx._compat import Self
from chx._core import ndarray
from chx._numpy import transfer
from chx._types import DeviceLike, DtypeLike, NumpyArray, Shape


class _DeviceBuffer(NumpyArray):
    """An object with the buffer protocol: a list's values, in C order.

    The memory is this process's; `device` is where an array of it is to be.
    """

    def __new__(cls, data: Any, shape: Shape, dtype: DtypeLike, device: DeviceLike = None) -> Self:
        if chx.dtype(dtype).type not in chx.all_dtypes:
            raise chx.DtypeError(f"unsupported dtype: {chx.dtype(dtype)}")
        buffer = np.array(data, chx.dtype(dtype)).reshape(shape).view(cls)
        buffer._device = chx.get_device(device)
        return buffer

    def __array_finalize__(self, base: Any) -> None:
        self._device = getattr(base, "_device", None)

    @property
    def device(self) -> Any:
        """A Device, or None; NumPy's own says "cpu"."""
        return self._device


def _fromnumpy(array: Any, keepstrides: bool = False, device: DeviceLike = None) -> ndarray:
    """An array with a NumPy array's values and, with `keepstrides`, its strides.

    Raises:
      NotImplementedError (chx's): the strides are no multiples of the elements' size.
    """
    array = np.asarray(array)
    if not keepstrides:
        return chx.array(array, device=device)
    if chx.dtype(array.dtype).type not in chx.all_dtypes:
        raise chx.DtypeError(f"unsupported dtype: {array.dtype}")
    result = transfer.upload_strided(array, device, math.inf)
    if result is None:
        raise chx.NotImplementedError(f"[_fromnumpy] does not support the strides {array.strides}")
    return result
