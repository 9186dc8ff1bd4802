"""Which arrays one command can have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from chx._compat import zip_strict
from chx._core import ndarray
from chx.optimizers._rules import MAX_OPERANDS

T = TypeVar("T")


def by_device(items: Sequence[T], arrays: Sequence[ndarray]) -> Iterable[list[T]]:
    """The items in groups whose arrays are on one device, each small enough for two lists."""
    groups: dict[str, list[T]] = {}
    for item, array in zip_strict(items, arrays):
        groups.setdefault(str(array.device), []).append(item)
    most = MAX_OPERANDS // 2
    for group in groups.values():
        for i in range(0, len(group), most):
            yield group[i : i + most]
