"""Arrays of any shapes between ranks: each tells the others what it gives, then they exchange it.

Graphs of the daemon go through: whoever wants none gives arrays without.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple

import numpy as np

import chx
from chx import distributed
from chx._compat import zip_strict
from chx.chainermn._messages import Messages
from chx.distributed import ProcessGroup


class Spec(NamedTuple):
    """What ranks tell each other of an array: arrays arrive as the kind that was sent."""

    is_host: bool
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


_DTYPES = ("int32", "int64", "float16", "float32", "float64")


def is_array(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.generic, chx.ndarray))


def spec_of(caller: str, x: Any) -> Spec:
    """Raises TypeError unless x is an array whose dtype ChainerMN knows."""
    if not is_array(x):
        raise TypeError(f"{caller} expects an array of NumPy or chx, got {type(x).__name__}")
    if x.dtype not in _DTYPES:
        raise TypeError(f"{caller} does not support dtype {x.dtype}")
    return Spec(not isinstance(x, chx.ndarray), tuple(x.shape), str(x.dtype))


def check_dtypes(specs: Sequence[Spec]) -> None:
    if len({spec.dtype for spec in specs}) > 1:
        raise TypeError("all dtypes must be the same")


def specs_of(caller: str, xs: Sequence[Any]) -> list[Spec]:
    specs = [spec_of(caller, x) for x in xs]
    check_dtypes(specs)
    return specs


# Makes what a rank gives that has nothing to give: an array of a shape and dtype.
Like = Callable[[Spec], chx.ndarray]


def _flat(x: chx.ndarray, length: int) -> chx.ndarray:
    """Its elements, with zeros behind them."""
    return (
        x.reshape(-1) if x.size == length else chx.constant_pad(x.reshape(-1), (0, length - x.size))
    )


def _unpacked(rows: Any, specs: Sequence[Spec]) -> list[chx.ndarray]:
    return [row[: spec.size].reshape(spec.shape) for row, spec in zip_strict(rows, specs)]


def _longest(specs: Sequence[Spec]) -> int:
    return max(spec.size for spec in specs)


class Graph(NamedTuple):
    """Says that arrays follow whose gradients come back.

    Each array has a tag of its own, as two ranks' backward passes need not come to them in the same
    order.
    """

    specs: list[Spec]
    tags: list[int]


# Before a tag is used again.
_NUMBERS = 1 << 20

# Of arrays in graphs: all communicators of a group count on.
_numbers: weakref.WeakKeyDictionary[ProcessGroup, itertools.count[int]] = (
    weakref.WeakKeyDictionary()
)


class Exchange:
    """The ranks of a group. Functions that tell specs give them with what they have got."""

    def __init__(self, group: ProcessGroup) -> None:
        self.group = group
        self.messages = Messages(group)
        self._numbers = _numbers.setdefault(group, itertools.count())

    @property
    def device(self) -> chx.Device:
        """Where arrays of this process go."""
        return self.group.session.devices[0]

    def all_to_all(
        self, xs: Sequence[chx.ndarray], specs: Sequence[Spec]
    ) -> tuple[list[chx.ndarray], list[Spec]]:
        """What each rank has given for this one."""
        everyones = self.messages.all_gather(list(specs))
        got = [their[self.group.rank] for their in everyones]
        check_dtypes(got)
        longest = max(_longest(their) for their in everyones)
        rows = chx.stack([_flat(x, longest) for x in xs])
        return _unpacked(distributed.all_to_all(rows, self.group), got), got

    def all_gather(self, x: chx.ndarray, spec: Spec) -> tuple[list[chx.ndarray], list[Spec]]:
        """Each rank's array."""
        specs = self.messages.all_gather(spec)
        check_dtypes(specs)
        rows = distributed.all_gather(_flat(x, _longest(specs)), self.group)
        return _unpacked(rows, specs), specs

    def gather(self, x: chx.ndarray, spec: Spec, root: int) -> tuple[Any, list[Spec]]:
        """Each rank's array at the root; an array without elements at the others."""
        specs = self.messages.all_gather(spec)
        check_dtypes(specs)
        rows = distributed.gather(_flat(x, _longest(specs)), root, self.group)
        return _unpacked(rows, specs) if self.group.rank == root else rows, specs

    def scatter(
        self,
        xs: Sequence[chx.ndarray] | None,
        specs: Sequence[Spec] | None,
        root: int,
        like: Like,
    ) -> tuple[chx.ndarray, Spec]:
        """The root's array for this rank; the others give None and None."""
        specs = self.messages.broadcast(None if specs is None else list(specs), root)
        longest = _longest(specs)
        if xs is None:
            given = like(Spec(False, (longest,), specs[0].dtype))
        else:
            given = chx.stack([_flat(x, longest) for x in xs])
        row = distributed.scatter(given, root, self.group)
        spec = specs[self.group.rank]
        return _unpacked([row], [spec])[0], spec

    def broadcast(
        self, x: chx.ndarray | None, spec: Spec | None, root: int, like: Like
    ) -> tuple[chx.ndarray, Spec]:
        """The root's array; the others give None and None."""
        spec = self.messages.broadcast(spec, root)
        assert spec is not None
        return distributed.broadcast(like(spec) if x is None else x, root, self.group), spec

    def send_graph(self, xs: Sequence[chx.ndarray], dest: int, tag: int) -> list[chx.ndarray]:
        """Says so by a Graph; gives the arrays without elements that stand for what was sent."""
        # 0: of Messages. No other rank has the same ones: gradients go there with them.
        tags = [1 + next(self._numbers) % _NUMBERS * self.group.size + self.group.rank for _ in xs]
        self.messages.send(Graph(specs_of("send", xs), tags), dest, tag)
        return [distributed.send(x, dest, t, self.group) for x, t in zip_strict(xs, tags)]

    def receive_graph(self, like: chx.ndarray, source: int, tag: int) -> chx.ndarray:
        """One of the arrays of a Graph, by its tag there."""
        return distributed.recv(like, source, tag, self.group)
