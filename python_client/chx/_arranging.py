"""NumPy's functions that put arrays together and take them apart. Gradients come from the operators."""

import builtins

import numpy as np

import chx
from chx import _core


def _like(value, array, dtype=None):
    """`value` as an array on another's device."""
    if isinstance(value, _core.ndarray):
        return value
    return chx.array(np.asarray(value), dtype, device=array.device)


def _all_like(values):
    """Values of which at least one is an array, all as arrays on its device."""
    values = list(values)
    array = next((v for v in values if isinstance(v, _core.ndarray)), None)
    return values if array is None else [_like(v, array) for v in values]


def _axis(name, axis, ndim):
    if not -ndim <= axis < ndim:
        raise _core.DimensionError(f"[{name}] expects an axis in [{-ndim}, {ndim}), got {axis}")
    return axis % ndim


def ndim(a):
    """How many dimensions an array has, or would have."""
    return a.ndim if isinstance(a, _core.ndarray) else np.ndim(a)


def shape(a):
    """The shape that an array has, or would have."""
    return a.shape if isinstance(a, _core.ndarray) else np.shape(a)


def size(a, axis=None):
    """How many elements an array has, or would have, in all or along an axis."""
    dims = shape(a)
    if axis is None:
        return int(np.prod(dims, dtype=np.int64))
    return dims[_axis("size", axis, len(dims))]


# --- Turned and joined -----------------------------------------------------------------------------


def rot90(m, k=1, axes=(0, 1)):
    """The array turned k times by 90 degrees in the plane of two axes, from the first to the second.

    A view. ValueError if the axes aren't two different ones.
    """
    first, second = (_axis("rot90", axis, m.ndim) for axis in axes)
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


def column_stack(tup):
    """Arrays joined along axis 1; one-dimensional ones become columns."""
    arrays = _all_like(tup)
    return _core.concatenate([a.reshape(a.size, 1) if a.ndim < 2 else a for a in arrays], 1)


def row_stack(tup):
    """Arrays joined along axis 0; one-dimensional ones become rows: vstack()."""
    return _core.vstack(_all_like(tup))


def block(arrays):
    """Arrays put together from nested lists: the innermost ones are joined along the last axis.

    Raises:
      ValueError: the lists are not equally deep, or one is empty.
    """
    depth, ndim, first = _depth(arrays)
    return _block(arrays, depth, builtins.max(depth, ndim), first)


def _depth(arrays):
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


def _block(arrays, depth, ndim, first):
    if depth == 0:
        a = chx.array(arrays) if first is None else _like(arrays, first)
        return a.reshape((1,) * (ndim - a.ndim) + a.shape)
    return _core.concatenate([_block(a, depth - 1, ndim, first) for a in arrays], -depth)


def append(arr, values, axis=None):
    """arr with values after it, along an axis; both flattened by default."""
    values = _like(values, arr)
    if axis is None:
        return _core.concatenate([_core.ravel(arr), _core.ravel(values)], 0)
    return _core.concatenate([arr, values], axis)


def _index(obj, size):
    """What slices, masks, numbers, lists and arrays select of `size` elements, as a NumPy array.

    Waits for the values of an array on a device.
    """
    if isinstance(obj, slice):
        return np.arange(*obj.indices(size))
    if isinstance(obj, _core.ndarray):
        obj = chx.to_numpy(obj)
    index = np.asarray(obj)
    if index.dtype == np.bool_:
        return np.flatnonzero(index)
    return index.astype(np.int64) if index.size == 0 else index


def delete(arr, obj, axis=None):
    """arr without the parts that an index along an axis selects (flattened by default).

    IndexError: out of range. An index on a device is waited for.
    """
    if axis is None:
        arr, axis = _core.ravel(arr), 0
    axis = _axis("delete", axis, arr.ndim)
    length = arr.shape[axis]
    if not isinstance(obj, slice):
        obj = _index(obj, length)
    kept = np.delete(np.arange(length), obj)
    return _core.take(arr, chx.array(kept, device=arr.device), axis)


