"""Arrays for tests: with given strides, and from a buffer."""

import numpy as np

import chx


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

    The strides of axes of length one, which have no meaning, may differ.

    Raises:
      NotImplementedError (chx's): elements overlap in another way than by broadcasting.
    """
    array = np.asarray(array)
    if not keepstrides or array.flags.c_contiguous or array.size == 0:
        return chx.array(array, device=device)
    broadcast = [i for i, s in enumerate(array.strides) if s == 0]
    index = tuple(slice(0, 1) if i in broadcast else slice(None) for i in range(array.ndim))
    # Widest strides first: each axis is then cut from the one before.
    order = sorted(
        (i for i in range(array.ndim) if i not in broadcast), key=lambda i: -abs(array.strides[i])
    )
    core = array[index].transpose(order + broadcast).reshape([array.shape[i] for i in order])
    flipped = tuple(slice(None, None, -1 if array.strides[i] < 0 else 1) for i in order)
    result = _strided(core[flipped], [abs(array.strides[i]) for i in order], device)[flipped]
    for _ in broadcast:
        result = chx.expand_dims(result, result.ndim)
    result = result.transpose(tuple(map(int, np.argsort(order + broadcast))))
    return chx.broadcast_to(result, array.shape) if broadcast else result


def _strided(values, strides, device):
    """An array with the values and the strides, which are positive and descend."""
    steps = [s // values.itemsize for s in strides]
    spans = [n * step for n, step in zip(values.shape, steps, strict=True)]
    if any(s % values.itemsize for s in strides) or any(
        span > step for span, step in zip(spans[1:], steps, strict=False)
    ):
        raise chx.NotImplementedError(f"[_fromnumpy] does not support the strides {strides}")
    if not spans:
        return chx.array(values, device=device)
    memory = np.zeros(spans[0], values.dtype)
    np.lib.stride_tricks.as_strided(memory, values.shape, strides)[...] = values
    result = chx.array(memory, device=device)
    for i, step in enumerate(steps):
        # What an axis does not reach of the one before is cut off; the rest is the axis.
        result = result[..., : spans[i]].reshape(*values.shape[: i + 1], step)
    return result[..., 0]
