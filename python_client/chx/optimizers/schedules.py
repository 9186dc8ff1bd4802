"""Learning rates as functions of the number of the step, from 0 on.

    schedule = warm_up(cosine(0.1, steps=900), steps=100)
    scheduler = Scheduler(optimizer, schedule)
    for batch in batches:
        ...
        optimizer.update()
        scheduler.step()

A schedule keeps nothing: what goes on from a saved step asks for that step's rate. A function of
chx.jit that is given schedule(t) as an argument is recorded once.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence

from chx._compat import TypeAlias
from chx.optimizers._optimizer import Optimizer

Schedule: TypeAlias = Callable[[int], float]


def constant(rate: float) -> Schedule:
    """The same rate in all steps."""
    return lambda t: rate


def step(rate: float, step_size: int, gamma: float = 0.1) -> Schedule:
    """The rate times gamma after every `step_size` steps."""
    if step_size < 1:
        raise ValueError(f"[step] expects a step_size from 1 on, got {step_size}")
    return lambda t: rate * gamma ** (t // step_size)


def multi_step(rate: float, milestones: Sequence[int], gamma: float = 0.1) -> Schedule:
    """The rate times gamma from each of these steps on."""
    ordered = sorted(milestones)
    return lambda t: rate * gamma ** bisect.bisect_right(ordered, t)


def exponential(rate: float, gamma: float) -> Schedule:
    """The rate times gamma after every step."""
    return lambda t: rate * gamma**t


def cosine(rate: float, steps: int, least: float = 0.0) -> Schedule:
    """Half a period of a cosine, from the rate to `least` in `steps` steps; then back again.

    (Loshchilov and Hutter, 2017, without restarts.)
    """
    if steps < 1:
        raise ValueError(f"[cosine] expects steps from 1 on, got {steps}")
    return lambda t: least + (rate - least) * (1 + math.cos(math.pi * t / steps)) / 2


def one_cycle(
    greatest: float,
    steps: int,
    up: float = 0.3,
    anneal: str = "cos",
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
    three_phase: bool = False,
) -> Schedule:
    """From greatest / div_factor up to the greatest rate, then down to far below where it began.

    `up` is the share of steps of the first phase; the last rate is the first one divided by
    final_div_factor. With three_phase the second one is as long as the first and mirrors it. The
    rate is that of the last step from then on. (Smith and Topin, 2018.)
    """
    if steps < 1 or not 0 <= up <= 1 or anneal not in ("cos", "linear"):
        raise ValueError(
            "[one_cycle] expects steps from 1 on, up in [0, 1] and anneal 'cos' or 'linear', got "
            f"{steps}, {up} and {anneal!r}"
        )
    first = greatest / div_factor
    last = first / final_div_factor
    top = up * steps - 1
    # The step that each phase ends with, and the rate there.
    phases = [(top, greatest), (2 * top, first)] if three_phase else [(top, greatest)]
    phases.append((steps - 1, last))

    def rate_at(t: int) -> float:
        before, start = 0.0, first
        t = min(t, steps - 1)
        for end, rate in phases:
            if t <= end:
                way = (t - before) / (end - before) if end > before else 1.0
                if anneal == "cos":
                    way = (1 - math.cos(math.pi * way)) / 2
                return start + (rate - start) * way
            before, start = end, rate
        return last

    return rate_at


def warm_up(after: Schedule | float, steps: int, start_factor: float = 1 / 3) -> Schedule:
    """A line from start_factor times the first rate of another schedule to it, which then begins."""
    if steps < 1:
        raise ValueError(f"[warm_up] expects steps from 1 on, got {steps}")
    follows = after if callable(after) else constant(after)

    def rate_at(t: int) -> float:
        if t >= steps:
            return follows(t - steps)
        return follows(0) * (start_factor + (1 - start_factor) * t / steps)

    return rate_at


class Scheduler:
    """Sets a hyperparameter of an optimizer by a schedule.

    Attributes:
      t: the step that the hyperparameter is set for.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedule: Schedule,
        hyperparameter: str | None = None,
        t: int = 0,
    ) -> None:
        """By default the rate, which is `lr` or, of Adam and its relatives, `alpha`.

        Raises:
          ValueError: the optimizer has no such hyperparameter.
        """
        names = optimizer._names
        if hyperparameter is None:
            hyperparameter = "lr" if "lr" in names else "alpha"
        if hyperparameter not in names:
            raise ValueError(
                f"[Scheduler] expects one of {', '.join(names)}, got {hyperparameter!r}"
            )
        self._optimizer = optimizer
        self._schedule = schedule
        self._name = hyperparameter
        self.t = t
        self._set()

    def _set(self) -> None:
        setattr(self._optimizer, self._name, self._schedule(self.t))

    def step(self) -> None:
        """Goes to the next step: after every update, or after every epoch."""
        self.t += 1
        self._set()
