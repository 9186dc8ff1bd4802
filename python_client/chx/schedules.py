"""Values that change from step to step, such as a learning rate: docs/runs.md.

    rate = chx.schedules.warm_up(100, chx.schedules.cosine(1e-3, 10_000))
    run = chx.runs.start(step, data, ..., schedule=chx.schedules.on(optimizer, alpha=rate))

A schedule is a function of the step's number, counted from 0, that gives the value for it. So any
function may be one, and a loop of one's own may call it. Those of Chainer's extensions give what the
extension gives if its trigger is each iteration, from the optimizer's next update on.
"""

from __future__ import annotations

import bisect
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from chx._compat import TypeAlias

__all__ = [
    "Schedule",
    "constant",
    "cosine",
    "exponential",
    "inverse",
    "linear",
    "multi_step",
    "on",
    "one_cycle",
    "polynomial",
    "step",
    "warm_up",
]

Schedule: TypeAlias = Callable[[int], float]


def on(optimizer: Any, **schedules: Schedule) -> Callable[[int], None]:
    """A function for `schedule` of chx.runs.start(), or to call in each step of a loop.

    Args:
      optimizer: of chx.optimizers, or any object.
      schedules: of its hyperparameters, by their names.

    Returns:
      A function of a step's number that sets them to their values for it.

    Raises:
      AttributeError: the optimizer has no such hyperparameter.
    """
    for name in schedules:
        getattr(optimizer, name)

    def set_all(number: int) -> None:
        for name, schedule in schedules.items():
            setattr(optimizer, name, schedule(number))

    return set_all


def constant(value: float) -> Schedule:
    """value."""
    return lambda number: value


def step(value: float, every: int, rate: float, target: float | None = None) -> Schedule:
    """value * rate ** floor(n / every): Chainer's StepShift.

    Args:
      value: at first.
      every: so many steps it is multiplied once more.
      rate: what it is multiplied by.
      target: where it stops; None: nowhere.
    """
    _check(every >= 1, "[step] expects a change every 1 step or more", every)
    return lambda number: _until(target, value * rate ** float(number // every), rate > 1)


def multi_step(value: float, at: Sequence[int], rate: float) -> Schedule:
    """value * rate ** k, k being how many steps of `at` have come: Chainer's MultistepShift."""
    steps = sorted(operator.index(number) for number in at)
    return lambda number: value * rate ** float(bisect.bisect_right(steps, number))


def exponential(value: float, rate: float, target: float | None = None) -> Schedule:
    """value * rate ** n, until it is `target`: Chainer's ExponentialShift."""
    _check(rate >= 0, "[exponential] expects a rate of 0 or more", rate)
    return lambda number: _until(target, value * rate ** float(number), rate > 1)


def inverse(value: float, gamma: float, power: float, target: float | None = None) -> Schedule:
    """value * (1 + gamma * n) ** -power, until it is `target`: Chainer's InverseShift."""
    _check(gamma >= 0, "[inverse] expects a gamma of 0 or more", gamma)
    return lambda number: _until(target, value * (1 + gamma * number) ** -power, power < 0)


def linear(first: float, last: float, steps: int, begin: int = 0) -> Schedule:
    """From one value to another within so many steps, in a line: Chainer's LinearShift.

    Args:
      first: the value up to step `begin`.
      last: the value from step `begin + steps` on.
      steps: in between.
      begin: where the line begins.
    """
    _check(steps >= 1, "[linear] expects 1 step or more", steps)

    def value(number: int) -> float:
        done = min(max(number - begin, 0), steps)
        return last if done == steps else first + done / steps * (last - first)

    return value


def polynomial(
    value: float, steps: int, power: float = 1.0, target: float | None = None
) -> Schedule:
    """value * (1 - n / steps) ** power, until it is `target`: Chainer's PolynomialShift.

    Args:
      value: at first. After `steps` it is 0, or `target`.
      steps: of the way there.
      power: 0 or more.
      target: where it stops; None: nowhere.
    """
    _check(steps >= 1, "[polynomial] expects 1 step or more", steps)
    _check(power >= 0, "[polynomial] expects a power of 0 or more", power)
    return lambda number: _until(target, value * max(1 - number / steps, 0.0) ** power, False)


def cosine(value: float, steps: int, last: float = 0.0) -> Schedule:
    """last + (value - last) * (1 + cos(pi * n / steps)) / 2, and `last` from step `steps` on."""
    _check(steps >= 1, "[cosine] expects 1 step or more", steps)

    def at(number: int) -> float:
        if number >= steps:
            return last
        return last + (value - last) * (1 + math.cos(math.pi * number / steps)) / 2

    return at


def one_cycle(
    greatest: float,
    steps: int,
    up: float = 0.3,
    anneal: str = "cos",
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
    three_phase: bool = False,
) -> Schedule:
    """Up to the greatest value and down again: PyTorch's OneCycleLR.

    Args:
      greatest: of all values.
      steps: of the whole way; from then on the value is the last one.
      up: the share of the steps on the way up.
      anneal: 'cos' for half periods of a cosine, 'linear' for lines.
      div_factor: the first value is greatest / div_factor.
      final_div_factor: the last value is the first one / final_div_factor.
      three_phase: whether the way down to the first value is as long as that up, before the last phase.
    """
    _check(steps >= 1, "[one_cycle] expects 1 step or more", steps)
    _check(0 <= up <= 1, "[one_cycle] expects a share of the steps, in [0, 1]", up)
    if anneal not in ("cos", "linear"):
        raise ValueError(f"[one_cycle] expects anneal 'cos' or 'linear', got {anneal!r}")
    first = greatest / div_factor
    last = first / final_div_factor
    top = up * steps - 1
    # The step that each phase ends with, and the rate there.
    phases = [(top, greatest), (2 * top, first)] if three_phase else [(top, greatest)]
    phases.append((steps - 1, last))

    def value(number: int) -> float:
        before, start = 0.0, first
        t = min(number, steps - 1)
        for end, rate in phases:
            if t <= end:
                way = (t - before) / (end - before) if end > before else 1.0
                if anneal == "cos":
                    way = (1 - math.cos(math.pi * way)) / 2
                return start + (rate - start) * way
            before, start = end, rate
        return last

    return value


def warm_up(steps: int, then: Schedule | float, first: float = 0.0) -> Schedule:
    """A line to where another schedule begins, and that schedule: with a number, WarmupShift.

    Args:
      steps: of the line.
      then: the schedule from step `steps` on, which counts from 0 there; or a value that stays.
      first: the value at step 0.
    """
    _check(steps >= 1, "[warm_up] expects 1 step or more", steps)
    after = then if callable(then) else constant(then)

    def value(number: int) -> float:
        if number >= steps:
            return after(number - steps)
        return (number * after(0) + (steps - number) * first) / steps

    return value


def _check(holds: bool, expects: str, got: float) -> None:
    if not holds:
        raise ValueError(f"{expects}, got {got}")


def _until(target: float | None, value: float, rises: bool) -> float:
    """The value, or where it stops; both may be negative."""
    if not target:
        return value
    part = value / target
    return target if (part > 1 if rises else part < 1) else value
