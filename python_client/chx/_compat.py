"""What the oldest Python that chx supports, 3.9, lacks in its standard library."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from typing_extensions import Self as Self, TypeAlias as TypeAlias, TypeGuard as TypeGuard
else:
    # Names in annotations, which nothing evaluates.
    Self = TypeAlias = TypeGuard = Any

_A = TypeVar("_A")
_B = TypeVar("_B")
_C = TypeVar("_C")


@overload
def zip_strict(a: Iterable[_A], b: Iterable[_B], /) -> Iterator[tuple[_A, _B]]: ...
@overload
def zip_strict(
    a: Iterable[_A], b: Iterable[_B], c: Iterable[_C], /
) -> Iterator[tuple[_A, _B, _C]]: ...
@overload
def zip_strict(*iterables: Iterable[Any]) -> Iterator[tuple[Any, ...]]: ...
def zip_strict(*iterables: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """As zip(*iterables, strict=True): ValueError if the lengths differ."""
    missing = object()
    for values in itertools.zip_longest(*iterables, fillvalue=missing):
        if any(value is missing for value in values):
            raise ValueError("[zip_strict] expects iterables of one length, got several lengths")
        yield values


if not TYPE_CHECKING and sys.version_info >= (3, 10):
    zip_strict = functools.partial(zip, strict=True)
