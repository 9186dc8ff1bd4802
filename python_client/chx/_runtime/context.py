"""Contexts and their graphs, and which of them a thread uses by default.

A context is a session with a daemon, seen as ChainerX's API sees it. There is a global default
context, and each thread may have one of its own, and a default device.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar, SupportsIndex

from chx import _core
from chx._compat import Self
from chx._core import Device
from chx._runtime import defaults, session

if TYPE_CHECKING:
    from chx._runtime.devices import Backend


class Context:
    """Backends, devices and graphs that belong together.

    A new context is a further session with the daemon of the global default one, or of what was that
    last. It begins when it is first needed, and ends with the process. Arrays of different contexts
    don't mix.
    """

    __slots__ = ("_session", "_closed", "__weakref__")

    def __init__(self) -> None:
        self._session: session.Session | None = None
        self._closed = False  # the session that it had

    def _open(self) -> session.Session:
        """Its session; connects if there never was one."""
        if self._closed:
            raise ConnectionError("the session of the context is closed")
        if self._session is not None:
            return self._session
        if self is initial_context:
            opened = session.open_session()
            use_globally(opened)  # which binds this context
        else:
            opened = session.open_beside(_neighbour())
            bind(self, opened)
        return opened

    def get_backend(self, name: str) -> Backend:
        """The backend of that name; BackendError if the daemon does not serve it."""
        devices = self._open().devices
        for device in devices:
            if device.backend.name == name:
                return device.backend
        served = ", ".join(device.name for device in devices)
        raise _core.BackendError(f"the daemon does not serve backend '{name}': it serves {served}")

    def get_device(self, device: str, index: SupportsIndex | None = None) -> Device:
        """A device by its name, or by its backend's name and its index.

        Raises:
          BackendError, IndexError: the daemon does not serve it.
        """
        return _core._find_device(self._open(), device_name(device, index))

    def make_backprop_id(self, backprop_name: str) -> BackpropId:
        """A new graph of this context, until release_backprop_id."""
        return make_backprop_id(self._open(), backprop_name)

    def release_backprop_id(self, backprop_id: BackpropId) -> None:
        """Ends a graph. ChainerxError if it has ended, or is the default one."""
        release_backprop_id(self._open(), backprop_id)

    def _check_valid_backprop_id(self, backprop_id: BackpropId) -> None:
        """ChainerxError unless the graph is open, and one of this context."""
        check_backprop_id(self._open(), backprop_id)


class BackpropId:
    """One of the graphs that arrays can be in, besides the default one."""

    # By number, of the graphs that are open.
    _names: ClassVar[dict[int, str]] = {0: "<default>"}

    def __init__(self, name: str, number: int, session: session.Session | None = None) -> None:
        self.name = name
        self._id = number
        self._session = session
        BackpropId._names[number] = name

    @property
    def context(self) -> Context:
        """The context that the graph is of."""
        return context_of(self._session)

    def __repr__(self) -> str:
        return self.name


def id_name(number: int) -> str:
    """The name of the graph of that number, "<expired>" if there is none any more."""
    return BackpropId._names.get(number, "<expired>")


def make_backprop_id(owner: session.Session, backprop_name: str) -> BackpropId:
    """A new graph of a session, until release_backprop_id."""
    return BackpropId(backprop_name, _core._new_backprop_id(owner, backprop_name), owner)


def release_backprop_id(owner: session.Session, backprop_id: BackpropId) -> None:
    """Ends a graph; arrays forget what they were in it. ChainerxError if it is not open."""
    _core._release_backprop_id(owner, backprop_id._id)
    backprop_id.name = "<expired>"
    del BackpropId._names[backprop_id._id]


def check_backprop_id(owner: session.Session, backprop_id: BackpropId) -> None:
    """ChainerxError unless the graph is one of the session, and open."""
    _core._check_backprop_id(owner, backprop_id._id)


# The global default context until there is another; functions without one use it.
initial_context = Context()


def bind(context: Context, bound: session.Session) -> None:
    context._session = bound
    context._closed = False
    bound._context = context


def context_of(owner: session.Session | None) -> Context:
    """The session's context."""
    context = None if owner is None else owner._context
    if context is None:
        # After a session was closed, the initial context goes on with the next one.
        context = initial_context if initial_context._session is None else Context()
        if owner is not None:
            bind(context, owner)
    return context


