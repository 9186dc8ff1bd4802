"""Indexing by integer arrays, sequences and masks, as NumPy does it; reading has gradients.

Integer arrays on the client are checked and combined there. Those on the device stay there; only the
answer whether they are in range is waited for, and for a mask the number of elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from chx import _core
from chx._compat import zip_strict
from chx._core import Device, ndarray
from chx._numpy import creation, index_arrays
from chx._types import Shape


class _Selection:
    """A key taken apart: a basic index, then integer arrays along some of the view's axes."""

    def __init__(self, array: ndarray, key: Any) -> None:
        items, flags = _taken_apart(array, key if isinstance(key, tuple) else (key,))
        # Beside arrays, integers count as arrays. Every item makes an axis of the view.
        self.axes = [i for i, item in enumerate(items) if _is_array(item) or _is_integer(item)]
        self.adjacent = self.axes == list(range(self.axes[0], self.axes[-1] + 1))
        basic = [
            None if i in flags else slice(None) if i in self.axes else item
            for i, item in enumerate(items)
        ]
        self.view = array[tuple(basic)]
        indices = [items[a] if _is_array(items[a]) else np.asarray(items[a]) for a in self.axes]
        self.index = _linear(indices, [self.view.shape[a] for a in self.axes], array.device)

    def rows(self) -> ndarray:
        """The view with the indexed axes in front, made one."""
        front = self.view
        if self.axes != list(range(len(self.axes))):
            front = _core.moveaxis(front, self.axes, list(range(len(self.axes))))
        if len(self.axes) == 1:
            return front
        return front.reshape(
            _product(front.shape[: len(self.axes)]), *front.shape[len(self.axes) :]
        )

    def place(self) -> int:
        """Where the indices' dimensions are in the result."""
        return self.axes[0] if self.adjacent else 0


def getitem_by_arrays(array: ndarray, key: Any) -> ndarray:
    """array[key]. IndexError: out of range, or not an index at all."""
    selection = _Selection(array, key)
    if len(selection.axes) == 1:
        return _core.take(selection.view, selection.index, axis=selection.axes[0])
    taken = _core.take(selection.rows(), selection.index, axis=0)
    place, ndim = selection.place(), selection.index.ndim
    if place == 0 or ndim == 0:
        return taken
    return _core.moveaxis(taken, list(range(ndim)), list(range(place, place + ndim)))


def setitem_by_arrays(array: ndarray, key: Any, value: Any) -> None:
    """array[key] = value, in the order of the elements. IndexError as above."""
    if not isinstance(value, _core.ndarray):
        value = creation.array(np.asarray(value), dtype=array.dtype, device=array.device)
    if _is_mask(key) and key.shape == array.shape and value.ndim == 0:
        mask = creation.asarray(key, device=array.device)
        _core.copyto(array, _core.where(mask, value.astype(array.dtype), array))
        return
    selection = _Selection(array, key)
    rows = selection.rows()
    place, ndim = selection.place(), selection.index.ndim
    rest = rows.shape[1:]
    shape = rest[:place] + selection.index.shape + rest[place:]
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = value[0]
    value = _core.broadcast_to(value, shape)
    if place and ndim:
        value = _core.moveaxis(value, list(range(place, place + ndim)), list(range(ndim)))
    flat = selection.index.ravel()
    values = value.reshape(flat.size, *rest)
    front = _core.moveaxis(selection.view, selection.axes, list(range(len(selection.axes))))
    if len(selection.axes) == 1:
        _core.index_put(front, flat, values)
        return
    # `rows` may be a copy.
    rows = rows.copy()
    _core.index_put(rows, flat, values)
    _core.copyto(front, rows.reshape(front.shape))


def _product(sizes: Iterable[int]) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result


def _is_integer(item: Any) -> bool:
    return isinstance(item, (int, np.integer)) and not isinstance(item, (bool, np.bool_))


def _is_array(item: Any) -> bool:
    return isinstance(item, (_core.ndarray, np.ndarray))


def _is_mask(item: Any) -> bool:
    return _is_array(item) and item.dtype == np.bool_


