"""Functions that move elements around, and those that pick some."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._numpy import calculus, transfer
from chx._types import Axis, Operand, Shape


def _axis(name: str, axis: SupportsIndex, ndim: int) -> int:
    """An axis counted from the front.

    Raises:
      IndexError: there is none of that number.
    """
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise IndexError(f"[{name}] expects an axis in [{-ndim}, {ndim}), got {axis}")
    return axis % ndim


def broadcast_arrays(*arrays: ndarray) -> list[ndarray]:
    """The arrays in a common shape, as a list of views."""
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    return [_core.broadcast_to(x, shape) for x in arrays]


def broadcast_to(x: ndarray, /, shape: int | Shape) -> ndarray:
    """The array in a shape that it broadcasts to, a view."""
    return _core.broadcast_to(x, shape)


def concat(arrays: Sequence[ndarray], /, *, axis: int | None = 0) -> ndarray:
    """The arrays one after another along an axis; with None, all of their elements."""
    return _core.concatenate(list(arrays), axis)


def expand_dims(x: ndarray, /, *, axis: int = 0) -> ndarray:
    """The array with a new axis of size 1, a view. IndexError if there cannot be such an axis."""
    return _core.expand_dims(x, _axis("expand_dims", axis, x.ndim + 1))


def flip(x: ndarray, /, *, axis: Axis = None) -> ndarray:
    """The elements in reverse order along an axis, some, or all. A view."""
    return _core.flip(x, axis)


def moveaxis(
    x: ndarray, source: int | tuple[int, ...], destination: int | tuple[int, ...], /
) -> ndarray:
    """The array with some axes elsewhere, and the others in their order. A view."""
    return _core.moveaxis(x, source, destination)


def permute_dims(x: ndarray, /, axes: tuple[int, ...]) -> ndarray:
    """The array with its axes in another order, a view."""
    return _core.transpose(x, axes)


def repeat(
    x: ndarray, repeats: int | Sequence[int] | ndarray, /, *, axis: int | None = None
) -> ndarray:
    """Each element several times, along an axis or, with None, of the flattened array.

    `repeats` may be an array with a number for each; that is waited for.
    """
    counts: Any = repeats
    if isinstance(counts, _core.ndarray):
        counts = transfer.to_numpy(counts).tolist()
    if isinstance(counts, (list, tuple)) and len(counts) == 1:
        (counts,) = counts
    return _core.repeat(x, counts, axis)


def reshape(x: ndarray, /, shape: int | Shape, *, copy: bool | None = None) -> ndarray:
    """The elements in another shape, one of whose sizes may be -1. A view where that can be.

    Raises:
      ValueError: `copy` is False, and the array is not in C order.
    """
    if copy is False and not x.is_contiguous:
        raise ValueError("[reshape] expects an array in C order if copy is False")
    return _core.reshape(_core.copy(x) if copy else x, shape)


def roll(x: ndarray, /, shift: int | tuple[int, ...], *, axis: Axis = None) -> ndarray:
    """The elements moved on along axes; what leaves at the end comes back at the front."""
    if isinstance(axis, tuple) and not isinstance(shift, tuple):
        shift = (shift,) * len(axis)
    return _core.roll(x, shift, axis)


def squeeze(x: ndarray, /, axis: int | tuple[int, ...]) -> ndarray:
    """The array without some axes of size 1, a view.

    Raises:
      IndexError: there is no such axis.
      ValueError: an axis has another size.
    """
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [_axis("squeeze", a, x.ndim) for a in given]
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f"[squeeze] expects axes of size 1, got {axes} of shape {x.shape}")
    return _core.squeeze(x, axes)


def stack(arrays: Sequence[ndarray], /, *, axis: int = 0) -> ndarray:
    """The arrays along a new axis."""
    return _core.stack(list(arrays), axis)


def tile(x: ndarray, repetitions: tuple[int, ...], /) -> ndarray:
    """The whole array several times along each axis."""
    return _core.tile(x, repetitions)


def unstack(x: ndarray, /, *, axis: int = 0) -> tuple[ndarray, ...]:
    """The parts along an axis without it, as a tuple of views."""
    lanes = _core.moveaxis(x, _axis("unstack", axis, x.ndim), 0)
    return tuple(lanes[i] for i in range(lanes.shape[0]))


def take(x: ndarray, indices: ndarray, /, *, axis: int | None = None) -> ndarray:
    """The parts at integer indices along an axis, which may be left out of one-dimensional arrays.

    Raises:
      ValueError: the axis is left out of an array of more dimensions.
    """
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"[take] expects an axis of an array of shape {x.shape}")
        axis = 0
    return _core.take(x, indices, axis)


def take_along_axis(x: ndarray, indices: ndarray, /, *, axis: int = -1) -> ndarray:
    """The elements at indices along an axis, an index for each place in the others."""
    return _core.take_along_axis(x, indices, axis)


def where(condition: ndarray, x1: Operand, x2: Operand, /) -> ndarray:
    """x1 where a condition holds, x2 elsewhere."""
    return _core.where(condition, x1, x2)


def diff(
    x: ndarray,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: ndarray | None = None,
    append: ndarray | None = None,
) -> ndarray:
    """Differences of neighbours along an axis, `n` times, after joining arrays at the ends."""
    parts = [part for part in (prepend, x, append) if part is not None]
    x = _core.concatenate(parts, axis) if len(parts) > 1 else x
    return calculus.diff(x, n, axis)
