"""out=, where= and initial=, which NumPy's functions have, of operators that lack them."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._numpy import arguments, manipulation

# What masked elements count as; those of maxima and minima as `initial`.
_NEUTRAL = {"sum": 0, "prod": 1, "mean": 0, "all": True, "any": False}
_COMBINE: dict[str, Callable[..., ndarray]] = {
    "sum": _core.add,
    "prod": _core.multiply,
    "amax": _core.maximum,
    "amin": _core.minimum,
}


def call_with_keywords(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """function(*args, **kwargs), where the keywords are not the operator's.

    Raises:
      TypeError: it is none of NumPy's functions with such a keyword.
    """
    name = function.__name__
    given = {key: kwargs.pop(key) for key in ("out", "where", "initial") if key in kwargs}
    out, where, initial = given.get("out"), given.get("where", True), given.get("initial")
    if isinstance(out, tuple) and len(out) == 1:
        (out,) = out
    if name in _NEUTRAL or name in _COMBINE:
        if initial is not None and name not in _COMBINE:
            raise _unexpected(name, "initial")
        bound = inspect.signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        result = _reduced(name, function, bound.arguments, where, initial)
        return result if out is None else write(name, result, out)
    if initial is not None or (where is not True and out is None):
        raise _unexpected(name, "where= without out" if initial is None else "initial")
    result = function(*args, **kwargs)
    return result if out is None else write(name, result, out, where)


def _unexpected(name: str, keyword: str) -> TypeError:
    return TypeError(f"{name}() got an unexpected keyword argument '{keyword}'")


def _reduced(
    name: str, function: Callable[..., Any], arguments_: dict[str, Any], where: Any, initial: Any
) -> ndarray:
    a, axis, keepdims = (arguments_.pop(key) for key in ("a", "axis", "keepdims"))
    a = arguments.array_beside(name, a, where)
    count = None
    if where is not True:
        if name not in _NEUTRAL and initial is None:
            raise ValueError(f"[{name}] expects initial beside where, as nothing may be selected")
        if name in ("all", "any"):
            a = a.astype("bool", copy=False)
        where = arguments.array_like(where, a).astype("bool", copy=False)
        neutral = _NEUTRAL.get(name, initial)
        if name == "mean":
            count = _core.sum(_core.broadcast_to(where, a.shape), axis, keepdims)
        a = _core.where(where, a, np.asarray(neutral).astype(a.dtype)[()])
    result: ndarray
    if initial is not None and name in ("amax", "amin") and a.size == 0:
        shape = _core.sum(a, axis, keepdims).shape  # an empty axis has no extremum itself
        return _core.full(shape, initial, a.dtype, device=a.device)
    result = function(a, axis, keepdims, **arguments_)
    if initial is not None:
        result = _COMBINE[name](result, np.asarray(initial).astype(result.dtype)[()])
    if count is not None:
        number = a.size / max(result.size, 1)
        result = result * (number / count.astype(result.dtype))
    return result


def check_arrays(name: str, *values: Any) -> None:
    """Raises TypeError unless all are arrays of chx."""
    if not all(isinstance(value, _core.ndarray) for value in values):
        raise TypeError(
            f"[{name}] expects an array of chx as out, because its result is one: "
            "use chx.to_numpy(...) of the operand to compute with NumPy"
        )


def write(name: str, result: Any, out: ndarray, where: Any = True) -> ndarray:
    """`out`, with the result written into it where a condition holds.

    Raises:
      TypeError: it is no array of chx, or its dtype is of a lesser kind.
      DimensionError: it is of another shape.
    """
    check_arrays(name, result, out)
    if not np.can_cast(result.dtype, out.dtype, "same_kind"):
        raise TypeError(f"[{name}] cannot cast {result.dtype} to {out.dtype}, the dtype of out")
    if np.broadcast_shapes(result.shape, out.shape) != out.shape:
        raise _core.DimensionError(f"[{name}] expects out of {result.shape}, got {out.shape}")
    manipulation.copyto(out, result.astype(out.dtype, copy=False), where=where)
    return out
