"""Sessions' places in process groups."""

from __future__ import annotations

import typing
import weakref
from collections.abc import Sequence
from typing import Any

from chx import _core
from chx._core import ndarray
from chx._runtime.connection import connect_default
from chx._runtime.session import Session


class ProcessGroup:
    """A session's place among the ranks of a group, as init() and new_group() make it.

    Attributes:
      name: of the group.
      rank: this session's, from 0.
      size: how many ranks there are.
    """

    __slots__ = (
        "name",
        "rank",
        "size",
        "_secret",
        "_address",
        "_session_of",
        "_number",
        "__weakref__",
    )

    def __init__(
        self, session: Session, name: str, rank: int, size: int, secret: str, address: str
    ) -> None:
        self.name = name
        self.rank = rank
        self.size = size
        self._secret = secret
        self._address = address
        # A session ends when nothing else refers to it.
        self._session_of = weakref.ref(session)
        self._number = _core._join_group(session, name, secret, address, rank, size)

    @property
    def session(self) -> Session:
        """Whose place it is.

        Raises:
          ContextError: it has ended.
        """
        session = self._session_of()
        if session is None:
            raise _core.ContextError(f"expects a session that has not ended, for {self!r}")
        return session

    def __repr__(self) -> str:
        return f"ProcessGroup({self.name!r}, rank={self.rank}, size={self.size})"

    def __iter__(self) -> typing.Iterator[int]:
        """What operators take as their attribute `group`."""
        return iter((self._number, self.rank, self.size))


# Those of a session, in the order in which they were made; the first one that init() made is its
# default.
_groups: weakref.WeakKeyDictionary[Session, list[ProcessGroup]] = weakref.WeakKeyDictionary()
_defaults: weakref.WeakKeyDictionary[Session, ProcessGroup] = weakref.WeakKeyDictionary()


def _group_of(array: Any, group: ProcessGroup | None) -> Sequence[int]:
    """As operators take it; the default one of the array's session."""
    if group is None:
        is_array = isinstance(array, ndarray)
        group = _default(array.device.backend._session if is_array else connect_default())
    return tuple(group)


def _default(session: Session) -> ProcessGroup:
    group = _defaults.get(session)
    if group is None:
        raise _core.ContextError("expects chx.distributed.init() before, or a group")
    return group
