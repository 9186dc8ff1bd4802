"""Functions that move elements around, and those that pick some."""

import operator

import numpy as np

from chx import _core, _functions, _support


def _axis(name, axis, ndim):
    """An axis counted from the front.

    Raises:
      IndexError: there is none of that number.
    """
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise IndexError(f"[{name}] expects an axis in [{-ndim}, {ndim}), got {axis}")
    return axis % ndim


def broadcast_arrays(*arrays):
    """The arrays in a common shape, as a list of views."""
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    return [_core.broadcast_to(x, shape) for x in arrays]


def broadcast_to(x, /, shape):
    """The array in a shape that it broadcasts to, a view."""
    return _core.broadcast_to(x, shape)


def concat(arrays, /, *, axis=0):
    """The arrays one after another along an axis; with None, all of their elements."""
    return _core.concatenate(list(arrays), axis)


def expand_dims(x, /, *, axis=0):
    """The array with a new axis of size 1, a view. IndexError if there cannot be such an axis."""
    return _core.expand_dims(x, _axis("expand_dims", axis, x.ndim + 1))


def flip(x, /, *, axis=None):
    """The elements in reverse order along an axis, some, or all. A view."""
    return _core.flip(x, axis)


def moveaxis(x, source, destination, /):
    """The array with some axes elsewhere, and the others in their order. A view."""
    return _core.moveaxis(x, source, destination)


def permute_dims(x, /, axes):
    """The array with its axes in another order, a view."""
    return _core.transpose(x, axes)


def repeat(x, repeats, /, *, axis=None):
    """Each element several times, along an axis or, with None, of the flattened array.

    `repeats` may be an array with a number for each; that is waited for.
    """
    if isinstance(repeats, _core.ndarray):
        repeats = _support.to_numpy(repeats).tolist()
    if isinstance(repeats, (list, tuple)) and len(repeats) == 1:
        (repeats,) = repeats
    return _core.repeat(x, repeats, axis)


def reshape(x, /, shape, *, copy=None):
    """The elements in another shape, one of whose sizes may be -1. A view where that can be.

    Raises:
      ValueError: `copy` is False, and the array is not in C order.
    """
    if copy is False and not x.is_contiguous:
        raise ValueError("[reshape] expects an array in C order if copy is False")
    return _core.reshape(_core.copy(x) if copy else x, shape)


def roll(x, /, shift, *, axis=None):
    """The elements moved on along axes; what leaves at the end comes back at the front."""
    if isinstance(axis, tuple) and not isinstance(shift, tuple):
        shift = (shift,) * len(axis)
    return _core.roll(x, shift, axis)


def squeeze(x, /, axis):
    """The array without some axes of size 1, a view.

    Raises:
      IndexError: there is no such axis.
      ValueError: an axis has another size.
    """
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [_axis("squeeze", a, x.ndim) for a in axes]
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f"[squeeze] expects axes of size 1, got {axes} of shape {x.shape}")
    return _core.squeeze(x, axes)


def stack(arrays, /, *, axis=0):
    """The arrays along a new axis."""
    return _core.stack(list(arrays), axis)


def tile(x, repetitions, /):
    """The whole array several times along each axis."""
    return _core.tile(x, repetitions)


def unstack(x, /, *, axis=0):
    """The parts along an axis without it, as a tuple of views."""
    lanes = _core.moveaxis(x, _axis("unstack", axis, x.ndim), 0)
    return tuple(lanes[i] for i in range(lanes.shape[0]))


# --- Picking -------------------------------------------------------------------------------------


def take(x, indices, /, *, axis=None):
    """The parts at integer indices along an axis, which may be left out of one-dimensional arrays.

    Raises:
      ValueError: the axis is left out of an array of more dimensions.
    """
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"[take] expects an axis of an array of shape {x.shape}")
        axis = 0
    return _core.take(x, indices, axis)


def take_along_axis(x, indices, /, *, axis=-1):
    """The elements at indices along an axis, an index for each place in the others."""
    return _core.take_along_axis(x, indices, axis)


def where(condition, x1, x2, /):
    """x1 where a condition holds, x2 elsewhere."""
    return _core.where(condition, x1, x2)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """Differences of neighbours along an axis, `n` times, after joining arrays at the ends."""
    parts = [part for part in (prepend, x, append) if part is not None]
    x = _core.concatenate(parts, axis) if len(parts) > 1 else x
    return _functions.diff(x, n, axis)
