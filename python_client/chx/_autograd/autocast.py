"""Automatic mixed precision: products in 16 bits, what needs digits or range in 32."""

from __future__ import annotations

import contextlib

from chx import _core
from chx._compat import Self
from chx._types import DtypeLike


class autocast(contextlib.ContextDecorator):  # , a function to its users
    """Computes products in a dtype of 16 bits within a with-block, or in calls of a function.

        with chx.autocast("bfloat16"):
            loss = chx.cross_entropy(model(x), t)
        loss.backward()

    Parameters stay as they are: float32 inputs of `linear`, `matmul`, `conv` and other products are
    cast when they are used, and their gradients come back in float32. Inputs of losses, sums, `exp`
    and the like that are narrow are cast to float32. Other operators compute in the dtypes that they
    are given, and float64 stays what it is. The lists of operators are in docs/mixed_precision.md.

    Args:
      dtype: "bfloat16", which has the range of float32, or "float16", which wants a GradScaler.
      enabled: if not, operators within compute in the dtypes that they are given.

    Raises:
      DtypeError: the dtype is another one.
    """

    def __init__(self, dtype: DtypeLike = "bfloat16", enabled: bool = True) -> None:
        self._dtype = dtype if enabled else None

    def __enter__(self) -> Self:
        _core._push_autocast(self._dtype)
        return self

    def __exit__(self, *_: object) -> None:
        _core._pop_autocast()


def autocast_dtype() -> str | None:
    """The dtype of the innermost `autocast` of the calling thread; None outside of all."""
    return _core._autocast()
