"""Reads that asyncio programs await.

A read takes its place in the order of commands when it is called, not when it is awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from chx import _core
from chx._autograd import modes
from chx._core import ndarray
from chx._numpy import transfer
from chx._runtime import connection
from chx._types import NumpyArray

_T = TypeVar("_T")


def _now(array: ndarray) -> ndarray:
    """The array's values as they are at the call, whatever is written to it later."""
    with modes.no_backprop_mode(array.device.backend._session):
        return array.copy()


def _submit(array: ndarray, job: Callable[[], _T]) -> Coroutine[Any, Any, _T]:
    return array.device.backend._session._submit(job)


def to_numpy_async(self: ndarray, copy: bool = True) -> Coroutine[Any, Any, NumpyArray]:
    """As chx.to_numpy(), to be awaited: the values that the array has when this is called.

        values = await array.to_numpy_async()

    May be called in any thread, and awaited in any event loop, once. Until it is answered the daemon
    keeps a copy of the array, unless `copy` is False. Cancelling the task that awaits it ends the
    wait, and nothing else.

    Raises, when it is awaited, what to_numpy() raises.
    """
    source = _now(self) if copy else self
    return _submit(self, lambda: transfer.to_numpy(source, copy))


def item_async(self: ndarray) -> Coroutine[Any, Any, bool | int | float]:
    """As item(), to be awaited: the only element as a Python number, as it is at the call."""
    if self.size != 1:
        raise _core.DimensionError(
            f"[item] expects an array of one element, got shape {self.shape}"
        )
    return _submit(self, _now(self).item)


def tolist_async(self: ndarray) -> Coroutine[Any, Any, Any]:
    """As tolist(), to be awaited: nested lists of what the elements are at the call."""
    return _submit(self, _now(self).tolist)


def synchronize_async() -> Coroutine[Any, Any, None]:
    """To be awaited: until all that was called in the default session is done."""
    return connection.connect_default().synchronize_async()
