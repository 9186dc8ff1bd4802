"""What an optimizer's step needs besides parameters and gradients: one entry per rule.

chx.optimizers and the Chainer adapter both step by this table. Hyperparameters have Chainer's
names and defaults; `hp` below is anything that has them as attributes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from chx import _core
from chx._compat import TypeAlias

operators = _core._submodules["optimizers"]

# Of a step: the hyperparameters, its number from 1 on, and the alpha that the optimizer began with.
_Arguments: TypeAlias = Callable[[Any, int, Any], tuple[Any, ...]]


@dataclasses.dataclass(frozen=True)
class Rule:
    """A way of updating parameters.

    Attributes:
      operator: takes lists: the parameters, their gradients, then one for each state.
      states: what an element of each state is at first.
      defaults: the hyperparameters.
      arguments: the operator's attributes of step number t (from 1), from hp, t and the alpha that
        the optimizer began with.
    """

    operator: Callable[..., None]
    states: dict[str, float]
    defaults: dict[str, float]
    arguments: _Arguments


MAX_OPERANDS = 65535  # of one command


def _in_parts(operator: Callable[..., None], lists: int) -> Callable[..., None]:
    """The operator, by more than one command where the lists are too long for one."""
    length = MAX_OPERANDS // lists

    def run(*args: Any) -> None:
        for i in range(0, len(args[0]), length):
            operator(*[a[i : i + length] for a in args[:lists]], *args[lists:])

    return run


def _rule(
    operator: str, states: dict[str, float], defaults: dict[str, float], arguments: _Arguments
) -> Rule:
    run = _in_parts(operators[operator], 2 + len(states))
    return Rule(run, states, defaults, arguments)


def _names(*names: str) -> _Arguments:
    return lambda hp, t, initial_alpha: tuple(getattr(hp, name) for name in names)


def _adam(hp: Any, t: int, initial_alpha: Any) -> tuple[Any, ...]:
    step = hp.alpha * math.sqrt(1.0 - hp.beta2**t) / (1.0 - hp.beta1**t)
    lower = upper = None
    if hp.adabound:
        # A schedule that changes alpha changes the final rate too.
        final = hp.final_lr * hp.alpha / initial_alpha
        lower = final * (1.0 - 1.0 / (hp.gamma * t + 1))
        upper = final * (1.0 + 1.0 / (hp.gamma * t))
    return step, hp.beta1, hp.beta2, hp.eps, hp.eta, hp.weight_decay_rate, lower, upper


def _msvag(hp: Any, t: int, initial_alpha: Any) -> tuple[Any, ...]:
    return hp.lr, hp.beta, hp.eta, hp.weight_decay_rate, hp.beta**t


_MOMENTUM = {"lr": 0.01, "momentum": 0.9}
_ADAM = {
    "alpha": 0.001,
    "beta1": 0.9,
    "beta2": 0.999,
    "eps": 1e-8,
    "eta": 1.0,
    "weight_decay_rate": 0.0,
    "amsgrad": False,
    "adabound": False,
    "final_lr": 0.1,
    "gamma": 1e-3,
}


def _momentum_rule(operator: str) -> Rule:
    return _rule(operator, {"v": 0}, _MOMENTUM, _names("lr", "momentum"))


RULES = {
    "SGD": _rule("sgd_update", {}, {"lr": 0.01}, _names("lr")),
    "MomentumSGD": _momentum_rule("momentum_sgd_update"),
    "CorrectedMomentumSGD": _momentum_rule("corrected_momentum_sgd_update"),
    "NesterovAG": _momentum_rule("nesterov_ag_update"),
    "AdaGrad": _rule(
        "ada_grad_update",
        {"h": 0},
        {"lr": 0.001, "eps": 1e-8},
        _names("lr", "eps"),
    ),
    "AdaDelta": _rule(
        "ada_delta_update",
        {"msg": 0, "msdx": 0},
        {"rho": 0.95, "eps": 1e-6},
        _names("rho", "eps"),
    ),
    "Adam": _rule("adam_update", {"m": 0, "v": 0}, _ADAM, _adam),
    "AMSGrad": _rule("amsgrad_update", {"m": 0, "v": 0, "vhat": 0}, _ADAM, _adam),
    "RMSprop": _rule(
        "rmsprop_update",
        {"ms": 0},
        {"lr": 0.01, "alpha": 0.99, "eps": 1e-8, "eps_inside_sqrt": False},
        _names("lr", "alpha", "eps", "eps_inside_sqrt"),
    ),
    "RMSpropGraves": _rule(
        "rmsprop_graves_update",
        {"n": 0, "g": 0, "delta": 0},
        {"lr": 1e-4, "alpha": 0.95, "momentum": 0.9, "eps": 1e-4},
        _names("lr", "alpha", "momentum", "eps"),
    ),
    "SMORMS3": _rule(
        "smorms3_update",
        {"mem": 1, "g": 0, "g2": 0},
        {"lr": 0.001, "eps": 1e-16},
        _names("lr", "eps"),
    ),
    "MSVAG": _rule(
        "msvag_update",
        {"m": 0, "v": 0},
        {"lr": 0.1, "beta": 0.9, "eta": 1.0, "weight_decay_rate": 0.0},
        _msvag,
    ),
}
