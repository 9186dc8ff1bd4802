"""Contexts, backends and devices, and which of them a thread uses by default.

A context is a session with a daemon, seen as ChainerX's API sees it. There is a global default
context, and each thread may have one of its own, and a default device.
"""

from chx import _autograd, _core


class Context:
    """Backends, devices and graphs that belong together.

    A new context is a further session with the daemon of the global default one, or of what was that
    last. It begins when it is first needed, and ends with the process. Arrays of different contexts
    don't mix.
    """

    __slots__ = ("_session", "_closed", "__weakref__")

    def __init__(self):
        self._session = None
        self._closed = False  # the session that it had

    def _open(self):
        """Its session; connects if there never was one."""
        from chx import _sessions

        if self._closed:
            raise ConnectionError("the session of the context is closed")
        if self._session is None and self is initial_context:
            _sessions.connect()  # which binds this context
        elif self._session is None:
            bind(self, _sessions.connect_beside(_neighbour()))
        return self._session

    def get_backend(self, name):
        """The backend of that name; BackendError if the daemon does not serve it."""
        for device in self._open().devices:
            if device.backend.name == name:
                return device.backend
        raise _core.BackendError(f"the daemon does not serve backend '{name}'")

    def get_device(self, device, index=None):
        """A device by its name, or by its backend's name and its index.

        Raises:
          BackendError, IndexError: the daemon does not serve it.
        """
        return _core._find_device(self._open(), device_name(device, index))

    def make_backprop_id(self, backprop_name):
        """A new graph of this context, until release_backprop_id."""
        return _autograd.make_backprop_id(self._open(), backprop_name)

    def release_backprop_id(self, backprop_id):
        """Ends a graph. ChainerxError if it has ended, or is the default one."""
        _autograd.release_backprop_id(self._open(), backprop_id)

    def _check_valid_backprop_id(self, backprop_id):
        """ChainerxError unless the graph is open, and one of this context."""
        _autograd.check_backprop_id(self._open(), backprop_id)


class Backend:
    """What the devices of one kind have in common; there is one object for each in a context."""

    __slots__ = ("name", "_open_session", "_context")

    def __init__(self, name, session):
        self.name = name
        self._open_session = session
        self._context = None  # after the session was closed

    @property
    def _session(self):
        session = self._open_session
        if session is None:
            raise ConnectionError("the session is closed")
        return session

    def __repr__(self):
        return self.name

    @property
    def context(self):
        """The context that the backend is of."""
        return self._context or context_of(self._session)

    def get_device(self, index):
        """The device `backend:index`; IndexError if the daemon does not serve it."""
        return _core._find_device(self._session, device_name(self.name, index))

    def get_device_count(self):
        """How many devices of this backend the daemon serves."""
        return sum(device.backend is self for device in self._session.devices)


# The global default context until there is another; functions without one use it.
initial_context = Context()
_has_global = True
_last_global = None  # its session, after it was set to None
_global_closed = False  # whether the session of functions without one was closed


def bind(context, session):
    context._session = session
    context._closed = False
    session._context = context


def forget(session):
    """Before a session is closed: it is nobody's default any more."""
    global _global_closed, _last_global
    if _core._get_global_session() is session:
        _core._set_default_session(None)
        _global_closed = True
    if _last_global is session:
        _last_global = None


def detach(session):
    """After a session was closed: its context and its backends keep it no longer."""
    context = getattr(session, "_context", None)
    for device in session.devices:
        device.backend._context = context
        device.backend._open_session = None
    if context is not None and context._session is session:
        context._session = None
        context._closed = True


def reset():
    """In a forked child: as in a new process."""
    global _has_global, _last_global, _global_closed
    _core._set_default_session(None)
    _core._set_thread_session(None)
    _has_global, _last_global, _global_closed = True, None, False
    initial_context._session = None
    initial_context._closed = False


def context_of(session):
    """The session's context."""
    context = getattr(session, "_context", None)
    if context is None:
        # After a session was closed, the initial context goes on with the next one.
        context = initial_context if initial_context._session is None else Context()
        bind(context, session)
    return context


