"""NumPy's chapter "Functional programming"."""

from collections.abc import Sequence
from typing import Any

from chx import _core
from chx._core import ndarray
from chx._numpy import sorting
from chx._numpy.arguments import array_beside, array_like


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
    for mask, function in zip(chosen, funclist, strict=True):
        places = sorting.flatnonzero(mask)
        part = _core.take(flat, places, 0)
        values = function(part, *args, **kw) if callable(function) else function
        values = _core.broadcast_to(array_like(values, x).astype(x.dtype, copy=False), part.shape)
        result = result + _core.take_along_axis_grad(values, places, [flat.size], 0)
    return result.reshape(x.shape)
