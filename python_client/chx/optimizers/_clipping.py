"""Gradients clipped by hand; GradientClipping and GradientHardClipping are hooks that do it."""

from __future__ import annotations

from collections.abc import Iterable

from chx._autograd.modes import outside_graphs
from chx._core import ndarray
from chx.optimizers._devices import by_device
from chx.optimizers._rules import operators


def gradients(params: ndarray | Iterable[ndarray]) -> list[ndarray]:
    """Those that there are, to be written in place."""
    params = [params] if isinstance(params, ndarray) else params
    grads = [p.grad for p in params]
    return [outside_graphs(g) for g in grads if g is not None]


def clip_grad_norm(params: ndarray | Iterable[ndarray], max_norm: float) -> None:
    """Scales the gradients of parameters, in place, so that their common L2 norm is at most max_norm.

    One command. Parameters without a gradient are passed over.

    Raises:
      ValueError: the gradients are on several devices, or too many for one command.
    """
    grads = gradients(params)
    groups = list(by_device(grads, grads))
    if len(groups) > 1:
        raise ValueError("[clip_grad_norm] expects gradients of one device, for one command")
    for group in groups:
        operators["gradient_clipping"](group, max_norm)


def clip_grad_value(params: ndarray | Iterable[ndarray], max_value: float) -> None:
    """Clips each element of the gradients of parameters, in place, to [-max_value, max_value].

    One command for each device.
    """
    grads = gradients(params)
    for group in by_device(grads, grads):
        operators["gradient_hard_clipping"](group, -max_value, max_value)
