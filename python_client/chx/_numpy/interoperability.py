"""NumPy's chapter "Interoperability": arrays as arguments of NumPy's functions and of other libraries."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from chx import _core
from chx._autograd import modes
from chx._core import ndarray
from chx._numpy import creation, transfer, ufuncs
from chx._types import NumpyArray, is_bfloat16

_unseen = threading.local()  # .error: the array and what its last buffer has raised


def buffer(self: ndarray, flags: int) -> memoryview:
    """What memoryview(a) and numpy.asarray(a) see: the memory that to_numpy(a, copy=False) shows.

    Over a Unix socket that is the array's own, writable unless it is in a graph, whose gradients
    need the values; else a copy that is read-only.
    """
    _unseen.error = None
    if is_bfloat16(self.dtype):
        raise BufferError("[buffer] expects a dtype that buffers have a format for, got bfloat16")
    try:
        view = transfer.to_numpy(self, copy=False).data
    except BaseException as error:  # NumPy drops it, and asks for __array__ then
        _unseen.error = self, error
        raise
    return view.toreadonly() if self.is_backprop_required(modes.anygraph) else view


def array_of(self: ndarray, dtype: Any = None, copy: bool | None = None) -> NumpyArray:
    """For those who ask for __array__(): a NumPy array with a copy of the values.

    Raises:
      ValueError: `copy` is False, but the memory cannot be seen from here, or is of another dtype.
    """
    unseen: tuple[ndarray, BaseException] | None = getattr(_unseen, "error", None)
    _unseen.error = None
    if unseen is not None and unseen[0] is self:
        raise unseen[1]
    if copy is not None and not copy:
        if (dtype is not None and np.dtype(dtype) != self.dtype) or _core._export(self) is None:
            raise ValueError(f"[__array__] expects copy=True or None for {self.dtype} as {dtype}")
        return transfer.to_numpy(self, copy=False)
    values = transfer.to_numpy(self)
    return values if dtype is None else values.astype(dtype, copy=False)


# What has functions of the names of NumPy's modules.
_namespaces: dict[str, ModuleType] = {}


def register_namespaces(names: ModuleType, linalg: ModuleType) -> None:
    """Tells the protocols of NumPy where to look for the functions of numpy and numpy.linalg."""
    _namespaces.update({"numpy": names, "numpy.linalg": linalg})
    ufuncs.register_namespace(names)


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
    return own(*args, **kwargs)