def global_session() -> session.Session:
    """The session of the global default context; connects if need be, unless that was reset."""
    return get_global_default_context()._open()


def _neighbour() -> session.Session:
    """A session whose daemon a new context joins."""
    if defaults.has_context:
        return global_session()
    if defaults.last_session is not None:
        return defaults.last_session
    thread = _core._get_thread_session(), _core._get_thread_device()
    opened = initial_context._open()
    # Connecting made defaults of it, which the caller has reset.
    set_global_default_context(None)
    _core._set_thread_session(thread[0])
    _core.set_default_device(thread[1])
    return opened


def use_globally(opened: session.Session) -> None:
    """Makes a session what functions without a context use, in the calling thread too."""
    defaults.has_context, defaults.closed = True, False
    _core._set_thread_session(None)
    _core._set_default_session(opened)
    context_of(opened)


def get_global_default_context() -> Context:
    """The context of threads that have none of their own.

    Raises:
      ContextError: it was set to None.
      ConnectionError: its session was closed.
    """
    current = _core._get_global_session()
    if current is not None:
        return context_of(current)
    if not defaults.has_context:
        raise _core.ContextError("there is no global default context")
    if defaults.closed:
        raise ConnectionError("the default session was closed: call chx.connect() again")
    if initial_context._session is None:
        return initial_context
    opened = session.open_session()
    use_globally(opened)
    return context_of(opened)


def set_global_default_context(context: Context | None) -> None:
    """Sets the context of threads that have none of their own; None: there is no such context."""
    _check_context(context)
    defaults.last_session = _core._get_global_session() or defaults.last_session
    chosen = None
    if context is not None:
        never = context is initial_context and context._session is None and not context._closed
        chosen = None if never else context._open()
    _core._set_default_session(chosen)
    defaults.has_context, defaults.closed = context is not None, False


def get_default_context() -> Context:
    """The calling thread's context, or else the global default one.

    Raises:
      ContextError: there is neither.
    """
    current = _core._get_thread_session()
    return get_global_default_context() if current is None else context_of(current)


def set_default_context(context: Context | None) -> None:
    """Sets the calling thread's context, or resets it with None. Its default device is reset."""
    _check_context(context)
    _core._set_thread_session(None if context is None else context._open())


def _check_context(context: object) -> None:
    if context is not None and not isinstance(context, Context):
        raise TypeError(f"expected a Context or None, got {type(context).__name__}")


class ContextScope:
    """Makes a context the calling thread's default within a with-block."""

    def __init__(self, context: Context) -> None:
        _check_context(context)
        self._context = context
        self._previous: list[tuple[session.Session | None, Device | None]] = []

    def __enter__(self) -> Self:
        self._previous.append((_core._get_thread_session(), _core._get_thread_device()))
        set_default_context(self._context)
        return self

    def __exit__(self, *_: object) -> None:
        previous, device = self._previous.pop()
        _core._set_thread_session(previous)
        _core.set_default_device(device)


def context_scope(context: Context) -> ContextScope:
    """A ContextScope: the context is the calling thread's default within a with-block."""
    return ContextScope(context)


def device_name(device: str, index: SupportsIndex | None) -> str:
    if not isinstance(device, str):
        raise TypeError(f"expected a device's name, got {type(device).__name__}")
    if index is None:
        return device
    if not hasattr(index, "__index__"):
        raise TypeError(f"expected a device's index, got {type(index).__name__}")
    return f"{device}:{index.__index__()}"


def _after_fork() -> None:
    defaults.reset()
    initial_context._session = None
    initial_context._closed = False


os.register_at_fork(after_in_child=_after_fork)
