"""Functions that are computed again for their gradients: less memory for more time."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from chx import _core
from chx._autograd import modes
from chx._autograd.backward import grad
from chx._compat import zip_strict
from chx._core import ndarray
from chx._runtime import random_streams, recording
from chx._runtime.containers import map_leaves
from chx._types import is_float

F = TypeVar("F", bound=Callable[..., Any])


class _Place:
    """Where an array was in a structure."""

    def __init__(self, number: int) -> None:
        self.number = number


def _taken_out(node: Any, arrays: list[ndarray]) -> Any:
    """The structure of lists, tuples and dicts with places for its arrays, which `arrays` gets."""

    def take(leaf: Any) -> Any:
        if not isinstance(leaf, ndarray):
            return leaf
        arrays.append(leaf)
        return _Place(len(arrays) - 1)

    return map_leaves("checkpoint", take, node)


def _put_back(node: Any, arrays: Sequence[ndarray]) -> Any:
    def put(leaf: Any) -> Any:
        return arrays[leaf.number] if isinstance(leaf, _Place) else leaf

    return map_leaves("checkpoint", put, node)


class _Again:
    """A call of a function, for a walk of the graph to repeat."""

    def __init__(
        self, fn: Callable[..., Any], structure: Any, stream: random_streams.Stream | None
    ) -> None:
        self._fn = fn
        self._structure = structure
        self._stream = stream

    def outputs(self, inputs: Sequence[ndarray]) -> tuple[Any, list[ndarray]]:
        """What the function gives for these arrays, as a structure and its arrays."""
        args, kwargs = _put_back(self._structure, inputs)
        outputs: list[ndarray] = []
        return _taken_out(self._fn(*args, **kwargs), outputs), outputs

    def backward(
        self,
        targets: Sequence[int],
        grads: Sequence[ndarray | None],
        inputs: Sequence[ndarray],
        outputs: Sequence[ndarray | None],
    ) -> list[ndarray | None]:
        """The gradients of the inputs at `targets`.

        They are those of a graph that ends with this call. The inputs stay in the graphs that they
        are in: there the gradients are recorded, if they are to be differentiated.
        """
        session = inputs[0].device.backend._session
        with contextlib.ExitStack() as stack:
            graph = stack.enter_context(modes.backprop_scope("checkpoint", session))
            stack.enter_context(modes.force_backprop_mode(graph))
            stack.enter_context(random_streams.replayed(session, self._stream))
            # Views, so that no input depends on another one.
            leaves = [x[...] if is_float(x.dtype) else x for x in inputs]
            for i in targets:
                leaves[i].require_grad(graph)
            _, again = self.outputs(leaves)
            pairs = [
                (y, gy)
                for y, gy in zip_strict(again, grads)
                if gy is not None and y.is_backprop_required(graph)
            ]
            if not pairs:
                return [None for _ in targets]
            wanted = [leaves[i] for i in targets]
            return grad([y for y, _ in pairs], wanted, graph, grad_outputs=[gy for _, gy in pairs])


def checkpoint(fn: F, *, preserve_rng_state: bool = True) -> F:
    """The function, which keeps its arguments for the gradients instead of what it computes.

    A backward pass calls it again, so that the memory between its arguments and its results is in
    use for a moment only. Chains of such calls need memory for one of them and for the arrays
    between them.

    Arrays that require gradients must be arguments, also within lists, tuples and dicts: others that
    fn uses are constants. Numbers of the session's stream (chx.random, chx.dropout) are the same
    again unless preserve_rng_state is false; fn must not depend on anything else that changes.

    While chx.jit records, it is fn itself: the daemon, which repeats the record, does not call it.

    Raises:
      ChainerxError: (when called) a result depends on an array that requires a gradient and is not
        an argument.
    """

    @functools.wraps(fn)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        inputs: list[ndarray] = []
        structure = _taken_out((args, kwargs), inputs)
        required = any(x.is_backprop_required(modes.anygraph) for x in inputs)
        if not required or recording.current() is not None:
            return fn(*args, **kwargs)
        session = inputs[0].device.backend._session
        stream = random_streams.copied(session) if preserve_rng_state else None
        again = _Again(fn, structure, stream)
        given = [x.as_grad_stopped() for x in inputs]
        result, outputs = again.outputs(given)
        if any(y.is_backprop_required(modes.anygraph) for y in outputs):
            raise _core.ChainerxError(
                "[checkpoint] expects arrays that require gradients as arguments, got a function "
                "that uses others"
            )
        # An argument, or one array twice, is no output of the function's own.
        seen = {id(x) for x in given}
        for i, y in enumerate(outputs):
            outputs[i] = y[...] if id(y) in seen else y
            seen.add(id(y))
        _core._record_function(again.backward, inputs, outputs, range(len(inputs)), [])
        return _put_back(result, outputs)

    return cast(F, checkpointed)
