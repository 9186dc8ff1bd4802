"""What the process knows about its default session besides the session, which the core keeps."""

from typing import TYPE_CHECKING

from chx import _core

if TYPE_CHECKING:
    from chx._runtime.session import Session

has_context = True  # whether there is a global default context
last_session: "Session | None" = None  # the global context's, after that was set to None
closed = False  # whether the session of functions without one was closed


def forget(session: "Session") -> None:
    """Before a session is closed: it is nobody's default any more."""
    global closed, last_session
    if _core._get_global_session() is session:
        _core._set_default_session(None)
        closed = True
    if last_session is session:
        last_session = None


def reset() -> None:
    """In a forked child: as in a new process."""
    global has_context, last_session, closed
    _core._set_default_session(None)
    _core._set_thread_session(None)
    has_context, last_session, closed = True, None, False
