"""Reads that asyncio programs await. Imported for its effect on chx.ndarray.

A read takes its place in the order of commands when it is called, not when it is awaited.
"""

from chx import _autograd, _core, _sessions, _support


def _now(array):
    """The array's values as they are at the call, whatever is written to it later."""
    with _autograd.no_backprop_mode(array.device.backend._session):
        return array.copy()


def _submit(array, job):
    return array.device.backend._session._submit(job)


def to_numpy_async(self, copy=True):
    """As chx.to_numpy(), to be awaited: the values that the array has when this is called.

        values = await array.to_numpy_async()

    May be called in any thread, and awaited in any event loop, once. Until it is answered the daemon
    keeps a copy of the array, unless `copy` is False. Cancelling the task that awaits it ends the
    wait, and nothing else.

    Raises, when it is awaited, what to_numpy() raises.
    """
    source = _now(self) if copy else self
    return _submit(self, lambda: _support.to_numpy(source, copy))


def item_async(self):
    """As item(), to be awaited: the only element as a Python number, as it is at the call."""
    if self.size != 1:
        raise _core.DimensionError(
            f"[item] expects an array of one element, got shape {self.shape}"
        )
    return _submit(self, _now(self).item)


def tolist_async(self):
    """As tolist(), to be awaited: nested lists of what the elements are at the call."""
    return _submit(self, _now(self).tolist)


def synchronize_async():
    """To be awaited: until all that was called in the default session is done."""
    return _sessions.connect_default().synchronize_async()


for _method in (to_numpy_async, item_async, tolist_async):
    _core._add_array_attribute(_method.__name__, _method)
