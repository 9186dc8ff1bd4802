"""Sessions with a daemon: how they begin and end."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from chx import _core
from chx._compat import Self, TypeAlias
from chx._runtime import defaults, publishing, random_streams, saved
from chx._runtime.certificates import read_certificate, read_roots
from chx._runtime.daemon import PrivateDaemon
from chx._runtime.waiting import Waiter, result

if TYPE_CHECKING:
    from chx._runtime.context import Context

_T = TypeVar("_T")
# Of _core.Session: address, client's name, token, certificates, seconds to reconnect.
_Arguments: TypeAlias = tuple[str, str, str, str, float, str, str, str]

# What a private daemon serves if nobody says it; install_chainerx() makes it as many as ChainerX has.
default_devices = "native:0"

# Those that are open.
_open_sessions: weakref.WeakSet[Session] = weakref.WeakSet()

# Around a session's jobs and its end. A collection may close a session at any time: reentrant.
_submitting = threading.RLock()


class Session(_core.Session):
    """A session with a daemon.

    It ends with close(), as a context manager with its block, with the process, or when nothing
    refers to it or its arrays any more.
    """

    _arguments: _Arguments  # what it was opened with
    _closed = False
    _context: Context | None = None  # that it is of
    _stream: random_streams.Stream | None = None
    _daemon: PrivateDaemon | None = None
    _owns_daemon = False  # and ends it when it is closed
    _waiter: Waiter | None = None  # of reads that are awaited
    _name: str | None = None
    _discards = False  # what was saved, too

    def __enter__(self) -> Self:
        return self

    def __exit__(self, exception_type: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except Exception:
            if exception_type is None:  # else that one says more
                raise

    def __del__(self) -> None:
        if not self._closed:
            with contextlib.suppress(Exception):  # nobody is there to be told
                self._end(None if self._daemon is None else self._daemon.release)

    def seed(self, seed: int | None = None) -> None:
        """Restarts the session's stream of random numbers: by the seed's lower 64 bits, or anyhow."""
        self._stream = random_streams.Stream(seed)

    def configure(self, **settings: bool | int) -> None:
        """Changes what the daemon's libraries may do for this session, from now on.

        The first names are Chainer's. They count on GPUs, and where cuDNN is installed.

        Args:
          use_cudnn: whether cuDNN is used at all; True by default.
          cudnn_deterministic: only algorithms that give the same bits each time; False by default.
          autotune: whether algorithms are tried for each new shape, which takes time once, instead
            of believing cuDNN's estimates; False by default.
          max_workspace_size: bytes that one convolution may take beside its arrays, or a recurrent
            network beside what its gates amount to; by default
            $CHAINERX_CUDNN_MAX_WORKSPACE_SIZE, or 256 MiB. They count as the session's memory.
          tf32: whether products of float32 matrices may round their factors to TF32, whose mantissa
            has 10 bits, for tensor cores; False by default, as in PyTorch.
          cudnn_tf32: the same for cuDNN's convolutions; True by default, as in PyTorch.

        Raises:
          ValueError, TypeError: there is no such setting, or not with such a value. Those before
            it in the call have been changed.
        """
        for name, value in settings.items():
            self._configure(name, value)

    @property
    def settings(self) -> dict[str, bool | int]:
        """What configure() has set, and the defaults of what it has not; a new dict."""
        return self._settings()

    @property
    def name(self) -> str | None:
        """What chx.connect(session=...) was given; None: it has no name, and no one can take it up."""
        return self._name

    @property
    def taken_up(self) -> bool:
        """Whether chx.connect() found a session of its name, which another client had left."""
        return self._former_generator() is not None

    def save(self, name: str, tree: Any) -> None:
        """Keeps arrays under a name for as long as the session lives, instead of what was there.

        Who takes a named session up, and this process too, gets them by load(). They are the arrays
        themselves, not copies: what is written to them later, as optimizers do, is seen under the
        name. Gradients and requires_grad are kept, and so is where the session's random numbers
        are.

        Args:
          name: 1 to 255 bytes of text.
          tree: arrays of this session, numbers, texts and None in dicts (keys: text, int), lists
            and tuples; at most 4096 arrays.

        Warns:
          UserWarning: arrays were computed in a graph. They come back without it: with their value,
            and not requiring a gradient.

        Raises:
          TypeError: other things in the tree.
          ContextError: an array of another session.
        """
        text, arrays = saved.flatten(tree)
        self._note_stream()
        detached = self._save(name, text, arrays)
        if detached:
            warnings.warn(
                f"session.save({name!r}): {detached} of {len(arrays)} arrays were computed in a "
                "graph, which is not kept; they will come back as values",
                UserWarning,
                stacklevel=2,
            )

    def load(self, name: str) -> Any:
        """What save() was given, with new objects for the same arrays; ValueError if nothing was."""
        return saved.unflatten(*self._load(name))

    def saved(self) -> list[str]:
        """The names under which something is saved."""
        return self._saved()

    def forget(self, name: str) -> None:
        """Ends what save() began; ValueError if nothing is saved under the name."""
        self._forget(name)

    def _note_stream(self) -> None:
        if self._stream is not None:
            self._note_generator(saved.generator_state(self._stream))

    def synchronize_async(self) -> Coroutine[Any, Any, None]:
        """As synchronize(), to be awaited."""
        return self._submit(self.synchronize)

    def _submit(self, job: Callable[[], _T]) -> Coroutine[Any, Any, _T]:
        """A coroutine of what a job returns that waits for the daemon."""
        with _submitting:
            if self._closed:
                raise ConnectionError("the session is closed")
            if self._waiter is None:
                self._waiter = Waiter()
            return result(self._waiter.submit(job))

    def publish(
        self,
        name: str,
        tree: Any,
        *examples: Any,
        readers: Sequence[str] = (),
        on_owner_exit: str = "drop",
    ) -> int:
        """Publishes arrays for reading, or a function of chx.jit for calls: chx.lookup(name) finds
        them in any process of this tenant.

        The arrays' memory, or that of arrays that the function captures, moves once to where
        sessions share it, and counts for this session alone.

        Args:
          name: of a-z, 0-9, ".", "_", "-" and "/"; the tenant's. Each call makes a new version.
          tree: dicts, lists and tuples of arrays, or an array; or a function of chx.jit.
          examples: of a function, arguments to call it with: it is published for such ones. None:
            for all that it has recorded in this session.
          readers: other tenants that may look it up; ["*"]: all.
          on_owner_exit: "keep": it stays when this session ends, until unpublish(); "drop": who has
            it gets errors.

        Returns:
          The version: 1, 2, ...

        Raises:
          ValueError: a wrong name; or an array whose memory to_numpy(copy=False) has shown; or a
            function that writes to arrays that it captures, computes their gradients, or has
            numbers that vary, such as random ones.
          TypeError: something that is no array; or a float among a function's arguments.
          OutOfMemoryError: a name has 64 versions at most, a tenant 4,096 names.
        """
        return publishing.publish(self, name, tree, examples, readers, on_owner_exit)

    def unpublish(self, name: str, version: int | None = None) -> None:
        """Takes back a version, or all: arrays that lookup() gave raise ContextError from then on.

        Raises:
          ContextError: this tenant has published no such version.
        """
        _core._unpublish(self, name, version or 0)

    def close(self) -> None:
        """Ends the session. What uses its arrays or devices afterwards raises ConnectionError.

        So do functions without an array, if this was the default session, until chx.connect() is
        called again. If the session has a name and arrays were saved in it, these stay in the daemon
        for who connects to that name next; all else is freed.
        """
        daemon = self._daemon
        if daemon is None:
            self._end(None)
        else:
            self._end(daemon.stop if self._owns_daemon else daemon.release)

    def discard(self) -> None:
        """Ends the session as close() does, with what was saved in it."""
        self._discards = True
        self.close()

    def _end(self, end_daemon: Callable[[], None] | None) -> None:
        if self._closed:
            return
        if self._name is not None and not self._discards:
            with contextlib.suppress(Exception):  # of a session that is lost
                self._note_stream()
        with _submitting:
            self._closed = True
            waiter, self._waiter = self._waiter, None
        self._daemon = None
        _open_sessions.discard(self)
        defaults.forget(self)
        try:
            if self._discards:
                super()._discard()
            else:
                super().close()
        finally:
            self._detach()
            if waiter is not None:
                waiter.close()
            if end_daemon is not None:
                end_daemon()

    def _detach(self) -> None:
        """After the end: its context and its backends keep it no longer."""
        context = self._context
        for device in self.devices:
            device.backend._context = context
            device.backend._open_session = None
        if context is not None and context._session is self:
            context._session = None
            context._closed = True


def open_session(
    address: str | None = None,
    *,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    tls_roots: str | None = None,
    tls_cert: str | os.PathLike[str] | None = None,
    tls_key: str | os.PathLike[str] | None = None,
    devices: str | None = None,
    memory: str | float | None = None,
    client_name: str | None = None,
    plugins: Mapping[str, str | os.PathLike[str]] | None = None,
    reconnect: float | None = None,
    cancel_on_interrupt: bool = True,
    name: str | None = None,
) -> Session:
    """A session that is nobody's default; see connect() for the arguments and errors."""
    server = address or os.environ.get("CHX_SERVER", "")
    if server and (plugins or memory is not None):
        what = "plugins" if plugins else "memory"
        raise ValueError(f"[connect] expects {what} for a private daemon only, got {server}")
    devices = devices or os.environ.get("CHX_DEVICES") or default_devices
    roots = ""
    if tls_roots is not None:
        roots = read_roots(tls_roots)
    shown = token or ("" if token_file else os.environ.get("CHX_TOKEN")) or ""
    certificate, key = read_certificate(tls_cert, tls_key)
    daemon = None
    if not server:
        daemon = PrivateDaemon(
            devices, plugins, os.environ.get("CHX_MEMORY") if memory is None else memory
        )
        server = daemon.address
    arguments: _Arguments = (
        server,
        client_name or f"python pid {os.getpid()}",
        shown,
        roots,
        -1 if reconnect is None else reconnect,
        certificate,
        key,
        "" if shown else os.fspath(token_file or os.environ.get("CHX_TOKEN_FILE") or ""),
    )
    try:
        session = _open(arguments, daemon, name)
    except BaseException:
        if daemon is not None:
            daemon.stop()
        raise
    session._owns_daemon = daemon is not None
    session.cancel_on_interrupt = cancel_on_interrupt
    return session


