"""NumPy's chapter "Array manipulation routines". Gradients come from the operators."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._numpy import creation, transfer
from chx._numpy.arguments import (
    array_beside,
    array_like,
    arrays_like,
    check_written,
    checked_axis,
)
from chx._types import NumpyArray, Operand, is_float


def ndim(a: Any) -> int:
    """How many dimensions an array has, or would have."""
    return a.ndim if isinstance(a, _core.ndarray) else np.ndim(a)


def shape(a: Any) -> tuple[int, ...]:
    """The shape that an array has, or would have."""
    return a.shape if isinstance(a, _core.ndarray) else np.shape(a)


def size(a: Any, axis: int | None = None) -> int:
    """How many elements an array has, or would have, in all or along an axis."""
    dims = shape(a)
    if axis is None:
        return int(np.prod(dims, dtype=np.int64))
    return dims[checked_axis("size", axis, len(dims))]


def copyto(dst: ndarray, src: Operand, casting: str = "no", where: Any = True) -> None:
    """Writes src, broadcast, into dst where a condition holds.

    Raises:
      DtypeError: the dtypes differ, and `casting` is 'no'.
    """
    check_written("copyto", dst)
    if isinstance(src, (np.ndarray, list, tuple)):
        src = array_like(src, dst)
    if isinstance(src, _core.ndarray) and src.dtype != dst.dtype and casting == "no":
        raise _core.DtypeError(f"[copyto] expects {dst.dtype}, got {src.dtype}")
    if where is True:
        _core.copyto(dst, src)
    elif where is not False:
        where = creation.asarray(where, device=dst.device)
        _core.copyto(dst, _core.where(where, src, dst.as_grad_stopped()))


def _each(convert: Callable[[ndarray], ndarray], arrays: Sequence[Any]) -> Any:
    results = [convert(a) for a in arrays_like(convert.__name__, *arrays)] if arrays else []
    return results[0] if len(results) == 1 else results


def atleast_1d(*arys: Any) -> Any:
    """Arrays with at least one dimension: a list of them if there are several."""
    return _each(_core.atleast_1d, arys)


def atleast_2d(*arys: Any) -> Any:
    """Arrays with at least two dimensions, new ones in front: a list of them if there are several."""
    return _each(_core.atleast_2d, arys)


def atleast_3d(*arys: Any) -> Any:
    """Arrays with at least three dimensions: a list of them if there are several."""
    return _each(_core.atleast_3d, arys)


def expand_dims(a: ndarray, axis: int | tuple[int, ...]) -> ndarray:
    """A view with new axes of size 1 at the places that they have in the result."""
    if not isinstance(axis, (tuple, list)):
        return _core.expand_dims(a, axis)
    ndim = a.ndim + len(axis)
    axes = [checked_axis("expand_dims", i, ndim) for i in axis]
    if len(set(axes)) != len(axes):
        raise ValueError(f"[expand_dims] expects each axis once, got {axis}")
    return a[tuple(None if i in axes else slice(None) for i in range(ndim))]


def broadcast_arrays(*args: Any) -> list[ndarray]:
    """Copies in a common shape. By NumPy; RuntimeError if an array is in a graph."""
    args = tuple(arrays_like("broadcast_arrays", *args)) if args else ()
    values, device = transfer.values_outside_graphs("broadcast_arrays", args)
    return [creation.array(v, device=device) for v in np.broadcast_arrays(*values)]


def flip(m: ndarray, axes: Any = None, *, axis: Any = None) -> ndarray:
    """The elements in reverse order along axes, by default all. A view. NumPy says `axis`."""
    if axes is not None and axis is not None:
        raise TypeError("[flip] expects axes or axis, got both")
    return _core.flip(m, axis if axes is None else axes)


def roll(a: ndarray, shift: Any, axis: Any = None) -> ndarray:
    """The elements moved along axes, those beyond the end to the front; flattened without an axis.

    Several shifts, several axes or both; shifts along one axis add up.
    """
    if not isinstance(shift, (tuple, list, np.ndarray)) and not isinstance(axis, (tuple, list)):
        return _core.roll(a, shift, axis)
    shifts = [operator.index(n) for n in np.atleast_1d(shift)]
    if axis is None:
        return _core.roll(a, sum(shifts))
    axes = [checked_axis("roll", operator.index(i), a.ndim) for i in np.atleast_1d(axis)]
    if len(shifts) != len(axes) and 1 not in (len(shifts), len(axes)):
        raise ValueError(f"[roll] expects one shift, or one for each axis, got {shift} for {axis}")
    count = max(len(shifts), len(axes)) if shifts and axes else 0
    along: dict[int, int] = {}
    for n, i in zip(shifts * (count // len(shifts or [0])), axes * count):
        along[i] = along.get(i, 0) + n
    return _core.roll(a, list(along.values()), list(along)) if along else _core.copy(a)


def rot90(m: ndarray, k: int = 1, axes: tuple[int, int] = (0, 1)) -> ndarray:
    """The array turned k times by 90 degrees in the plane of two axes, from the first to the second.

    A view. ValueError if the axes aren't two different ones.
    """
    first, second = (checked_axis("rot90", axis, m.ndim) for axis in axes)
    if first == second:
        raise ValueError(f"[rot90] expects two different axes, got {tuple(axes)}")
    k %= 4
    if k == 0:
        return m.view()
    if k == 2:
        return _core.flip(m, (first, second))
    if k == 1:
        return _core.swapaxes(_core.flip(m, second), first, second)
    return _core.flip(_core.swapaxes(m, first, second), second)


def column_stack(tup: Sequence[Any]) -> ndarray:
    """Arrays joined along axis 1; one-dimensional ones become columns."""
    arrays = arrays_like("column_stack", *tup)
    return _core.concatenate([a.reshape(a.size, 1) if a.ndim < 2 else a for a in arrays], 1)


def row_stack(tup: Sequence[Any]) -> ndarray:
    """Arrays joined along axis 0; one-dimensional ones become rows: vstack()."""
    return _core.vstack(arrays_like("row_stack", *tup))


def block(arrays: Any) -> ndarray:
    """Arrays put together from nested lists: the innermost ones are joined along the last axis.

    Raises:
      ValueError: the lists are not equally deep, or one is empty.
    """
    depth, ndim, first = _depth(arrays)
    return _block(arrays, depth, builtins.max(depth, ndim), first)


def _depth(arrays: Any) -> tuple[int, int, ndarray | None]:
    """How deep lists are nested, the most dimensions of an array, and some array."""
    if not isinstance(arrays, list):
        return 0, ndim(arrays), arrays if isinstance(arrays, _core.ndarray) else None
    if not arrays:
        raise ValueError("[block] expects lists with elements, got []")
    found = [_depth(a) for a in arrays]
    if len({depth for depth, _, _ in found}) > 1:
        raise ValueError("[block] expects lists that are equally deep")
    firsts = [first for _, _, first in found if first is not None]
    return found[0][0] + 1, builtins.max(n for _, n, _ in found), firsts[0] if firsts else None


def _block(arrays: Any, depth: int, ndim: int, first: ndarray | None) -> ndarray:
    if depth == 0:
        a = creation.array(arrays) if first is None else array_like(arrays, first)
        return a.reshape((1,) * (ndim - a.ndim) + a.shape)
    return _core.concatenate([_block(a, depth - 1, ndim, first) for a in arrays], -depth)


def split(ary: ndarray, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[ndarray]:
    """Parts along an axis, as a list: equal ones if given a number, or cut at indices. Views."""
    if np.ndim(indices_or_sections) == 0:
        number = np.asarray(indices_or_sections)
        if is_float(number.dtype) and float(number).is_integer():  # as NumPy takes it
            indices_or_sections = int(number)
        return list(_core.split(ary, cast(int, indices_or_sections), None, axis))
    return list(_core.split(ary, None, cast(Sequence[int], indices_or_sections), axis))


def array_split(
    ary: ndarray, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[ndarray]:
    """Parts along an axis as split(), as equal as they can be if given a number. Views."""
    if np.ndim(indices_or_sections) > 0:
        return split(ary, indices_or_sections, axis)
    sections = int(cast(int, indices_or_sections))
    if sections < 1:
        raise ValueError(f"[array_split] expects sections from 1 on, got {sections}")
    short, longer = divmod(ary.shape[checked_axis("array_split", axis, ary.ndim)], sections)
    sizes = [short + 1] * longer + [short] * (sections - longer)
    return split(ary, np.cumsum(sizes)[:-1].tolist(), axis)


def _split_along(
    name: str, axis: int, ndim: int
) -> Callable[[ndarray, int | Sequence[int]], list[ndarray]]:
    def split_along(ary: ndarray, indices_or_sections: int | Sequence[int]) -> list[ndarray]:
        if ary.ndim < ndim:
            raise _core.DimensionError(
                f"[{name}] expects at least {ndim} dimensions, got shape {ary.shape}"
            )
        return split(ary, indices_or_sections, axis if ary.ndim > 1 else 0)

    split_along.__name__ = split_along.__qualname__ = name
    split_along.__doc__ = f"Parts along axis {axis}, as a list of views: see split()."
    return split_along


vsplit = _split_along("vsplit", 0, 2)
hsplit = _split_along("hsplit", 1, 1)
dsplit = _split_along("dsplit", 2, 3)


def append(arr: Any, values: Any, axis: int | None = None) -> ndarray:
    """arr with values after it, along an axis; both flattened by default."""
    arr, values = arrays_like("append", arr, values)
    if axis is None:
        return _core.concatenate([_core.ravel(arr), _core.ravel(values)], 0)
    return _core.concatenate([arr, values], axis)


def _index(obj: Any, size: int) -> NumpyArray:
    """What slices, masks, numbers, lists and arrays select of `size` elements, as a NumPy array.

    Waits for the values of an array on a device.
    """
    if isinstance(obj, slice):
        return np.arange(*obj.indices(size))
    if isinstance(obj, _core.ndarray):
        obj = transfer.to_numpy(obj)
    index = np.asarray(obj)
    if index.dtype == np.bool_:
        return np.flatnonzero(index)
    return index.astype(np.int64) if index.size == 0 else index


def delete(arr: Any, obj: Any, axis: int | None = None) -> ndarray:
    """arr without the parts that an index along an axis selects (flattened by default).

    IndexError: out of range. An index on a device is waited for.
    """
    arr = array_beside("delete", arr, obj)
    if axis is None:
        arr, axis = _core.ravel(arr), 0
    axis = checked_axis("delete", axis, arr.ndim)
    length = arr.shape[axis]
    if not isinstance(obj, slice):
        obj = _index(obj, length)
    kept = np.delete(np.arange(length), obj)
    return _core.take(arr, creation.array(kept, device=arr.device), axis)


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> ndarray:
    """arr with values before the parts that an index along an axis selects (flattened by default).

    Values are cast to arr's dtype, and broadcast. IndexError: out of range. An index on a device is
    waited for.
    """
    arr = array_beside("insert", arr, values, obj)
    if axis is None:
        arr, axis = _core.ravel(arr), 0
    axis = checked_axis("insert", axis, arr.ndim)
    length = arr.shape[axis]
    index = _index(obj, length)
    values = array_like(values, arr).astype(arr.dtype, copy=False)
    values = values.reshape((1,) * (arr.ndim - values.ndim) + values.shape)
    if index.ndim == 0:
        values = _core.moveaxis(values, 0, axis)
    count = values.shape[axis] if index.size == 1 else index.size
    wide = (*arr.shape[:axis], count, *arr.shape[axis + 1 :])
    both = _core.concatenate([arr, _core.broadcast_to(values, wide)], axis)
    new = np.arange(length, length + count)
    where = np.full(count, index.reshape(-1)[0]) if index.size == 1 else index
    if count == 0:
        return _core.copy(arr)
    order = np.insert(np.arange(length), where, new)
    return _core.take(both, creation.array(order, device=arr.device), axis)


def resize(a: ndarray, new_shape: int | Sequence[int]) -> ndarray:
    """The elements in C order, repeated as often as it takes, in a new shape."""
    dims = (new_shape,) if isinstance(new_shape, int) else tuple(new_shape)
    count = int(np.prod(dims, dtype=np.int64))
    flat = _core.ravel(a)
    if count == 0 or flat.size == 0:
        return _core.zeros(dims, a.dtype, device=a.device)
    return _core.tile(flat, -(-count // flat.size))[:count].reshape(dims)


def trim_zeros(filt: ndarray, trim: str = "fb") -> ndarray:
    """A one-dimensional array without the zeros at its front ('f') and back ('b'). A view; waits."""
    inside = np.flatnonzero(transfer.to_numpy(filt))
    if inside.size == 0:
        return filt[:0]
    first = inside[0] if "f" in trim.lower() else 0
    last = inside[-1] + 1 if "b" in trim.lower() else filt.size
    return filt[int(first) : int(last)]
