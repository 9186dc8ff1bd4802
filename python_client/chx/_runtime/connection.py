"""chx.connect, and the session of functions without one."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

from chx import _core
from chx._runtime import context
from chx._runtime.session import Session, open_session


def connect(
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
    session: str | None = None,
) -> Session:
    """Opens a session with a chxd daemon and makes it the default one.

    Args:
      address: "unix:PATH" or "HOST:PORT". Without one $CHX_SERVER counts; without that a private
        daemon is started, which stops with this process, and before if the session is closed.
      token: what the daemon's --token-file holds, or the token of one of its tenants; default
        $CHX_TOKEN.
      token_file: a file that has the token, read again for each connection: for tokens that are
        renewed, as those of Kubernetes' service accounts. Default $CHX_TOKEN_FILE. A token goes
        before it.
      tls_roots: PEM file with certificates to trust; plaintext without it.
      tls_cert, tls_key: PEM files with a certificate of the client's own and its key, for a daemon
        that knows its tenants by them (--tls-client-ca).
      devices: what a private daemon serves, such as "cuda:0,native:0"; default $CHX_DEVICES, or
        "native:0" (after install_chainerx() four of them).
      memory: how much memory a session of a private daemon may hold: bytes, or text such as "8GiB",
        "8GB" or "50%"; a number of at most 1 with a point is a share of the machine's memory, or of
        the container's. Default $CHX_MEMORY, or 80 %. A daemon that runs already has
        --session-memory.
      client_name: how the daemon's lists call this client.
      plugins: backends that a private daemon loads, {name: path of the shared library}; their
        devices have to be named in `devices` too, as "name:0".
      reconnect: for how many seconds the session is taken up again after its connection was cut.
        Default: as long as the daemon keeps it (--lease), or half a second if nobody listens there
        any more: then the daemon has ended, and its sessions with it. Give a number where a proxy
        or a tunnel in between may go away and come back.
      cancel_on_interrupt: whether Ctrl-C in a wait also cancels what was called and has not run, so
        that the next read need not wait for it.
      session: the session's name, of 1 to 128 letters, digits and "-_./:@+". If there is a session of
        that name, of the same user of the daemon, this process takes it up: Session.load() gives
        what was saved in it by Session.save(), all else is freed, and the process that had it loses
        it with a ConnectionError. See docs/state.md.

    Returns:
      The Session.

    Raises:
      AuthenticationError: the daemon expects another token; a PermissionError.
      ConnectionError: nobody answers at the address, or no daemon starts; there is no TLS where
        it is expected, or a certificate that cannot be trusted.
      OSError: a file that tls_roots, tls_cert or tls_key names cannot be read.
      ValueError: plug-ins or a memory limit for a daemon that runs already: only who starts it may
        give them.
    """
    opened = open_session(
        address,
        token=token,
        token_file=token_file,
        tls_roots=tls_roots,
        tls_cert=tls_cert,
        tls_key=tls_key,
        devices=devices,
        memory=memory,
        client_name=client_name,
        plugins=plugins,
        reconnect=reconnect,
        cancel_on_interrupt=cancel_on_interrupt,
        name=session,
    )
    context.use_globally(opened)
    return opened


_connecting = threading.RLock()


def connect_default() -> Session:
    """The session of functions without one: connects as connect() does, if nobody ever has.

    Raises:
      ConnectionError: the default session was closed.
      ContextError: the global default context was set to None.
    """
    with _connecting:  # one thread does
        return _core._get_default_session() or context.global_session()


def cancel() -> None:
    """Gives up what was called in the default session and has not run; see Session.cancel()."""
    default = _core._get_default_session()
    if default is not None:
        default.cancel()


def _after_fork() -> None:
    global _connecting
    _connecting = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
