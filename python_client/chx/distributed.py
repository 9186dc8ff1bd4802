"""Process groups: sessions, of one process each, that exchange and reduce arrays.

    chx.connect("unix:/run/chxd/chxd.sock")
    chx.distributed.init()  # rank and size as torchrun, mpiexec or Kubernetes says
    ...
    loss.backward()
    grads = chx.distributed.all_reduce([p.grad for p in params], op="mean")

The daemon exchanges the arrays; each rank is a session with it. Collectives return at once, as all
operators do, and are differentiable. All ranks call the same ones in the same order.
"""

from __future__ import annotations

import typing as _typing
from collections.abc import Sequence as _Sequence
from types import SimpleNamespace as _SimpleNamespace
from typing import Any as _Any, Literal as _Literal

from chx import _core
from chx._core import ndarray as _ndarray
from chx._gradient_reducer import GradientReducer as GradientReducer
from chx._process_groups import (
    ProcessGroup as ProcessGroup,
    _default,
    _defaults,
    _group_of,
    _groups,
)
from chx._runtime.connection import connect_default as _connect_default
from chx._runtime.session import (
    Session as _Session,
    finish_before_the_end as _finish_before_the_end,
)

if _typing.TYPE_CHECKING:
    from chx import _distributed_ops as _operators
else:
    _operators = _SimpleNamespace(**_core._submodules["distributed"])

_Reduction = _Literal["sum", "mean", "max", "min", "prod"]


def join(
    name: str,
    rank: int,
    size: int,
    secret: str = "",
    session: _Session | None = None,
    address: str = "",
) -> ProcessGroup:
    """Makes the session a rank of a group, and waits until all ranks have come.

    Ranks are sessions of one tenant that give the same name, secret, address and size.

    Args:
      name: of the group.
      rank: of this session, from 0.
      size: how many ranks there are.
      secret: sessions that give another one are in another group.
      session: the default one if None.
      address: where ranks of several daemons meet: HOST:PORT of one of these daemons, its
        --peer-address. "": all are sessions of one daemon.

    Raises:
      TimeoutError: a rank did not come within the daemon's --collective-timeout.
      ValueError: two sessions are the same rank, or the ranks say different sizes; or the daemon
        does not let groups meet at the address.
      ConnectionError: the daemons cannot reach each other.
    """
    session = _connect_default() if session is None else session
    group = ProcessGroup(session, name, rank, size, secret, address)
    _groups.setdefault(session, []).append(group)
    _finish_before_the_end(session)
    return group


def init(
    rank: int | None = None,
    size: int | None = None,
    name: str | None = None,
    secret: str | None = None,
    session: _Session | None = None,
    address: str | None = None,
) -> ProcessGroup:
    """join() for the session's default group.

    Without a rank and a size the environment says them: RANK and WORLD_SIZE (torchrun),
    OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE (Open MPI), PMI_RANK and PMI_SIZE (MPICH), or
    JOB_COMPLETION_INDEX and WORLD_SIZE (an indexed Job of Kubernetes). MASTER_ADDR and MASTER_PORT are
    not read: it is no daemon that listens there.

    Args:
      rank: of this session, from 0.
      size: how many ranks there are.
      name: of the group; default $CHX_GROUP_NAME, or "default".
      secret: sessions that give another one are in another group; default $CHX_GROUP_SECRET, or "".
      session: the default one if None.
      address: of one of the ranks' daemons, if these are several; default $CHX_GROUP_ADDRESS, or "".

    Raises:
      As join().
    """
    session = _connect_default() if session is None else session
    if session in _defaults:
        raise ValueError(f"[init] expects a session without a default group, got {session!r}")
    if (rank is None) != (size is None):
        raise ValueError(f"[init] expects a rank and a size, got {rank} and {size}")
    if rank is None or size is None:
        given = _core._group_from_environment()
        rank, size = given[3:]
        name = given[0] if name is None else name
        secret = given[1] if secret is None else secret
        address = given[2] if address is None else address
    name = "default" if name is None else name
    group = join(name, rank, size, secret or "", session, address or "")
    _defaults[session] = group
    return group


def is_initialized(session: _Session | None = None) -> bool:
    """Whether init() has made a group for the session, the default one if None."""
    return (_connect_default() if session is None else session) in _defaults


def new_group(
    ranks: _Sequence[int], group: ProcessGroup | None = None, name: str | None = None
) -> ProcessGroup | None:
    """A group of some ranks of a group. All of these call it; the others may, and get None.

    Args:
      ranks: in the order in which they are numbered anew.
      group: whose ranks; the default one if None.
      name: tells groups of the same ranks apart.
    """
    if group is None:
        group = _default(_connect_default())
    listed = [int(rank) for rank in ranks]
    if len(set(listed)) != len(listed) or not all(0 <= rank < group.size for rank in listed):
        raise ValueError(f"[new_group] expects different ranks in [0, {group.size}), got {listed}")
    if group.rank not in listed:
        return None
    path = f"{group.name}/{','.join(map(str, listed)) if name is None else name}"
    return join(
        path, listed.index(group.rank), len(listed), group._secret, group.session, group._address
    )


def get_group(session: _Session | None = None) -> ProcessGroup:
    """The default group of a session, which is the default one if None.

    Raises:
      ContextError: there was no init().
    """
    return _default(_connect_default() if session is None else session)


def get_rank(group: ProcessGroup | None = None) -> int:
    """This session's rank in a group; the default one if None."""
    return (_default(_connect_default()) if group is None else group).rank


