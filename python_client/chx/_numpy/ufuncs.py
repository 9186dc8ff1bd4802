"""NumPy's ufuncs on arrays of chx: each calls what has its name here."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, cast

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._numpy import keywords, operands
from chx._numpy.arguments import arrays_like

_REDUCTIONS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "amax",
    "minimum": "amin",
    "logical_and": "all",
    "logical_or": "any",
}
_RUNNING = {"add": "cumsum", "multiply": "cumprod"}
# What NumPy passes on, with what chx does anyway.
_DEFAULTS: dict[str, Any] = {
    "casting": "same_kind",
    "order": "K",
    "subok": True,
    "where": True,
    "dtype": None,
    "signature": None,
    "extobj": None,
}

_names: list[ModuleType] = []  # what has the functions: chx


def register_namespace(names: ModuleType) -> None:
    """Tells array_ufunc() where the functions are."""
    _names[:] = [names]


def array_ufunc(self: ndarray, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """numpy.NAME(x, ...) with arrays of chx is chx.NAME(x, ...), and so are expressions like n + x.

    `out` is an array of chx, which is written. reduce() and accumulate() are the function that does
    so here (sum, cumsum, ...), and outer() of two arrays is the function of all pairs.

    Raises:
      TypeError: there is no such function here, or an argument that it does not have.
    """
    function = _METHODS.get(method)
    name = f"numpy.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    if function is None:
        raise _no_counterpart(name)
    out = kwargs.pop("out", None)
    writes = out is not None and method in ("__call__", "outer")
    # Of a reduction it would select what is reduced, not what is written.
    where = kwargs.pop("where", True) if writes else True
    if out is not None:
        keywords.check_arrays(name, *out)
    result = function(name, ufunc, inputs, kwargs)
    return result if out is None else keywords.write(name, result, out[0], where)


def _no_counterpart(name: str) -> TypeError:
    return TypeError(
        f"[{name}] has no counterpart in chx: use chx.to_numpy(x), which waits for the values and has "
        "no gradient, or functions of chx"
    )


def _function(name: str, called: str | None) -> Callable[..., Any]:
    function = None if called is None else getattr(_names[0], called, None)
    if function is None:
        raise _no_counterpart(name)
    return cast(Callable[..., Any], function)


def _refuse_others(name: str, kwargs: dict[str, Any]) -> None:
    for key, value in kwargs.items():
        default = _DEFAULTS.get(key, _core)  # _core: of no argument
        same = value == default if isinstance(value, (str, bool, np.bool_)) else value is default
        if not same:
            raise TypeError(f"[{name}] of arrays of chx does not take {key}={value!r}")


def _call(name: str, ufunc: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    function = _function(name, ufunc.__name__)
    _refuse_others(name, kwargs)
    if ufunc.__name__ in operands.COMPARISONS:  # NumPy has made arrays of its numbers
        inputs = tuple(a[()] if isinstance(a, np.ndarray) and a.ndim == 0 else a for a in inputs)
    return function(*inputs)


def _reduce(name: str, ufunc: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    function = _function(name, _REDUCTIONS.get(ufunc.__name__))
    axis, keepdims = kwargs.pop("axis", 0), kwargs.pop("keepdims", False)
    dtype = kwargs.pop("dtype", None)
    taken = ("where",) if ufunc.__name__.startswith("logical") else ("where", "initial")
    further = {key: kwargs.pop(key) for key in taken if key in kwargs}
    _refuse_others(name, kwargs)
    x = inputs[0] if dtype is None else inputs[0].astype(dtype, copy=False)
    return function(x, axis, bool(keepdims), **further)


def _accumulate(name: str, ufunc: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    function = _function(name, _RUNNING.get(ufunc.__name__))
    axis, dtype = kwargs.pop("axis", 0), kwargs.pop("dtype", None)
    _refuse_others(name, kwargs)
    return function(inputs[0], axis, dtype)


def _outer(name: str, ufunc: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    function = _function(name, ufunc.__name__)
    _refuse_others(name, kwargs)
    a, b = arrays_like(name, *inputs)
    return function(a.reshape(a.shape + (1,) * b.ndim), b)


_METHODS: dict[str, Callable[..., Any]] = {
    "__call__": _call,
    "reduce": _reduce,
    "accumulate": _accumulate,
    "outer": _outer,
}
