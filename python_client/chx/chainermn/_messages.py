"""Python objects between ranks, as bytes in arrays of the daemon."""

from __future__ import annotations

import pickle
import weakref
from collections import deque
from typing import Any

import numpy as np

import chx
from chx import distributed
from chx._compat import zip_strict
from chx.distributed import ProcessGroup

# What goes with the length, in one exchange: most objects fit.
_FIRST = 504


# Messages of tags that were not asked for yet, by source: a group may have several communicators.
_kept: weakref.WeakKeyDictionary[ProcessGroup, dict[int, deque[tuple[int, Any]]]] = (
    weakref.WeakKeyDictionary()
)


def _to_bytes(value: Any) -> np.ndarray:
    return np.frombuffer(pickle.dumps(value, protocol=4), np.uint8)


def _first_of(data: np.ndarray) -> np.ndarray:
    """The length in 8 bytes, and the first bytes."""
    block = np.zeros(8 + _FIRST, np.uint8)
    block[:8] = np.frombuffer(np.int64(len(data)).tobytes(), np.uint8)
    block[8 : 8 + len(data)] = data[:_FIRST]
    return block


def _length(block: np.ndarray) -> int:
    return int(block[:8].view(np.int64)[0])


def _joined(block: np.ndarray, rest: np.ndarray) -> Any:
    length = _length(block)
    return pickle.loads(block[8 : 8 + length].tobytes() + rest[: max(0, length - _FIRST)].tobytes())


class Messages:
    """Objects of the ranks of a group: to all, or from one to another in order, told apart by tags."""

    def __init__(self, group: ProcessGroup) -> None:
        self._group = group
        self._kept = _kept.setdefault(group, {})

    def _array(self, data: np.ndarray) -> chx.ndarray:
        return chx.array(data, device=self._group.session.devices[0])

    def all_gather(self, value: Any) -> list[Any]:
        """All ranks' objects."""
        data = _to_bytes(value)
        blocks = distributed.all_gather(self._array(_first_of(data)), self._group)
        blocks = chx.to_numpy(blocks)
        longest = max(_length(block) for block in blocks) - _FIRST
        rests = np.empty((len(blocks), 0), np.uint8)
        if longest > 0:
            rest = np.zeros(longest, np.uint8)
            rest[: max(0, len(data) - _FIRST)] = data[_FIRST:]
            rests = chx.to_numpy(distributed.all_gather(self._array(rest), self._group))
        return [_joined(block, rest) for block, rest in zip_strict(blocks, rests)]

    def broadcast(self, value: Any, root: int) -> Any:
        """One rank's object; what the others give is not looked at."""
        own = self._group.rank == root
        data = _to_bytes(value if own else None)
        block = distributed.broadcast(self._array(_first_of(data)), root, self._group)
        block = chx.to_numpy(block)
        length = _length(block) - _FIRST
        rest = np.empty(0, np.uint8)
        if length > 0:
            given = data[_FIRST:] if own else np.empty(length, np.uint8)
            rest = chx.to_numpy(distributed.broadcast(self._array(given), root, self._group))
        return value if own else _joined(block, rest)

    def send(self, value: Any, dest: int, tag: int, arrays: tuple[chx.ndarray, ...] = ()) -> None:
        """An object, and arrays, which the other rank gets as arrays of its own."""
        specs = [(array.shape, str(array.dtype)) for array in arrays]
        data = _to_bytes((tag, value, specs))
        distributed.send(self._array(_first_of(data)), dest, group=self._group)
        if len(data) > _FIRST:
            distributed.send(self._array(data[_FIRST:]), dest, group=self._group)
        for array in arrays:
            distributed.send(array, dest, group=self._group)

    def receive(self, source: int, tag: int | None) -> tuple[Any, list[chx.ndarray]]:
        """The next object of a tag, or of any tag if None, and its arrays."""
        kept = self._kept.setdefault(source, deque())
        for i, (its_tag, message) in enumerate(kept):
            if tag in (None, its_tag):
                del kept[i]
                return message
        while True:
            its_tag, message = self._next(source)
            if tag in (None, its_tag):
                return message
            kept.append((its_tag, message))

    def _receive(self, source: int, shape: tuple[int, ...], dtype: str) -> chx.ndarray:
        like = chx.empty(shape, dtype, device=self._group.session.devices[0])
        return distributed.recv(like, source, group=self._group)

    def _next(self, source: int) -> tuple[int, tuple[Any, list[chx.ndarray]]]:
        block = chx.to_numpy(self._receive(source, (8 + _FIRST,), "uint8"))
        length = _length(block) - _FIRST
        rest = np.empty(0, np.uint8)
        if length > 0:
            rest = chx.to_numpy(self._receive(source, (length,), "uint8"))
        tag, value, specs = _joined(block, rest)
        return tag, (value, [self._receive(source, shape, dtype) for shape, dtype in specs])
