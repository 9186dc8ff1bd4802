"""NumPy's chapter "Functional programming"."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from chx import _core
from chx._compat import zip_strict
from chx._core import ndarray
from chx._numpy import sorting
from chx._numpy.arguments import array_beside, array_like, checked_axis


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any
) -> ndarray:
    """What a function gives for each vector along an axis, whose results take the axis's place.

    The function is called once for each vector, with an array: what works on whole arrays is faster.

    Raises:
      ValueError: there is no vector.
    """
    axis = checked_axis("apply_along_axis", axis, arr.ndim)
    moved = _core.moveaxis(arr, axis, -1)
    shape = moved.shape[:-1]
    vectors = moved.reshape(math.prod(shape), moved.shape[-1])
    if len(vectors) == 0:
        raise ValueError(f"[apply_along_axis] expects vectors along {axis}, got shape {arr.shape}")
    results = [array_like(func1d(v, *args, **kwargs), arr) for v in vectors]
    stacked = _core.stack(results).reshape(shape + results[0].shape)
    ndim = results[0].ndim
    source = range(len(shape), len(shape) + ndim)
    order = list(range(axis)) + list(source) + list(range(axis, len(shape)))
    return stacked.transpose(order)


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> ndarray:
    """Functions, or numbers, of the parts of x where conditions hold; the last such condition counts.

    One more function than conditions is for the rest, which is 0 otherwise. Each function sees only
    its own elements, as a one-dimensional array, which have to be counted: waits. Of x's dtype.

    Raises:
      ValueError: the lists' lengths don't fit.
    """
    if not isinstance(condlist, (list, tuple)):
        condlist = [condlist]
    x = array_beside("piecewise", x, *condlist)
    conditions = [_core.broadcast_to(array_like(c, x), x.shape) for c in condlist]
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
    for mask, function in zip_strict(chosen, funclist):
        places = sorting.flatnonzero(mask)
        part = _core.take(flat, places, 0)
        values = function(part, *args, **kw) if callable(function) else function
        values = _core.broadcast_to(array_like(values, x).astype(x.dtype, copy=False), part.shape)
        result = result + _core.take_along_axis_grad(values, places, [flat.size], 0)
    return result.reshape(x.shape)
