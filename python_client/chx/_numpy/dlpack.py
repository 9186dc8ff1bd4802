"""DLPack: arrays to and from PyTorch, JAX and others, over the same memory where that can be."""

from __future__ import annotations

from typing import Any

import numpy as np

from chx import _core
from chx._autograd import modes
from chx._compat import zip_strict
from chx._core import ndarray
from chx._numpy import transfer
from chx._types import DeviceLike, NumpyArray, is_bfloat16

HOST = (1, 0)  # kDLCPU: the memory of this process

# From here on an array of strides goes into shared memory in one copy, at the cost of a wait.
_LARGE = 4 << 20


class CopyError(BufferError, ValueError):
    """There is no way without a copy. The array API standard names both of its bases."""


def export(
    self: ndarray,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule in the memory of this process, of the array's own memory where it can be.

    That is the memory of to_numpy(copy=False), with its strides: what either side writes, the other
    sees. As long as the capsule, or who took it, lives, so does the memory. It is read-only for an
    array that is in a graph or broadcast; the capsule says so if `max_version` is (1, 0) or more.
    Else, and of what only operators may write because other sessions have it too, of negative
    strides, and of memory that cannot be seen from here, it holds a copy in C order.

    Raises:
      BufferError: the device is not the CPU, or `copy` is False, but there is no way without one.
    """
    if stream is not None:
        raise BufferError(f"[dlpack] expects stream=None for memory of the host, got {stream}")
    if dl_device is not None and tuple(dl_device) != HOST:
        raise BufferError(f"[dlpack] expects dl_device={HOST}, memory of the host, got {dl_device}")
    versioned = max_version is not None and max_version[0] >= 1
    view = None if copy else _view(self, versioned, copy is False)
    copied = view is None
    values = transfer.to_numpy(self) if view is None else view
    bfloat16 = is_bfloat16(values.dtype)
    memory = values.view(np.uint16) if bfloat16 else values
    return _core._dlpack_export(memory, versioned, copied, bfloat16)


def device(self: ndarray) -> tuple[int, int]:
    """DLPack's CPU: an array on another device is copied from there."""
    return HOST


def _view(array: ndarray, versioned: bool, must: bool) -> NumpyArray | None:
    """The array's memory for a capsule. None: it is to be copied, or BufferError if it must not."""
    if array.size == 0:
        return transfer.to_numpy(array)  # which has no memory
    view = transfer.shared_view(array)
    why = ""
    if view is None:
        why = f"this process does not share the memory of {array.device.name}"
    else:
        shared_with_others = not view.flags.writeable and not _pages_are_writable(array)
        if array.is_backprop_required(modes.anygraph):
            view.flags.writeable = False  # gradients need the values
        if not versioned and not view.flags.writeable:
            why = "the memory is read-only, which capsules before max_version=(1, 0) cannot say"
        # PyTorch does not look at the flag, and a write there would end the process. Few take
        # negative strides.
        elif not must and (shared_with_others or _goes_backwards(view)):
            return None
    if why and must:
        raise BufferError(f"[dlpack] expects copy=None or True: {why}")
    return None if why else view


def _pages_are_writable(array: ndarray) -> bool:
    """Whether memory that is shown as read-only is so for being that of a broadcast array only."""
    once = tuple(slice(0, 1) if s == 0 else slice(None) for s in array.strides)
    with modes.no_backprop_mode():
        view = transfer.shared_view(array[once])
    return view is not None and view.flags.writeable


def _goes_backwards(view: NumpyArray) -> bool:
    return any(s < 0 and n > 1 for n, s in zip_strict(view.shape, view.strides))


def from_dlpack(x: Any, device: DeviceLike = None, copy: bool | None = None) -> ndarray:
    """An array with the values of another library's array in host memory, by DLPack.

    It is a copy, in no graph, unless x lies in the memory of an array of the default session's that
    is shown to this process, as what torch.from_dlpack(a) gave does: then it is an array over that
    memory, on its device. An array of chx gives one over its memory, too, unless it is in a graph.

    `copy`: True makes one always; None, where it must; False never.

    Raises:
      AttributeError: x has no __dlpack__().
      BufferError: x is not in host memory and cannot be copied there, or DLPack has a dtype for it that
        NumPy has not.
      ValueError: `copy` is False, but there is no way without one.
    """
    if isinstance(x, _core.ndarray):
        return _from_own(x, device, copy)
    # Old versions of NumPy don't show what is read-only.
    values = x if isinstance(x, np.ndarray) else _imported(_capsule(x, copy is False))
    if not copy and values.size:
        # As it is known; without a device, wherever it is.
        session = _core._get_default_session()
        own = session.devices if device is None and session is not None else (device,)
        for each in own:
            if (shared := transfer.same_memory(values, each)) is not None:
                return shared
    if copy is False and values.size:
        raise CopyError(
            "[from_dlpack] expects copy=None or True: the memory is of this process, and not that of "
            "an array of the session's that this process sees, on that device"
        )
    if values.nbytes >= _LARGE and not values.flags.c_contiguous:
        array = _core.empty(values.shape, values.dtype, device)
        view = transfer.shared_view(array)
        if view is not None:
            view[...] = values
            return array
    return transfer.upload(values, device=device)


def _from_own(x: ndarray, device: DeviceLike, copy: bool | None) -> ndarray:
    moved = device is not None and _core._get_device(device) is not x.device
    in_graph = x.is_backprop_required(modes.anygraph)
    if copy is False and (moved or in_graph):
        why = "it is on another device" if moved else "it is in a graph"
        raise CopyError(f"[from_dlpack] expects copy=None or True for the array: {why}")
    apart = x.as_grad_stopped()
    if device is not None and moved:
        return apart.to_device(device)
    return apart.copy() if copy or in_graph else apart


def _imported(capsule: Any) -> NumpyArray:
    memory = _core._dlpack_import(capsule)
    values = np.asarray(memory)
    return values.view("bfloat16") if _core._dlpack_is_bfloat16(memory) else values


def _capsule(x: Any, never_copied: bool) -> Any:
    """What x shows in host memory, by the newest protocol that it has."""
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise AttributeError(
            f"[from_dlpack] expects an array with __dlpack__(), got {type(x).__name__}"
        )
    asked: dict[str, Any] = {"max_version": (1, 0)}
    if never_copied:
        asked["copy"] = False
    if tuple(x.__dlpack_device__()) != HOST:
        asked["dl_device"] = HOST
    try:
        return x.__dlpack__(**asked)
    except TypeError:  # it is of before DLPack 1
        return x.__dlpack__()