def insert(arr, obj, values, axis=None):
    """arr with values before the parts that an index along an axis selects (flattened by default).

    Values are cast to arr's dtype, and broadcast. IndexError: out of range. An index on a device is
    waited for.
    """
    if axis is None:
        arr, axis = _core.ravel(arr), 0
    axis = _axis("insert", axis, arr.ndim)
    length = arr.shape[axis]
    index = _index(obj, length)
    values = _like(values, arr).astype(arr.dtype, copy=False)
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
    return _core.take(both, chx.array(order, device=arr.device), axis)


def array_split(ary, indices_or_sections, axis=0):
    """Parts along an axis as split(), as equal as they can be if given a number. Views."""
    if np.ndim(indices_or_sections) > 0:
        return chx.split(ary, indices_or_sections, axis)
    sections = int(indices_or_sections)
    if sections < 1:
        raise ValueError(f"[array_split] expects sections from 1 on, got {sections}")
    short, longer = divmod(ary.shape[_axis("array_split", axis, ary.ndim)], sections)
    sizes = [short + 1] * longer + [short] * (sections - longer)
    return chx.split(ary, np.cumsum(sizes)[:-1].tolist(), axis)


def resize(a, new_shape):
    """The elements in C order, repeated as often as it takes, in a new shape."""
    dims = (new_shape,) if isinstance(new_shape, int) else tuple(new_shape)
    count = int(np.prod(dims, dtype=np.int64))
    flat = _core.ravel(a)
    if count == 0 or flat.size == 0:
        return _core.zeros(dims, a.dtype, device=a.device)
    return _core.tile(flat, -(-count // flat.size))[:count].reshape(dims)


def trim_zeros(filt, trim="fb"):
    """A one-dimensional array without the zeros at its front ('f') and back ('b'). A view; waits."""
    inside = np.flatnonzero(chx.to_numpy(filt))
    if inside.size == 0:
        return filt[:0]
    first = inside[0] if "f" in trim.lower() else 0
    last = inside[-1] + 1 if "b" in trim.lower() else filt.size
    return filt[int(first) : int(last)]


# --- Grids and indices -----------------------------------------------------------------------------


def tril_indices(n, k=0, m=None, device=None):
    """The indices (two int64 arrays) of an (n, m) array's elements up to diagonal k."""
    return tuple(chx.array(i, device=device) for i in np.tril_indices(n, k, m))


def triu_indices(n, k=0, m=None, device=None):
    """The indices (two int64 arrays) of an (n, m) array's elements from diagonal k on."""
    return tuple(chx.array(i, device=device) for i in np.triu_indices(n, k, m))


def _matrix(name, arr):
    if arr.ndim != 2:
        raise _core.DimensionError(f"[{name}] expects two dimensions, got shape {arr.shape}")
    return arr.shape


def tril_indices_from(arr, k=0):
    """tril_indices() of a matrix, on its device."""
    rows, columns = _matrix("tril_indices_from", arr)
    return tril_indices(rows, k, columns, arr.device)


def triu_indices_from(arr, k=0):
    """triu_indices() of a matrix, on its device."""
    rows, columns = _matrix("triu_indices_from", arr)
    return triu_indices(rows, k, columns, arr.device)


def diag_indices(n, ndim=2, device=None):
    """The indices of the diagonal of an array with `ndim` axes of n elements."""
    return (_core.arange(n, dtype="int64", device=device),) * ndim


def diag_indices_from(arr):
    """diag_indices() of an array whose axes are equally long, on its device."""
    if arr.ndim < 2 or len(set(arr.shape)) != 1:
        raise ValueError(f"[diag_indices_from] expects axes of one length, got {arr.shape}")
    return diag_indices(arr.shape[0], arr.ndim, arr.device)


def indices(dimensions, dtype="int64", sparse=False, device=None):
    """The coordinates of a grid's points: an array (ndim, *dimensions), or a tuple if `sparse`."""
    ndim = len(dimensions)
    parts = [
        _core.arange(n, dtype=dtype, device=device).reshape(
            [-1 if d == i else 1 for d in range(ndim)]
        )
        for i, n in enumerate(dimensions)
    ]
    if sparse:
        return tuple(parts)
    if not parts:
        return _core.empty((0,), dtype, device=device)
    return _core.stack([_core.broadcast_to(part, tuple(dimensions)) for part in parts])


def ix_(*args):
    """One-dimensional index arrays shaped so that together they select a grid; masks count too."""
    results = []
    for i, a in enumerate(args):
        a = chx.asarray(a)
        if a.ndim != 1:
            raise ValueError(f"[ix_] expects one dimension, got shape {a.shape}")
        if a.dtype == np.bool_:
            (a,) = chx.nonzero(a)
        results.append(a.reshape([-1 if d == i else 1 for d in range(len(args))]))
    return tuple(results)


def vander(x, N=None, increasing=False):
    """The powers N - 1 ... 0 of a vector's elements as columns, or 0 ... N - 1 if `increasing`."""
    if x.ndim != 1:
        raise ValueError(f"[vander] expects one dimension, got shape {x.shape}")
    count = x.size if N is None else N
    ones = _core.ones((x.size, 1), x.dtype, device=x.device)
    if count < 2:
        return ones[:, :count]
    repeated = _core.broadcast_to(x.reshape(x.size, 1), (x.size, count - 1))
    powers = _core.concatenate([ones, _core.cumprod(repeated, 1, dtype=x.dtype)], 1)
    return powers if increasing else _core.flip(powers, 1)


def _check_index(name, index, size):
    """ValueError if an index array has elements outside of [0, size). Waits."""
    bad = _core.logical_or(index < 0, index >= size)
    if index.size and bool(_core.any(bad)):
        raise ValueError(f"[{name}] expects indices in [0, {size})")


def unravel_index(indices, shape, order="C"):
    """Flat indices as a tuple of indices along the axes of a shape.

    Numbers give numbers. ValueError: out of range; for an array, that waits.
    """
    if order not in ("C", "F"):
        raise ValueError(f"[unravel_index] expects order 'C' or 'F', got {order!r}")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if not isinstance(indices, _core.ndarray):
        found = np.unravel_index(indices, shape, order)
        return tuple(int(i) if np.ndim(i) == 0 else chx.array(i) for i in found)
    _check_index("unravel_index", indices, int(np.prod(shape, dtype=np.int64)))
    rest, parts = indices.astype("int64", copy=False), []
    for size in shape if order == "F" else reversed(shape):
        parts.append(_core.remainder(rest, size))
        rest = _core.floor_divide(rest, size)
    return tuple(parts if order == "F" else reversed(parts))


def ravel_multi_index(multi_index, dims, mode="raise", order="C"):
    """The flat indices (int64) of a tuple of index arrays: the inverse of unravel_index().

    `mode`, for all axes or one for each: 'raise' (ValueError; waits), 'wrap' or 'clip'.
    """
    if order not in ("C", "F"):
        raise ValueError(f"[ravel_multi_index] expects order 'C' or 'F', got {order!r}")
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    modes = (mode,) * len(dims) if isinstance(mode, str) else tuple(mode)
    if not len(multi_index) == len(modes) == len(dims):
        raise ValueError(f"[ravel_multi_index] expects {len(dims)} indices, got {len(multi_index)}")
    flat, stride = None, 1
    axes = list(zip(multi_index, dims, modes, strict=True))
    for index, size, how in axes if order == "F" else reversed(axes):
        index = chx.asarray(index).astype("int64", copy=False)
        if how == "wrap":
            index = _core.remainder(index, size)
        elif how == "clip":
            index = chx.clip(index, 0, size - 1)
        elif how == "raise":
            _check_index("ravel_multi_index", index, size)
        else:
            raise ValueError(f"[ravel_multi_index] expects 'raise', 'wrap' or 'clip', got {how!r}")
        flat = index * stride if flat is None else flat + index * stride
        stride *= size
    return flat
