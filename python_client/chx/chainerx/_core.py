"""ChainerX's compiled module, as Chainer and tests use it."""

from __future__ import annotations

from collections.abc import Sequence as _Sequence
from typing import Any as _Any, NoReturn as _NoReturn

import chx as _chx

globals().update({name: getattr(_chx, name) for name in vars(_chx) if not name.startswith("_")})


def _is_debug() -> bool:
    """Whether ChainerX was built or started for debugging."""
    return False


def _function_node_forward(
    function_node: _Any,
    inputs: _Sequence[_chx.ndarray | None],
    outputs: _Sequence[_chx.ndarray | None],
    input_indexes_to_retain: _Sequence[int],
    output_indexes_to_retain: _Sequence[int],
) -> None:
    """Connects what a Chainer function made of its inputs to their graphs.

    Args:
      function_node: Its ``_backward_chainerx`` makes the gradients, from within ``backward()`` or
        ``grad()``. It lives as long as a graph has it.
      inputs, outputs: Arrays, or None where there is none. The outputs must be in no graph.
      input_indexes_to_retain, output_indexes_to_retain: What the gradients are made of.

    Raises:
      ChainerxError: an output is in a graph already.
    """

    def backward(
        targets: _Any, output_grads: _Any, retained_inputs: _Any, retained_outputs: _Any
    ) -> _Any:
        try:
            return function_node._backward_chainerx(
                targets, output_grads, retained_inputs, retained_outputs
            )
        finally:
            # These hold the graph, which holds the function.
            function_node._chainerx_retained_inputs = None
            function_node._chainerx_retained_outputs = None

    _chx._core._record_function(
        backward, inputs, outputs, input_indexes_to_retain, output_indexes_to_retain
    )


def _refuse(name: str) -> _NoReturn:
    raise _chx.NotImplementedError(
        f"[{name}] expects memory of this process; a daemon's arrays are in another"
    )


def _fromrawpointer(
    ptr: _Any, shape: _Any, dtype: _Any, strides: _Any, device: _Any, offset: _Any, base: _Any
) -> _NoReturn:
    """An array cannot be of this process's memory.

    Raises:
      NotImplementedError (chx's): always.
    """
    _refuse("_fromrawpointer")


def _to_cupy(array: _Any) -> _NoReturn:
    """A CuPy array cannot be of the daemon's memory.

    Raises:
      NotImplementedError (chx's): always.
    """
    _refuse("_to_cupy")