def _open(arguments: _Arguments, daemon: PrivateDaemon | None, name: str | None = None) -> Session:
    session = Session(*arguments, name or "")
    session._arguments = arguments
    session._name = name
    former = session._former_generator()
    if former is not None:
        session._stream = saved.stream_from(former)
    _open_sessions.add(session)
    if daemon is not None:
        session._daemon = daemon
        daemon.sessions += 1
    if size := os.environ.get("CHAINERX_CUDNN_MAX_WORKSPACE_SIZE"):
        session.configure(max_workspace_size=int(size))
    return session


def open_beside(session: Session) -> Session:
    """A further session with the daemon of another, which keeps the daemon."""
    beside = _open(session._arguments, session._daemon)
    beside.cancel_on_interrupt = session.cancel_on_interrupt
    return beside


# Of ranks: others may wait for what they have sent.
_finished_before_the_end: weakref.WeakSet[Session] = weakref.WeakSet()


def finish_before_the_end(session: Session) -> None:
    """A program that ends without an error has all that it called run first."""
    _finished_before_the_end.add(session)


@atexit.register
def _close_all() -> None:
    if getattr(sys, "last_type", None) is None:
        for session in list(_finished_before_the_end & _open_sessions):
            with contextlib.suppress(Exception):
                session.synchronize()
    for session in list(_open_sessions):
        with contextlib.suppress(Exception):  # the process ends anyway
            session.close()


def _after_fork() -> None:
    """A child begins like a new process: sessions are its parent's."""
    global _submitting
    _submitting = threading.RLock()
    _open_sessions.clear()


os.register_at_fork(after_in_child=_after_fork)
