"""NumPy's functions that choose among elements, order them, and write chosen ones in place."""

import numpy as np

import chx
from chx import _core
from chx._arranging import _axis, _like

# --- Choosing --------------------------------------------------------------------------------------


def select(condlist, choicelist, default=0):
    """Of each element's choices the first whose condition holds, or the default.

    Raises:
      ValueError: the lists differ in length, or are empty.
      TypeError: a condition is not bool.
    """
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError(
            f"[select] expects as many conditions as choices, got {len(condlist)} and "
            f"{len(choicelist)}"
        )
    conditions = [_like(c, condlist[0]) if i else chx.asarray(c) for i, c in enumerate(condlist)]
    for condition in conditions:
        if condition.dtype != np.bool_:
            raise TypeError(f"[select] expects bool conditions, got {condition.dtype}")
    result = default
    for condition, choice in zip(reversed(conditions), reversed(choicelist), strict=True):
        result = _core.where(condition, choice, result)
    return result


def choose(a, choices, mode="raise"):
    """The element of choices[a[i]] at i, for each i; a and the choices broadcast.

    `mode` says what an index out of range does: 'raise' (ValueError; waits), 'wrap' or 'clip'.
    """
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"[choose] expects 'raise', 'wrap' or 'clip', got {mode!r}")
    choices = [_like(c, a) for c in choices]
    shape = np.broadcast_shapes(a.shape, *(c.shape for c in choices))
    stacked = _core.stack([_core.broadcast_to(c, shape) for c in choices])
    index = _core.broadcast_to(a.astype("int64", copy=False), shape)
    if mode == "wrap":
        index = _core.remainder(index, len(choices))
    elif mode == "clip":
        index = chx.clip(index, 0, len(choices) - 1)
    elif index.size and bool(_core.any(_core.logical_or(index < 0, index >= len(choices)))):
        raise ValueError(f"[choose] expects indices in [0, {len(choices)})")
    return _core.take_along_axis(stacked, index.reshape(1, *shape), 0)[0]


def piecewise(x, condlist, funclist, *args, **kw):
    """Functions, or numbers, of the parts of x where conditions hold; the last such condition counts.

    One more function than conditions is for the rest, which is 0 otherwise. Each function sees only
    its own elements, as a one-dimensional array, which have to be counted: waits. Of x's dtype.

    Raises:
      ValueError: the lists' lengths don't fit.
    """
    if not isinstance(condlist, (list, tuple)):
        condlist = [condlist]
    conditions = [_core.broadcast_to(_like(c, x), x.shape) for c in condlist]
    if len(funclist) not in (len(conditions), len(conditions) + 1):
        raise ValueError(
            f"[piecewise] expects {len(conditions)} or {len(conditions) + 1} functions, got "
            f"{len(funclist)}"
        )
    taken = _core.zeros(x.shape, "bool", device=x.device)
    chosen = []
    for condition in reversed(conditions):
        chosen.append(_core.logical_and(condition, _core.logical_not(taken)))
        taken = _core.logical_or(taken, condition)
    chosen.reverse()
    if len(funclist) > len(conditions):
        chosen.append(_core.logical_not(taken))
    flat = _core.ravel(x)
    result = _core.zeros(flat.shape, x.dtype, device=x.device)
    for mask, function in zip(chosen, funclist, strict=True):
        places = chx.flatnonzero(mask)
        part = _core.take(flat, places, 0)
        values = function(part, *args, **kw) if callable(function) else function
        values = _core.broadcast_to(_like(values, x).astype(x.dtype, copy=False), part.shape)
        result = result + _core.take_along_axis_grad(values, places, [flat.size], 0)
    return result.reshape(x.shape)


def compress(condition, a, axis=None):
    """The parts of a along an axis (flattened by default) for which a condition holds.

    Waits for a condition on a device. IndexError: the condition holds beyond the end.
    """
    if axis is None:
        a, axis = _core.ravel(a), 0
    if isinstance(condition, _core.ndarray):
        condition = chx.to_numpy(condition)
    condition = np.asarray(condition, bool)
    if condition.ndim != 1:
        raise ValueError(f"[compress] expects a condition of one dimension, got {condition.shape}")
    places = np.flatnonzero(condition)
    axis = _axis("compress", axis, a.ndim)
    if places.size and places[-1] >= a.shape[axis]:
        raise IndexError(f"[compress] index {places[-1]} is out of bounds for axis {axis}")
    return _core.take(a, chx.array(places, device=a.device), axis)


