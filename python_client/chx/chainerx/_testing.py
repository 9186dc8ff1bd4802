"""Arrays for tests: with given strides, and from a buffer."""

import math

import numpy as np

import chx
from chx import _support


class _DeviceBuffer(np.ndarray):
    """An object with the buffer protocol: a list's values, in C order.

    The memory is this process's; `device` is where an array of it is to be.
    """

    def __new__(cls, data, shape, dtype, device=None):
        if chx.dtype(dtype).type not in chx.all_dtypes:
            raise chx.DtypeError(f"unsupported dtype: {chx.dtype(dtype)}")
        buffer = np.array(data, chx.dtype(dtype)).reshape(shape).view(cls)
        buffer.device = chx.get_device(device)
        return buffer

    def __array_finalize__(self, base):
        self.device = getattr(base, "device", None)


def _fromnumpy(array, keepstrides=False, device=None):
    """An array with a NumPy array's values and, with `keepstrides`, its strides.

    Raises:
      NotImplementedError (chx's): the strides are no multiples of the elements' size.
    """
    array = np.asarray(array)
    if not keepstrides:
        return chx.array(array, device=device)
    if chx.dtype(array.dtype).type not in chx.all_dtypes:
        raise chx.DtypeError(f"unsupported dtype: {array.dtype}")
    result = _support.upload_strided(array, device, math.inf)
    if result is None:
        raise chx.NotImplementedError(f"[_fromnumpy] does not support the strides {array.strides}")
    return result
