"""Which operators are recorded, and in which graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chx import _core
from chx._compat import Self, TypeAlias
from chx._core import ndarray
from chx._runtime import connection
from chx._runtime.context import BackpropId, make_backprop_id, release_backprop_id

# A context as chx.get_default_context() gives it, or a session.
ContextLike: TypeAlias = Any
Graphs: TypeAlias = "ContextLike | BackpropId | Sequence[BackpropId]"


class AnyGraph:
    """The type of anygraph."""

    _any_graph = True


#: Asks ndarray.is_backprop_required() about any graph.
anygraph = AnyGraph()


def _is_context(value: object) -> bool:
    return isinstance(value, _core.Session) or hasattr(value, "make_backprop_id")


def _session_of(context: Any) -> Any:
    """A context's session. That of the default one is None as long as nobody has connected."""
    if context is None:
        return _core._get_default_session()
    if not _is_context(context):
        raise TypeError(f"expected a context, got {type(context).__name__}")
    return context if isinstance(context, _core.Session) else context._open()


class backprop_scope:  # , a function to its users
    """A graph of its own within a with-block, which it is given as a BackpropId."""

    def __init__(self, backprop_name: str, context: ContextLike = None) -> None:
        self._name = backprop_name
        self._context = context
        self._id: BackpropId | None = None

    def __enter__(self) -> BackpropId:
        if self._id is not None:
            raise _core.ChainerxError("a backprop scope cannot be nested or reused")
        self._session = _session_of(self._context)
        if self._session is None:
            self._session = connection.connect_default()
        self._id = make_backprop_id(self._session, self._name)
        return self._id

    def __exit__(self, *_: object) -> None:
        if self._id is not None:
            release_backprop_id(self._session, self._id)


class _Mode:
    _record = False

    def __init__(self, context: Graphs = None) -> None:
        """All graphs of a context, by default of the default one; a BackpropId; or several."""
        self._ids: list[BackpropId] | None = None
        self._context: ContextLike = None
        if context is None or _is_context(context):
            self._context = context
        elif isinstance(context, BackpropId):
            self._ids = [context]
        else:
            self._ids = list(context)
            for backprop_id in self._ids:
                _check_is_id(backprop_id)

    def __enter__(self) -> Self:
        for backprop_id in self._ids or ():
            _check_is_open(backprop_id)
        session = None if self._ids is not None else _session_of(self._context)
        _core._push_mode(self._record, self._ids, session)
        return self

    def __exit__(self, *_: object) -> None:
        _core._pop_mode()


class no_backprop_mode(_Mode):  # , a function to its users
    """Operators are not recorded within a with-block.

    That goes for the graphs of a context (without arguments: the default one), for one graph, or for
    several.
    """


class force_backprop_mode(_Mode):  # , a function to its users
    """Operators are recorded again, inside of a no_backprop_mode. Takes what that takes."""

    _record = True


def _check_is_id(value: object) -> None:
    if not isinstance(value, BackpropId):
        raise TypeError(f"expected a BackpropId, got {type(value).__name__}")


def _check_is_open(backprop_id: BackpropId) -> None:
    if backprop_id._id not in BackpropId._names:
        raise _core.ChainerxError("the backprop id has expired")


def is_backprop_required(
    backprop_id: BackpropId | ContextLike = None, *, context: ContextLike = None
) -> bool:
    """Whether the calling thread records operators: in a graph, or in a context's default one."""
    if backprop_id is not None and _is_context(backprop_id):
        backprop_id, context = None, backprop_id
    if backprop_id is None:
        return _core._records(None, _session_of(context))
    _check_is_id(backprop_id)
    if context is not None:
        raise TypeError("expected a BackpropId or a context, got both")
    _check_is_open(backprop_id)
    return _core._records(backprop_id, backprop_id._session)


def as_grad_stopped(
    array: ndarray,
    backprop_ids: Sequence[BackpropId] | BackpropId | bool | None = None,
    copy: bool = False,
) -> ndarray:
    if isinstance(backprop_ids, bool):
        copy = backprop_ids
        backprop_ids = None
    if isinstance(backprop_ids, BackpropId):
        backprop_ids = [backprop_ids]
    for backprop_id in backprop_ids or ():
        _check_is_id(backprop_id)
        _check_is_open(backprop_id)
    _core._push_mode(False, backprop_ids, None)
    try:
        return array.copy() if copy else array.view()
    finally:
        _core._pop_mode()


def outside_graphs(array: ndarray) -> ndarray:
    """The array, or a view of it if it is in a graph."""
    return array.as_grad_stopped() if array.is_backprop_required(anygraph) else array
