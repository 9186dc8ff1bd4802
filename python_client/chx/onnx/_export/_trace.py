"""What a function calls: the operators that it sends to the daemon, with their arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import chx
from chx import _core
from chx._runtime import recording


class Call(NamedTuple):
    """One operator."""

    op: str
    writes: bool
    inputs: list[Any]
    """Arrays, numbers, or None for what is left out."""
    attrs: dict[str, Any]
    outputs: list[chx.ndarray]


@recording.alone()
def trace(
    function: Callable[..., Any], arrays: Sequence[chx.ndarray]
) -> tuple[list[Call], list[tuple[str, chx.ndarray]]]:
    """What the function calls with these arrays, and the arrays that it returns, with names.

    Raises:
      chx.NotImplementedError: it reads a value, or computes gradients.
    """
    session = arrays[0].device.backend._session
    _core._program_begin(session, arrays)
    try:
        _core._call_log_begin()
        try:
            results = list(_flat(function(*arrays), "output"))
        finally:
            calls, gradients = _core._call_log_end()
    finally:
        _core._program_abandon(session)
    if gradients:
        raise chx.NotImplementedError("[export] expects a function without gradients, got some")
    return [Call(*call) for call in calls], results


def _flat(result: Any, name: str) -> Any:
    """The arrays of a result, and a name for each."""
    if isinstance(result, chx.ndarray):
        yield name, result
    elif hasattr(result, "_data") and hasattr(result, "array"):  # a Variable of Chainer's
        yield name, result._data[0]  # .array would be another one, made after what was called
    elif isinstance(result, (list, tuple)):
        for i, value in enumerate(result):
            yield from _flat(value, f"{name}_{i}")
    elif isinstance(result, dict):
        for key, value in result.items():
            yield from _flat(value, str(key))
    else:
        raise TypeError(
            "[export] expects a function that returns arrays, and lists, tuples and dicts of them, "
            f"got {type(result).__name__}"
        )