def global_session():
    """The session of the global default context; connects if need be, unless that was reset."""
    return get_global_default_context()._open()


def _neighbour():
    """A session whose daemon a new context joins."""
    if _has_global:
        return global_session()
    if _last_global is not None:
        return _last_global
    thread = _core._get_thread_session(), _core._get_thread_device()
    session = initial_context._open()
    # Connecting made defaults of it, which the caller has reset.
    set_global_default_context(None)
    _core._set_thread_session(thread[0])
    _core.set_default_device(thread[1])
    return session


def use_globally(session):
    """Makes a session what functions without a context use, in the calling thread too."""
    global _has_global, _global_closed
    _has_global, _global_closed = True, False
    _core._set_thread_session(None)
    _core._set_default_session(session)
    context_of(session)


def get_global_default_context():
    """The context of threads that have none of their own.

    Raises:
      ContextError: it was set to None.
      ConnectionError: its session was closed.
    """
    session = _core._get_global_session()
    if session is not None:
        return context_of(session)
    if not _has_global:
        raise _core.ContextError("there is no global default context")
    if _global_closed:
        raise ConnectionError("the default session was closed: call chx.connect() again")
    if initial_context._session is None:
        return initial_context
    from chx import _sessions

    return context_of(_sessions.connect())


def set_global_default_context(context):
    """Sets the context of threads that have none of their own; None: there is no such context."""
    global _has_global, _last_global, _global_closed
    _check_context(context)
    _last_global = _core._get_global_session() or _last_global
    never = context is initial_context and context._session is None and not context._closed
    session = None if context is None or never else context._open()
    _core._set_default_session(session)
    _has_global, _global_closed = context is not None, False


def get_default_context():
    """The calling thread's context, or else the global default one.

    Raises:
      ContextError: there is neither.
    """
    session = _core._get_thread_session()
    return get_global_default_context() if session is None else context_of(session)


def set_default_context(context):
    """Sets the calling thread's context, or resets it with None. Its default device is reset."""
    _check_context(context)
    _core._set_thread_session(None if context is None else context._open())


def _check_context(context):
    if context is not None and not isinstance(context, Context):
        raise TypeError(f"expected a Context or None, got {type(context).__name__}")


class ContextScope:
    """Makes a context the calling thread's default within a with-block."""

    def __init__(self, context):
        _check_context(context)
        self._context = context
        self._previous = []

    def __enter__(self):
        self._previous.append((_core._get_thread_session(), _core._get_thread_device()))
        set_default_context(self._context)
        return self

    def __exit__(self, *_):
        session, device = self._previous.pop()
        _core._set_thread_session(session)
        _core.set_default_device(device)


def context_scope(context):
    """A ContextScope: the context is the calling thread's default within a with-block."""
    return ContextScope(context)


def device_name(device, index):
    if not isinstance(device, str):
        raise TypeError(f"expected a device's name, got {type(device).__name__}")
    if index is None:
        return device
    if not hasattr(index, "__index__"):
        raise TypeError(f"expected a device's index, got {type(index).__name__}")
    return f"{device}:{index.__index__()}"


def get_device(device=None, index=None):
    """A device by its name, by backend name and index, or the default one.

    Raises:
      BackendError, IndexError: the daemon does not serve it.
    """
    return _core._get_device(device if index is None else device_name(device, index))


def get_backend(name):
    """The backend of that name in the default context.

    Raises:
      BackendError: the daemon does not serve it.
    """
    return get_default_context().get_backend(name)


class DeviceScope:
    """Makes a device the calling thread's default within a with-block."""

    def __init__(self, device, index=None):
        self.device = get_device(device, index)
        self._previous = []

    def __enter__(self):
        self._previous.append(_core._get_thread_device())
        _core.set_default_device(self.device)
        return self

    def __exit__(self, *_):
        _core.set_default_device(self._previous.pop())


def using_device(device, index=None):
    """A DeviceScope: the device is the calling thread's default within a with-block."""
    return DeviceScope(device, index)


def reduce_device(device):
    """How a device is pickled: it comes back as the default context's device of that name."""
    from chx import _device

    return _device._recover_device, (device.backend.name, device.index)
