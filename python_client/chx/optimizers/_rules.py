"""What an optimizer's step needs besides parameters and gradients: one entry per rule.

chx.optimizers and the Chainer adapter both step by this table, which is that of the C++ client too
(ops/optimizer_rules.cc). Hyperparameters have Chainer's names and defaults; `hp` below is anything
that has them as attributes.
"""

from __future__ import annotations

import dataclasses
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
        if len(args[0]) <= length:
            operator(*args)
            return
        for i in range(0, len(args[0]), length):
            operator(*[a[i : i + length] for a in args[:lists]], *args[lists:])

    return run


def _rule(name: str, operator: str, states: dict[str, float], defaults: dict[str, float]) -> Rule:
    def arguments(hp: Any, t: int, initial_alpha: Any) -> tuple[Any, ...]:
        values = tuple([getattr(hp, key) for key in defaults])
        return _core._optimizer_attributes(name, values, t, initial_alpha)

    run = _in_parts(operators[operator], 2 + len(states))
    return Rule(run, states, defaults, arguments)


RULES = {name: _rule(name, *entry) for name, entry in _core._optimizer_rules().items()}
