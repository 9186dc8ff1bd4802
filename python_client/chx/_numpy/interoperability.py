"""NumPy's chapter "Interoperability": arrays as arguments of NumPy's functions and of other libraries."""

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from chx import _core
from chx._autograd import modes
from chx._core import Device, ndarray
from chx._numpy import creation, transfer
from chx._types import NumpyArray

_unseen = threading.local()  # .error: the array and what its last buffer has raised


def buffer(self: ndarray, flags: int) -> memoryview:
    """What memoryview(a) and numpy.asarray(a) see: the memory that to_numpy(a, copy=False) shows.

    Over a Unix socket that is the array's own, writable unless it is in a graph, whose gradients
    need the values; else a copy that is read-only.
    """
    _unseen.error = None
    try:
        view = transfer.to_numpy(self, copy=False).data
    except BaseException as error:  # NumPy drops it, and asks for __array__ then
        _unseen.error = self, error
        raise
    return view.toreadonly() if self.is_backprop_required(modes.anygraph) else view


def array_of(self: ndarray, dtype: Any = None) -> NumpyArray:
    """For those who ask for __array__(): a NumPy array with a copy of the values."""
    unseen: tuple[ndarray, BaseException] | None = getattr(_unseen, "error", None)
    _unseen.error = None
    if unseen is not None and unseen[0] is self:
        raise unseen[1]
    values = transfer.to_numpy(self)
    return values if dtype is None else values.astype(dtype, copy=False)


def array_ufunc(self: ndarray, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """NumPy's part in expressions that mix both kinds of arrays, as ChainerX has it.

    A NumPy number is a number. Else, if an array of ours is first, it counts as an object array of
    its elements; if it is second, it is not for NumPy to say.
    """
    if isinstance(inputs[0], np.ndarray) and inputs[0].ndim == 0:
        inputs = (inputs[0][()], *inputs[1:])  # what NumPy makes of a number in comparisons
    if method == "__call__" and not kwargs and len(inputs) == 2 and any(map(np.isscalar, inputs)):
        operator = getattr(_core, ufunc.__name__, None)
        return NotImplemented if operator is None else operator(*inputs)
    if not isinstance(inputs[0], _core.ndarray):
        return NotImplemented
    return getattr(ufunc, method)(*map(_as_objects, inputs), **kwargs)


def _as_objects(a: Any) -> Any:
    if not isinstance(a, _core.ndarray):
        return a
    objects = np.empty(a.shape, object)
    for index in np.ndindex(*a.shape):
        objects[index] = a[index]
    return objects


# What has functions of the names of NumPy's modules.
_namespaces: dict[str, ModuleType] = {}


def register_namespaces(names: ModuleType, linalg: ModuleType) -> None:
    """Tells __array_function__() where to look for the functions of numpy and numpy.linalg."""
    _namespaces.update({"numpy": names, "numpy.linalg": linalg})


_WRITING = {np.copyto, np.put, np.putmask, np.place, np.put_along_axis, np.fill_diagonal}


def array_function(
    self: ndarray,
    func: Callable[..., Any],
    types: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """What NumPy's functions do with arrays of ours: the function of that name here, if any.

    NumPy arrays where it expects one of ours go to the device of the one that there is.
    """
    own = getattr(_namespaces.get(func.__module__), func.__name__, None)
    if own is None:
        return NotImplemented
    if args and isinstance(args[0], np.ndarray):
        if func in _WRITING:
            return NotImplemented  # a copy would be written
        args = (creation.array(args[0], device=self.device), *args[1:])
    if not isinstance(own, type(_core.add)):
        return own(*args, **kwargs)
    try:
        return own(*args, **kwargs)
    except TypeError:  # raised before anything was done
        ours = [_ours(a, self.device) for a in args]
        if all(a is b for a, b in zip(ours, args, strict=True)):
            raise
        return own(*ours, **kwargs)


def _ours(a: Any, device: Device) -> Any:
    if isinstance(a, np.ndarray):
        return creation.array(a, device=device)
    if isinstance(a, (list, tuple)) and any(isinstance(x, np.ndarray) for x in a):
        return [_ours(x, device) for x in a]
    return a


def dlpack(
    self: ndarray,
    *,
    stream: Any = None,
    max_version: Any = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule over a copy of the values, in the memory of this process.

    Raises:
      BufferError: `copy` is False, or the device is not the CPU.
    """
    if copy is False or dl_device not in (None, (1, 0)):
        raise BufferError(f"[dlpack] gives a copy in host memory, not {copy=} on {dl_device}")
    return transfer.to_numpy(self).__dlpack__()


def dlpack_device(self: ndarray) -> tuple[int, int]:
    return 1, 0  # a copy in the memory of this process