def get_size(group: ProcessGroup | None = None) -> int:
    """How many ranks a group has; the default one if None."""
    return (_default(_connect_default()) if group is None else group).size


def barrier(group: ProcessGroup | None = None) -> None:
    """Waits until all ranks have called it, and all that they called before has run."""
    if group is None:
        group = _default(_connect_default())
    one = _core.ones((), "int32", device=group.session.devices[0])
    int(_operators.all_reduce([one], tuple(group)))


def destroy(group: ProcessGroup | None = None) -> None:
    """Leaves a group; None: all groups of the default session. The other ranks' collectives fail.

    A session that ends leaves its groups by itself.
    """
    session = _connect_default() if group is None else group.session
    for left in list(_groups.get(session, [])):
        if group is not None and left is not group:
            continue
        _groups[session].remove(left)
        if _defaults.get(session) is left:
            del _defaults[session]
        _core._leave_group(session, left._number)


def all_reduce(x: _Any, op: _Reduction = "sum", group: ProcessGroup | None = None) -> _Any:
    """The sum, or another reduction, of all ranks' arrays: the same bits at each rank.

    Differentiable. "mean" of integers is float32.

    Args:
      x: an array, or a list of arrays, which takes one command.
      op: "sum", "mean", "max", "min" or "prod", in the array's dtype; in the order of ranks, or between
        daemons in another one that is the same each time.
      group: the default one of the array's session if None.

    Returns:
      An array, or a list of arrays.
    """
    if isinstance(x, _ndarray):
        return _operators.all_reduce([x], _group_of(x, group), op)
    arrays = list(x)
    if not arrays:
        return []
    reduced = _operators.all_reduce(arrays, _group_of(arrays[0], group), op)
    return list(reduced) if len(arrays) > 1 else [reduced]


def reduce(
    x: _ndarray, root: int = 0, op: _Reduction = "sum", group: ProcessGroup | None = None
) -> _ndarray:
    """As all_reduce(), at one rank; at the others an array without elements.

    That one stands for the result in these ranks' graphs: add its sum to what backward() is called
    on, so that they take part in the backward pass.
    """
    return _operators.reduce(x, _group_of(x, group), root, op)


def broadcast(x: _ndarray, root: int = 0, group: ProcessGroup | None = None) -> _ndarray:
    """The array of one rank, at all of them; the others give one of its shape and dtype."""
    return _operators.broadcast(x, _group_of(x, group), root)


def all_gather(x: _ndarray, group: ProcessGroup | None = None) -> _ndarray:
    """All ranks' arrays, of one shape and dtype, stacked along a new first axis."""
    return _operators.all_gather(x, _group_of(x, group))


def gather(x: _ndarray, root: int = 0, group: ProcessGroup | None = None) -> _ndarray:
    """As all_gather(), at one rank; at the others an array without elements, as reduce()."""
    return _operators.gather(x, _group_of(x, group), root)


def scatter(x: _ndarray, root: int = 0, group: ProcessGroup | None = None) -> _ndarray:
    """Row x[rank] of one rank's array, which has a row for each rank.

    The others give an array of a row's shape and dtype; one that requires a gradient, if the rows
    of the root do.
    """
    return _operators.scatter(x, _group_of(x, group), root)


def reduce_scatter(
    x: _ndarray, op: _Reduction = "sum", group: ProcessGroup | None = None
) -> _ndarray:
    """all_reduce(x)[rank], of arrays that have a row for each rank."""
    return _operators.reduce_scatter(x, _group_of(x, group), op)


def all_to_all(x: _ndarray, group: ProcessGroup | None = None) -> _ndarray:
    """Rows from all ranks: row r is row x[rank] of rank r, whose array has a row for each rank."""
    return _operators.all_to_all(x, _group_of(x, group))


def send(x: _ndarray, peer: int, tag: int = 0, group: ProcessGroup | None = None) -> _ndarray:
    """Sends an array to another rank, for recv() there, and goes on.

    The daemon keeps a copy until then, in this session's quota.

    Returns:
      An array without elements. Where x requires a gradient, add its sum to what backward() is called
      on: the gradient of x is what the other rank's backward pass sends back.
    """
    return _operators.send(x, _group_of(x, group), peer, tag)


def recv(x: _ndarray, peer: int, tag: int = 0, group: ProcessGroup | None = None) -> _ndarray:
    """What another rank has sent with a tag, in the order in which it did.

    Args:
      x: an array of the shape and dtype that are sent. One that requires a gradient, if those of the
        sender do: then the backward pass sends the gradient there.
      peer: the rank that sends.
      tag: that it sends with.
      group: the default one of the array's session if None.

    Raises:
      ValueError: what was sent has another shape or dtype.
    """
    return _operators.recv(x, _group_of(x, group), peer, tag)


def send_recv(
    x: _ndarray, dest: int, source: int, tag: int = 0, group: ProcessGroup | None = None
) -> _ndarray:
    """Sends an array to one rank and gives what another one sends, of the same shape and dtype.

    The gradient of x is what `dest` sends back; that of the result goes to `source`.
    """
    sent = _operators.send(x, _group_of(x, group), dest, tag)
    # In the graph behind what was sent.
    like = _core.broadcast_to(_core.sum(sent).astype(x.dtype, copy=False), x.shape)
    return _operators.recv(like, _group_of(x, group), source, tag)
