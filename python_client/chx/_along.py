"""take_along_axis and put_along_axis: an index for each element along one axis."""

import math

import numpy as np

import chx
from chx import _core, _indexing
from chx._arranging import _axis, _like


def _indices(name, a, indices):
    """Indices of NumPy or in lists as an array on a's device; an empty list is one of indices too."""
    if not isinstance(indices, _core.ndarray):
        indices = np.asarray(indices)
        indices = indices.astype(np.int64) if indices.size == 0 else indices
    if indices.dtype.kind not in "iu":
        raise IndexError(f"[{name}] expects an array of integers as indices, got {indices.dtype}")
    if isinstance(indices, _core.ndarray):
        return indices
    return chx.array(indices, device=a.device)


def _fitted(name, shape, indices, axis):
    """The shape of both, which broadcast but for the axis, with the array's own along it."""
    if indices.ndim != len(shape):
        raise _core.DimensionError(
            f"[{name}] expects indices of {len(shape)} dimensions, got shape {indices.shape}"
        )
    fitted = list(shape)
    for i, (n, m) in enumerate(zip(shape, indices.shape, strict=True)):
        if i != axis and n != m and 1 not in (n, m):
            raise _core.DimensionError(
                f"[{name}] expects shapes that agree but for axis {axis}, got {shape} and indices "
                f"{indices.shape}"
            )
        fitted[i] = n if i == axis or m == 1 else m
    return tuple(fitted)


def take_along_axis(arr, indices, axis):
    """The elements at indices along an axis, for each position along the others, which broadcast.

    Without an axis (None), of the flattened array at the flattened indices. IndexError: out of range,
    when the result is read.
    """
    indices = _indices("take_along_axis", arr, indices)
    if axis is None:
        arr, indices, axis = _core.ravel(arr), _core.ravel(indices), 0
    axis = _axis("take_along_axis", axis, arr.ndim)
    shape = _fitted("take_along_axis", arr.shape, indices, axis)
    if arr.shape != shape:
        arr = _core.broadcast_to(arr, shape)
    wide = (*shape[:axis], indices.shape[axis], *shape[axis + 1 :])
    if indices.shape != wide:
        indices = _core.broadcast_to(indices, wide)
    return _core.take_along_axis(arr, indices, axis)


def put_along_axis(arr, indices, values, axis):
    """Writes values into arr at indices along an axis, for each position along the others.

    Indices and values broadcast to arr's shape but for the axis; without one (None) arr counts as
    flattened. IndexError: out of range; that is waited for.
    """
    name = "put_along_axis"
    indices = _indices(name, arr, indices)
    values = _like(values, arr).astype(arr.dtype, copy=False)
    if axis is None:
        flat = arr.reshape(arr.size)
        put_along_axis(flat, _core.ravel(indices), values, 0)
        if not arr.is_contiguous:
            _core.copyto(arr, flat.reshape(arr.shape))
        return
    axis = _axis(name, axis, arr.ndim)
    if _fitted(name, arr.shape, indices, axis) != arr.shape:
        raise _core.DimensionError(
            f"[{name}] expects indices that broadcast to {arr.shape} but for axis {axis}, got "
            f"{indices.shape}"
        )
    wide = (*arr.shape[:axis], indices.shape[axis], *arr.shape[axis + 1 :])
    at = _indexing.wrapped(indices, arr.shape[axis], name, f"axis {axis}")
    at = _core.moveaxis(_core.broadcast_to(at, wide), axis, 0)
    new = _core.moveaxis(_core.broadcast_to(values, wide), axis, 0)
    lanes = _core.moveaxis(arr, axis, 0)
    count = math.prod(lanes.shape[1:])
    lane = _core.arange(count, dtype="int64", device=arr.device)
    places = at.reshape(len(at), count) * count + lane
    flat = lanes.reshape(len(lanes) * count).copy()
    _core.index_put(flat, _core.ravel(places), _core.ravel(new))
    _core.copyto(lanes, flat.reshape(lanes.shape))
