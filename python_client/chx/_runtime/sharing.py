"""Arrays of other sessions: by capabilities, and by the names that they are published under."""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

from chx import _core
from chx._core import ndarray
from chx._runtime import connection, publishing
from chx._runtime.session import Session

_RIGHTS = {"read": False, "write": True}
_MODES = {"share": False, "copy": True}


class Capability(str):
    """What share() returns: a text by which any process can open the array. Treat it as a password."""

    __slots__ = ("_session",)
    _session: Session

    def revoke(self) -> None:
        """Ends its use: whoever has opened it gets errors from now on.

        What a process has mapped by to_numpy(copy=False) it can still see.

        Raises:
          ContextError: it has been revoked before, or has expired.
        """
        _core._revoke(self._session, self)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


class PublishedName(NamedTuple):
    """What names() lists: one version of one name."""

    tenant: str
    name: str
    version: int
    arrays: int
    nbytes: int


def _choice(operator: str, argument: str, value: str, choices: dict[str, bool]) -> bool:
    if value not in choices:
        expected = " or ".join(f'"{choice}"' for choice in choices)
        raise ValueError(f"[{operator}] expects {argument}={expected}, got {value!r}")
    return choices[value]


def share(
    self: ndarray,
    rights: str = "read",
    expires: float | datetime.timedelta | None = None,
    tenant: str | None = None,
    on_owner_exit: str = "drop",
) -> Capability:
    """A capability for the array: chx.open() of it, in any process, gives an array on its memory.

    Args:
      rights: "write" lets holders write to it as well; on a GPU there is only "read".
      expires: seconds or a timedelta until it cannot be used any more; None: never.
      tenant: who may open it; None: sessions of this session's tenant; "*": whoever has it.
      on_owner_exit: "keep": holders keep it when this session ends; "drop": they get errors.

    Raises ValueError if to_numpy(copy=False) has shown the memory, or it is another session's.
    """
    if isinstance(expires, datetime.timedelta):
        expires = expires.total_seconds()
    if expires is not None and expires <= 0:
        raise ValueError(f"[share] expects expires in the future, got {expires} s")
    capability = Capability(
        _core._share(
            self,
            _choice("share", "rights", rights, _RIGHTS),
            publishing.keeps("share", on_owner_exit),
            0 if expires is None else max(1, round(expires * 1000)),
            "" if tenant is None else tenant,
        )
    )
    capability._session = self.device.backend._session
    return capability


def open(capability: str, mode: str = "share", session: Session | None = None) -> ndarray:
    """The array that a capability is for, on the memory that it has, in no graph.

    Args:
      capability: what share() returned, here or in another process.
      mode: "copy": the array gets memory of its own at the first write to it, which "read" rights
        allow; "share": writes are refused, or with "write" rights seen by all.
      session: where to open it; the default one if None.

    Raises:
      ContextError: it was revoked, has expired, or never was. Reads of an array that was opened
        before raise that, too.
    """
    if not isinstance(capability, str):
        raise TypeError(f"expected a capability, got {type(capability).__name__}")
    opener = session or connection.connect_default()
    return _core._open_shared(opener, capability, _choice("open", "mode", mode, _MODES))


def lookup(
    name: str,
    version: int | None = None,
    tenant: str | None = None,
    mode: str = "share",
    session: Session | None = None,
) -> Any:
    """What Session.publish() has published: the same dicts, lists and tuples of arrays, or a
    PublishedProgram, which is called as the function was.

    Args:
      name: as it was published.
      version: 1, 2, ...; None: the newest.
      tenant: whose name it is; None: this session's tenant.
      mode: as of chx.open(): "copy" to train from it; of no account for programs.
      session: where to open it; the default one if None.

    Raises:
      ContextError: there is none, or this tenant may not read it.
    """
    if version is not None and version < 1:
        raise ValueError(f"[lookup] expects a version of 1 or more, got {version}")
    opener = session or connection.connect_default()
    copy = _choice("lookup", "mode", mode, _MODES)
    _, structure, found, programs = _core._lookup(opener, tenant or "", name, version or 0, copy)
    if programs:
        from chx import _published  # which needs sessions

        return _published.PublishedProgram(name, structure, programs)
    return publishing.tree_of(structure, found)


def names(prefix: str = "", session: Session | None = None) -> list[PublishedName]:
    """All that lookup() finds in the daemon, by names that begin so: (tenant, name, version,
    arrays, nbytes)."""
    opener = session or connection.connect_default()
    return [PublishedName(*row) for row in _core._names(opener, prefix)]
