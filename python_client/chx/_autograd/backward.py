"""Gradients of arrays: backward and grad."""

from __future__ import annotations

from collections.abc import Sequence

from chx import _core
from chx._compat import zip_strict
from chx._core import ndarray
from chx._numpy import arguments
from chx._runtime.context import BackpropId


def _scale(loss_scale: float | None) -> float:
    return 1.0 if loss_scale is None else float(loss_scale)


def backward(
    outputs: ndarray | Sequence[ndarray],
    backprop_id: BackpropId | None = None,
    enable_double_backprop: bool = False,
    loss_scale: float | None = None,
) -> None:
    """Adds d(outputs)/d(leaf) to the gradient of every array that requires one.

    Arrays outside of the graph are passed over beside others. The graph is kept: backward can run
    again.

    Args:
      outputs: an array or a sequence of arrays, of any shape. Each starts from its gradient, or if it
        has none from ones, as in ChainerX: that is the gradient of the sum of its elements.
      backprop_id: the graph; the default one if None.
      enable_double_backprop: whether the gradients can be differentiated again.
      loss_scale: what unset gradients start from; final ones are divided by it.

    Raises:
      ChainerxError: no output is in the graph, the graph has expired, or an outer graph that it is connected to was
        backpropagated before.
    """
    if isinstance(outputs, _core.ndarray):
        outputs = [outputs]
    _core._backward(outputs, backprop_id, enable_double_backprop, _scale(loss_scale))


def grad(
    outputs: Sequence[ndarray],
    inputs: Sequence[ndarray],
    backprop_id: BackpropId | None = None,
    enable_double_backprop: bool = False,
    set_grad: bool = False,
    retain_grad: bool = False,
    grad_outputs: Sequence[ndarray | None] = (),
    loss_scale: float | None = None,
) -> list[ndarray | None]:
    """d(outputs)/d(inputs) as a list; None where no output depends on the input.

    Args:
      outputs, inputs: sequences of arrays.
      backprop_id: the graph; the default one if None.
      enable_double_backprop: whether the gradients can be differentiated again.
      set_grad: whether the results become the inputs' gradients, too.
      retain_grad: whether arrays between outputs and inputs keep theirs, as if they had been set.
      grad_outputs: the outputs' gradients; where there is none (or None), the one that the output
        has, or else ones.
      loss_scale: what gradients that are not given start from; final ones are divided by it.

    Raises:
      GradientError: grad_outputs don't match the outputs.
      ChainerxError: as for backward().
    """
    inputs, outputs = list(inputs), list(outputs)
    grad_outputs = list(grad_outputs)
    if len(grad_outputs) == len(outputs):
        grad_outputs = [
            gy if gy is None else arguments.array_like(gy, y)
            for y, gy in zip_strict(outputs, grad_outputs)
        ]
    grads = _core._grad(
        outputs,
        inputs,
        grad_outputs,
        backprop_id,
        enable_double_backprop,
        _scale(loss_scale),
        retain_grad,
    )
    if set_grad:
        for x, gx in zip_strict(inputs, grads):
            if gx is not None:
                x.set_grad(gx, backprop_id)
    return grads
