"""Names of dtypes by kind, and what else may stand for a dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import chx

_kinds = {t.__name__: np.dtype(t).kind for t in chx.all_dtypes}


def _of_kinds(kinds: str) -> tuple[str, ...]:
    return tuple(name for name, kind in _kinds.items() if kind in kinds)


all_dtypes = _of_kinds("biuf")
numeric_dtypes = _of_kinds("iuf")
signed_dtypes = _of_kinds("if")
unsigned_dtypes = _of_kinds("u")
integral_dtypes = _of_kinds("iu")
signed_integral_dtypes = _of_kinds("i")
nonfloat_dtypes = _of_kinds("biu")
float_dtypes = _of_kinds("f")

_python_types = {"bool_": bool, "int64": int, "float64": float}


def _specifiers(name: str) -> Iterator[Any]:
    dtype = np.dtype(name)
    yield from (name, dtype.name, dtype.char, dtype, dtype.type)
    if name in _python_types:
        yield _python_types[name]
        yield _python_types[name].__name__


def parametrize_dtype_specifier(
    argname: str, dtypes: Sequence[str] | None = None, additional_args: Sequence[Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that runs a test with all that a dtype may be given as.

    Args:
      argname: the test's argument.
      dtypes: names of dtypes; all by default.
      additional_args: further values of the argument.
    """
    import pytest

    if not isinstance(argname, str):
        raise TypeError(f"expected an argument's name, got {type(argname).__name__}")
    values = [s for name in (all_dtypes if dtypes is None else dtypes) for s in _specifiers(name)]
    distinct = {(type(v), str(v)): v for v in [*values, *(additional_args or ())]}
    return pytest.mark.parametrize(argname, list(distinct.values()))
