"""Sessions: how they begin and end, and which of them functions without one use."""

import atexit
import contextlib
import os
import threading
import weakref

from chx import _context, _core, _streams
from chx._daemon import PrivateDaemon
from chx._waiter import Waiter, result

# What a private daemon serves if nobody says it; install_chainerx() makes it as many as ChainerX has.
default_devices = "native:0"

# Those that are open.
_open_sessions = weakref.WeakSet()


# Around a session's jobs and its end. A collection may close a session at any time: reentrant.
_submitting = threading.RLock()


class Session(_core.Session):
    """A session with a daemon.

    It ends with close(), as a context manager with its block, with the process, or when nothing
    refers to it or its arrays any more.
    """

    _closed = False
    _stream = None  # of random numbers; chx/_streams.py
    _daemon = None  # a private one
    _owns_daemon = False  # and ends it when it is closed
    _waiter = None  # of reads that are awaited

    def __enter__(self):
        return self

    def __exit__(self, exception_type, *_):
        try:
            self.close()
        except Exception:
            if exception_type is None:  # else that one says more
                raise

    def __del__(self):
        if not self._closed:
            with contextlib.suppress(Exception):  # nobody is there to be told
                self._end(self._daemon and self._daemon.release)

    def seed(self, seed=None):
        """Restarts the session's stream of random numbers: by the seed's lower 64 bits, or anyhow."""
        self._stream = _streams.Stream(seed)

    def configure(self, **settings):
        """Changes what the daemon's libraries may do for this session, from now on.

        The names are Chainer's. They count on GPUs, and where cuDNN is installed.

        Args:
          use_cudnn: whether cuDNN is used at all; True by default.
          cudnn_deterministic: only algorithms that give the same bits each time; False by default.
          autotune: whether algorithms are tried for each new shape, which takes time once, instead
            of believing cuDNN's estimates; False by default.
          max_workspace_size: bytes that one convolution may take beside its arrays, or a recurrent
            network beside what its gates amount to; by default
            $CHAINERX_CUDNN_MAX_WORKSPACE_SIZE, or 8 MiB. They count as the session's memory.

        Raises:
          ValueError, TypeError: there is no such setting, or not with such a value. Those before
            it in the call have been changed.
        """
        for name, value in settings.items():
            self._configure(name, value)

    @property
    def settings(self):
        """What configure() has set, and the defaults of what it has not; a new dict."""
        return self._settings()

    def synchronize_async(self):
        """As synchronize(), to be awaited."""
        return self._submit(self.synchronize)

    def _submit(self, job):
        """A coroutine of what a job returns that waits for the daemon."""
        with _submitting:
            if self._closed:
                raise ConnectionError("the session is closed")
            if self._waiter is None:
                self._waiter = Waiter()
            return result(self._waiter.submit(job))

    def close(self):
        """Ends the session. What uses its arrays or devices afterwards raises ConnectionError.

        So do functions without an array, if this was the default session, until chx.connect() is
        called again.
        """
        daemon = self._daemon
        self._end(daemon and (daemon.stop if self._owns_daemon else daemon.release))

    def _end(self, end_daemon):
        if self._closed:
            return
        with _submitting:
            self._closed = True
            waiter, self._waiter = self._waiter, None
        self._daemon = None
        _open_sessions.discard(self)
        _context.forget(self)
        try:
            super().close()
        finally:
            _context.detach(self)
            if waiter is not None:
                waiter.close()
            if end_daemon is not None:
                end_daemon()


def connect(
    address=None,
    *,
    token=None,
    tls_roots=None,
    devices=None,
    client_name=None,
    plugins=None,
    reconnect=None,
    cancel_on_interrupt=True,
):
    """Opens a session with a chxd daemon and makes it the default one.

    Args:
      address: "unix:PATH" or "HOST:PORT". Without one $CHX_SERVER counts; without that a private
        daemon is started, which stops with this process, and before if the session is closed.
      token: what the daemon's --token-file holds; default $CHX_TOKEN.
      tls_roots: PEM file with certificates to trust; plaintext without it.
      devices: what a private daemon serves, such as "cuda:0,native:0"; default $CHX_DEVICES, or
        "native:0" (after install_chainerx() four of them).
      client_name: how the daemon's lists call this client.
      plugins: backends that a private daemon loads, {name: path of the shared library}; their
        devices have to be named in `devices` too, as "name:0".
      reconnect: for how many seconds the session is taken up again after its connection was cut.
        Default: as long as the daemon keeps it (--lease), or 5 if nobody listens at a Unix socket or
        the daemon is a private one, which does not come back.
      cancel_on_interrupt: whether Ctrl-C in a wait also cancels what was called and has not run, so
        that the next read need not wait for it.

    Returns:
      The Session.

    Raises:
      ConnectionError: nobody answers at the address, or no daemon starts.
      ValueError: plug-ins for a daemon that runs already: only who starts it may name them.
    """
    address = address or os.environ.get("CHX_SERVER")
    if address and plugins:
        raise ValueError(f"[connect] expects plugins for a private daemon only, got {address}")
    devices = devices or os.environ.get("CHX_DEVICES") or default_devices
    roots = ""
    if tls_roots is not None:
        with open(tls_roots) as file:
            roots = file.read()
    daemon = None if address else PrivateDaemon(devices, plugins)
    if reconnect is None:
        reconnect = -1 if daemon is None else 5
    arguments = (
        address or daemon.address,
        client_name or f"python pid {os.getpid()}",
        token or os.environ.get("CHX_TOKEN", ""),
        roots,
        reconnect,
    )
    try:
        session = _open(arguments, daemon)
    except BaseException:
        if daemon is not None:
            daemon.stop()
        raise
    session._owns_daemon = daemon is not None
    session.cancel_on_interrupt = cancel_on_interrupt
    _context.use_globally(session)
    return session


def _open(arguments, daemon):
    session = Session(*arguments)
    session._arguments = arguments
    _open_sessions.add(session)
    if daemon is not None:
        session._daemon = daemon
        daemon.sessions += 1
    if size := os.environ.get("CHAINERX_CUDNN_MAX_WORKSPACE_SIZE"):
        session.configure(max_workspace_size=int(size))
    return session


def connect_beside(session):
    """A further session with the daemon of another, which keeps the daemon."""
    beside = _open(session._arguments, session._daemon)
    beside.cancel_on_interrupt = session.cancel_on_interrupt
    return beside


@atexit.register
def _close_all():
    for session in list(_open_sessions):
        with contextlib.suppress(Exception):  # the process ends anyway
            session.close()


_connecting = threading.RLock()


def connect_default():
    """The session of functions without one: connects as connect() does, if nobody ever has.

    Raises:
      ConnectionError: the default session was closed.
      ContextError: the global default context was set to None.
    """
    with _connecting:  # one thread does
        return _core._get_default_session() or _context.global_session()


def cancel():
    """Gives up what was called in the default session and has not run; see Session.cancel()."""
    session = _core._get_default_session()
    if session is not None:
        session.cancel()


def _after_fork():
    """A child begins like a new process: sessions are its parent's."""
    global _connecting, _submitting
    _connecting = threading.RLock()
    _submitting = threading.RLock()
    _open_sessions.clear()
    _context.reset()


os.register_at_fork(after_in_child=_after_fork)