def extract(condition, arr):
    """The elements of arr, in C order, where a condition of its size holds. Waits for their number."""
    condition = _like(condition, arr)
    if condition.size != arr.size:
        raise ValueError(f"[extract] expects {arr.size} conditions, got {condition.size}")
    return _core.take(_core.ravel(arr), chx.flatnonzero(condition), 0)


# --- Ordering --------------------------------------------------------------------------------------


def _check_kth(name, kth, size):
    for k in np.atleast_1d(kth):
        if not -size <= k < size:
            raise ValueError(f"[{name}] expects kth in [{-size}, {size}), got {k}")


def partition(a, kth, axis=-1):
    """A copy in which the k-th element along an axis is where sorting would put it.

    Smaller ones come before it and the others after, in an order that here is the sorted one.
    """
    _check_kth(
        "partition", kth, a.size if axis is None else a.shape[_axis("partition", axis, a.ndim)]
    )
    return _core.sort(a, axis)


def argpartition(a, kth, axis=-1):
    """The indices (int64) of a partition(), which here are those of sorting."""
    size = a.size if axis is None or a.ndim == 0 else a.shape[_axis("argpartition", axis, a.ndim)]
    _check_kth("argpartition", kth, size)
    return _core.argsort(a, axis)


def lexsort(keys, axis=-1):
    """The indices (int64) that sort by several keys: by the last one first, then by those before."""
    order = None
    for key in keys:
        if order is None:
            order = _core.argsort(key, axis)
            continue
        next_order = _core.argsort(_core.take_along_axis(key, order, axis), axis)
        order = _core.take_along_axis(order, next_order, axis)
    if order is None:
        raise TypeError("[lexsort] expects at least one key")
    return order


# --- Writing in place ------------------------------------------------------------------------------


def put(a, ind, v, mode="raise"):
    """a.flat[ind] = v, in place; values that are too few are repeated.

    `mode`: 'raise' (IndexError; an index on a device is waited for), 'wrap' or 'clip'.
    """
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"[put] expects 'raise', 'wrap' or 'clip', got {mode!r}")
    ind = chx.asarray(ind, device=a.device) if isinstance(ind, _core.ndarray) else np.asarray(ind)
    ind = ind.reshape(-1)
    if ind.size == 0:
        return
    if mode == "wrap":
        ind = ind % a.size
    elif mode == "clip":
        ind = (
            chx.clip(ind, 0, a.size - 1)
            if isinstance(ind, _core.ndarray)
            else ind.clip(0, a.size - 1)
        )
    values = chx.resize(_like(v, a), (ind.size,)).astype(a.dtype, copy=False)
    flat = a.reshape(a.size)
    flat[ind] = values
    if not a.is_contiguous:
        _core.copyto(a, flat.reshape(a.shape))


def putmask(a, mask, values):
    """Writes values, repeated to a's size, into a where a mask of its shape holds, in place."""
    new = chx.resize(_like(values, a), a.shape).astype(a.dtype, copy=False)
    _core.copyto(a, _core.where(_like(mask, a), new, a))


def place(arr, mask, vals):
    """Writes the first values to the first places where a mask holds, and so on; they are repeated.

    ValueError: there are no values.
    """
    vals = _core.ravel(_like(vals, arr)).astype(arr.dtype, copy=False)
    mask = _like(mask, arr).astype("bool", copy=False).reshape(arr.shape)
    if vals.size == 0:
        raise ValueError("[place] expects values, got none")
    number = _core.cumsum(mask).reshape(arr.shape) - 1
    new = _core.take(vals, _core.remainder(number, vals.size), 0)
    _core.copyto(arr, _core.where(mask, new, arr))


def fill_diagonal(a, val, wrap=False):
    """Writes a value, or the elements of an array in turn, to a[i, i, ...], in place.

    With `wrap` the diagonal of a tall matrix goes on after a row is left out.
    """
    if a.ndim < 2 or (a.ndim > 2 and len(set(a.shape)) != 1):
        raise ValueError(f"[fill_diagonal] expects a matrix or equal axes, got shape {a.shape}")
    if a.ndim == 2:
        step = a.shape[1] + 1
        end = a.size if wrap else min(a.size, a.shape[1] * a.shape[1])
    else:
        step = 1 + sum(a.shape[0] ** i for i in range(1, a.ndim))
        end = a.size
    flat = a.reshape(a.size)
    diagonal = flat[:end:step]
    if not isinstance(val, _core.ndarray) and np.ndim(val) == 0:
        _core.copyto(diagonal, val)
    else:
        _core.copyto(diagonal, chx.resize(_like(val, a), diagonal.shape))
    if not a.is_contiguous:
        _core.copyto(a, flat.reshape(a.shape))