def _valid(item: Any) -> Any:
    """An item of a key as it is, or as the array that NumPy makes of a bool or a sequence."""
    if item is None or item is Ellipsis or isinstance(item, slice) or _is_integer(item):
        return item
    if isinstance(item, (bool, np.bool_)):
        return np.asarray(item)
    if isinstance(item, (list, tuple, range)):
        item = np.asarray(item)
        item = item if item.size else item.astype(np.int64)  # of no elements it has no kind
    if _is_array(item) and item.dtype.kind in "iub":
        return item
    raise IndexError(
        "[getitem] expects integers, slices, None, Ellipsis, and arrays of integers or bools, "
        f"got {item!r}"
    )


def _taken_apart(array: ndarray, key: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """The items, with slices for what is left out, and masks as integer arrays.

    Beside them, which of them were masks without dimensions: these index a new axis of size 1.
    """
    items = [_valid(item) for item in key]
    ndims = [
        item.ndim if _is_mask(item) else 0 if item is None or item is Ellipsis else 1
        for item in items
    ]
    if sum(ndims) > array.ndim:
        raise IndexError(f"[getitem] expects at most {array.ndim} indices, got {sum(ndims)}")
    places = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(places) > 1:
        raise IndexError("[getitem] expects at most one Ellipsis")
    place = places[0] if places else len(items)
    items[place : place + 1] = [slice(None)] * (array.ndim - sum(ndims))
    result = []
    flags = []
    axis = 0
    for item in items:
        if not _is_mask(item):
            result.append(item)
            axis += item is not None
            continue
        if item.ndim == 0:
            flags.append(len(result))
            result.append(np.zeros(int(item), np.int64))
            continue
        shape = array.shape[axis : axis + item.ndim]
        # NumPy lets a mask without elements be shorter.
        if item.shape != shape and not (item.size == 0 and _covers(shape, item.shape)):
            raise IndexError(f"[getitem] expects a mask of shape {shape}, got {item.shape}")
        result += np.nonzero(item) if isinstance(item, np.ndarray) else index_arrays.nonzero(item)
        axis += item.ndim
    return result, flags


def _covers(shape: Shape, mask: Shape) -> bool:
    return len(shape) == len(mask) and all(m in (0, size) for size, m in zip_strict(shape, mask))


def _linear(indices: Sequence[Any], sizes: Sequence[int], device: Device) -> ndarray:
    """The indices broadcast and combined to positions in C order, on the device."""
    if not all(isinstance(index, np.ndarray) for index in indices):
        arrays = [creation.asarray(index, device=device) for index in indices]
        result: ndarray = _combined([wrapped(i, s) for i, s in zip_strict(arrays, sizes)], sizes)
        return result
    positive = []
    for index, size in zip_strict(indices, sizes):
        index = index.astype(np.int64, copy=False)
        bad = (index < -size) | (index >= size)
        if bad.any():
            _refuse(index[bad].flat[0], size)
        positive.append(np.where(index < 0, index + size, index))
    try:
        return creation.asarray(_combined(positive, sizes), device=device)
    except ValueError as error:
        raise IndexError(f"[getitem] expects indices that broadcast: {error}") from None


def _combined(indices: Sequence[Any], sizes: Sequence[int]) -> Any:
    total = indices[0]
    for index, size in zip_strict(indices[1:], sizes[1:]):
        total = total * size + index
    return total


def wrapped(index: ndarray, size: int, name: str = "getitem", along: str = "an axis") -> ndarray:
    """An array on the device, checked and with negative indices counted from the start."""
    index = index.astype("int64")
    bad = (index < -size) | (index >= size)
    if index.size and bool(_core.any(bad)):
        _refuse(int(index.ravel()[int(_core.argmax(bad))]), size, name, along)
    return _core.where(index < 0, index + size, index)


def _refuse(index: int, size: int, name: str = "getitem", along: str = "an axis") -> NoReturn:
    raise IndexError(f"[{name}] index {index} is out of bounds for {along} of size {size}")
