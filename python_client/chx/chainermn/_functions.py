"""ChainerMN's differentiable functions for variables of the daemon: its graphs go through the ranks.

Variables of NumPy take ChainerMN's own functions. The ranks tell each other which of the two it is.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import chainer

import chx
from chx._compat import zip_strict
from chx.chainermn._communicator import Communicator
from chx.chainermn._exchange import Graph, Spec, spec_of, specs_of


def _is_remote(variables: Any) -> bool:
    return all(isinstance(chainer.as_variable(x).array, chx.ndarray) for x in variables)


def _arrays(variables: Any) -> list[chx.ndarray]:
    """With their graphs."""
    return [chainer.as_variable(x).chx_array for x in variables]


def _given(caller: str, x: Any) -> tuple[chx.ndarray, Spec]:
    (array,) = _arrays([x])
    return array, spec_of(caller, array)


def _zeros(spec: Spec, behind: chx.ndarray | None = None) -> chx.ndarray:
    """In a graph of its own, or behind that of an array without elements."""
    if not chainer.config.enable_backprop:
        return chx.zeros(spec.shape, spec.dtype)
    if behind is None or not behind.is_backprop_required():
        return chx.zeros(spec.shape, spec.dtype).require_grad()
    return chx.broadcast_to(chx.sum(behind).astype(spec.dtype, copy=False), spec.shape)


def _send(own: Any) -> Any:
    @functools.wraps(own)
    def send(x: Any, communicator: Any, rank: int, tag: int = 0) -> Any:
        variables = list(x) if isinstance(x, (list, tuple)) else [x]
        if not isinstance(communicator, Communicator) or not _is_remote(variables):
            return own(x, communicator, rank, tag)
        if rank == communicator.rank:
            raise ValueError(
                "rank must be different from communicator rank, otherwise deadlock occurs"
            )
        delegate = chx.zeros((0,), "float32")
        arrays = _arrays(variables)
        for nothing in communicator.exchange.send_graph(arrays, rank, tag):
            delegate = delegate + nothing.astype("float32", copy=False)
        variable = chainer.as_variable(delegate)
        variable.name = "delegate_variable"
        return variable

    return send


class _Arrived:
    """A communicator whose next recv() has been made already."""

    def __init__(self, communicator: Communicator, data: Any) -> None:
        self._communicator = communicator
        self._data = data

    def recv(self, source: int, tag: int) -> Any:
        return self._data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._communicator, name)


def _recv(own: Any) -> Any:
    @functools.wraps(own)
    def recv(
        communicator: Any,
        rank: int,
        delegate_variable: Any = None,
        tag: int = 0,
        force_tuple: bool = False,
    ) -> Any:
        if not isinstance(communicator, Communicator) or rank == communicator.rank:
            return own(communicator, rank, delegate_variable, tag, force_tuple)
        message, arrays = communicator.exchange.messages.receive(rank, tag)
        if not isinstance(message, Graph):
            arrived = _Arrived(communicator, communicator.unpacked(message, arrays))
            return own(arrived, rank, delegate_variable, tag, force_tuple)
        behind = None
        if delegate_variable is not None and _is_remote([delegate_variable]):
            behind = delegate_variable.chx_array
        got = tuple(
            chainer.as_variable(
                communicator.exchange.receive_graph(_zeros(spec, behind), rank, its_tag)
            )
            for spec, its_tag in zip_strict(message.specs, message.tags)
        )
        return got if force_tuple or len(got) > 1 else got[0]

    return recv


def _pseudo_connect(own: Any) -> Any:
    @functools.wraps(own)
    def pseudo_connect(delegate_variable: Any, *actual_variables: Any) -> Any:
        if (
            delegate_variable is None
            or not actual_variables
            or not _is_remote([delegate_variable, *actual_variables])
        ):
            return own(delegate_variable, *actual_variables)
        zero = chx.sum(delegate_variable.chx_array)
        return tuple(
            chainer.as_variable(x + zero.astype(x.dtype, copy=False))
            for x in _arrays(actual_variables)
        )

    return pseudo_connect


def _allgather(own: Any) -> Any:
    @functools.wraps(own)
    def allgather(comm: Any, x: Any) -> Any:
        if not isinstance(comm, Communicator) or not _is_remote([x]):
            return own(comm, x)
        return tuple(map(chainer.as_variable, comm.exchange.all_gather(*_given("allgather", x))[0]))

    return allgather


def _alltoall(own: Any) -> Any:
    @functools.wraps(own)
    def alltoall(comm: Any, xs: Any) -> Any:
        if not isinstance(comm, Communicator) or not _is_remote(xs):
            return own(comm, xs)
        arrays = _arrays(xs)
        got, _ = comm.exchange.all_to_all(arrays, specs_of("alltoall", arrays))
        return tuple(map(chainer.as_variable, got))

    return alltoall


def _gather(own: Any) -> Any:
    @functools.wraps(own)
    def gather(comm: Any, x: Any, root: int = 0) -> Any:
        if not isinstance(comm, Communicator) or not _is_remote([x]):
            return own(comm, x, root)
        got, _ = comm.exchange.gather(*_given("gather", x), root)
        if comm.rank == root:
            return tuple(map(chainer.as_variable, got))
        return chainer.as_variable(got)

    return gather


def _bcast(own: Any) -> Any:
    @functools.wraps(own)
    def bcast(comm: Any, x: Any, root: int = 0) -> Any:
        if not isinstance(comm, Communicator):
            return own(comm, x, root)
        is_root = comm.rank == root
        if not comm.bcast_obj(is_root and _is_remote([x]), root=root):
            return own(comm, x, root)
        given = _given("bcast", x) if is_root else (None, None)
        return chainer.as_variable(comm.exchange.broadcast(*given, root, _zeros)[0])

    return bcast


def _scatter(own: Any) -> Any:
    @functools.wraps(own)
    def scatter(comm: Any, xs: Any, root: int = 0) -> Any:
        if not isinstance(comm, Communicator):
            return own(comm, xs, root)
        is_root = comm.rank == root
        if not comm.bcast_obj(is_root and _is_remote(xs), root=root):
            return own(comm, xs, root)
        arrays = _arrays(xs) if is_root else None
        specs = specs_of("scatter", arrays) if is_root else None
        return chainer.as_variable(comm.exchange.scatter(arrays, specs, root, _zeros)[0])

    return scatter


_WRAPPERS = {
    "send": _send,
    "recv": _recv,
    "pseudo_connect": _pseudo_connect,
    "allgather": _allgather,
    "alltoall": _alltoall,
    "gather": _gather,
    "bcast": _bcast,
    "scatter": _scatter,
}


def adapt(chainermn: Any) -> None:
    """Puts these in the place of ChainerMN's, in all modules that have them."""
    functions = chainermn.functions
    for name, wrapper in _WRAPPERS.items():
        own = getattr(functions, name)
        replaced = wrapper(own)
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("chainermn") and (
                module.__dict__.get(name) is own
            ):
                setattr(module, name, replaced)
