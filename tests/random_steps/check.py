"""Random steps must do the same, to the last bit, operator by operator, by windows that the daemon
recognises, and as recordings, also by repeat.

    python -m tests.random_steps.check SECONDS [SEED [OPERATORS]]

needs CHX_CHXD, the path of a chxd. OPERATORS: of the longest steps.
"""

from __future__ import annotations

import collections
import dataclasses
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import chx
import numpy as np

from tests.integration.observed import Observed

from .generator import PARTS, State, Step, size_of

OPERATORS = 240
CALM = 12  # calls in a row between which the loop does nothing else
LOOPS = 3 * CALM
REPEATS = 3
MOST_OF_WINDOWS = 90
# The same number of threads everywhere: a loop over many elements is split for each.
FLAGS = ("--threads=3", "--metrics-listen=127.0.0.1:0", "--metrics-open")
WINDOWS = ("chxd_repeated_windows_total", "local", "default")

Seen = list[tuple[str, str, np.ndarray]]


@dataclasses.dataclass
class Outcome:
    """How one step was run."""

    kind: str  # "planned", "unplanned" or why it cannot be recorded
    operators: int
    size: str
    dtypes: set[str]
    fused: int = 0  # passes over several operators, in plans of recordings
    runs: int = 0  # of such plans
    windows: int = 0  # that ran as plans
    trains: bool = False
    penalizes: bool = False  # by double backward


def note(where: str, arrays: dict[str, Any]) -> Iterator[tuple[str, str, np.ndarray]]:
    """Names and bits. All NaNs are one: fused operators may give another."""
    for name, array in arrays.items():
        values = chx.to_numpy(array).copy()
        if values.dtype.kind == "f":
            values[np.isnan(values)] = np.nan
        yield f"{where}: {name}", str(array.dtype), values


def history(seed: int, step: Step, session: Any, wrap: Callable[..., Any]) -> tuple[Seen, Any]:
    """What is seen of a loop over the step, and the function that was called."""
    chance = random.Random(seed)
    reads = chance.random() < 0.7  # a result of each call
    seen: Seen = []
    with chx.using_device(session.devices[0]):
        state = State(seed)

        def function(rate: Any, *arguments: Any) -> Any:
            return step(state, rate, *arguments)

        call = wrap(function)
        older = {}
        call(0.5, *state.arguments(0))
        call.explain(profile=True)
        # Windows are recognised where nothing else happens for a while.
        for i in range(LOOPS):
            where = f"call {i}"
            part = i // CALM
            arguments = state.arguments(part if seed % 4 else 0)
            rate = 0.5 / (1 + part // 2)
            if i % CALM == CALM - 1:
                result = call.repeat(REPEATS, rate, *arguments)
            else:
                result = call(rate, *arguments)
            values = {f"values[{k}]": v for k, v in enumerate(result["values"])}
            if i in (0, CALM // 2, LOOPS // 2):
                older[where] = values
            if reads:
                seen += note(where, {"values[0]": values["values[0]"]})
            if i % CALM == CALM - 1 or (part > 0 and chance.random() < 0.1):
                given = {f"arguments[{k}]": a for k, a in enumerate(arguments)}
                seen += note(where, values | state.seen() | given)
            if part > 0 and chance.random() < 0.15:
                state.buffers[0] += 1  # outside of the step
            if part > 0 and chance.random() < 0.15:
                state.params[0].grad = None
            if i % CALM == CALM - 1:
                state.renew()
        for where, values in older.items():
            seen += note(f"{where}, later", values)
        return seen, call


class Eager:
    """Operator by operator, with the methods of chx.jit's functions."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def explain(self, *, profile: bool = False) -> str:
        return ""

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def repeat(self, times: int, *arguments: Any) -> Any:
        for _ in range(times - 1):
            self._function(*arguments)
        return self._function(*arguments)


def compare(what: str, want: Seen, got: Seen) -> None:
    """An AssertionError that says where they differ first."""
    assert len(want) == len(got), f"{what}: {len(want)} and {len(got)} arrays were seen"
    for (where, dtype, a), (other, other_dtype, b) in zip(want, got):
        assert (where, dtype, a.shape) == (
            other,
            other_dtype,
            b.shape,
        ), f"{what}: {where} of {dtype}{a.shape} is {other} of {other_dtype}{b.shape}"
        if a.tobytes() == b.tobytes():
            continue
        bits = [np.ascontiguousarray(x).reshape(-1).view(f"u{x.itemsize}") for x in (a, b)]
        places = np.nonzero(bits[0] != bits[1])[0]
        first = places[0]
        raise AssertionError(
            f"{what}: {where} of {dtype}{a.shape} differs in {len(places)} elements, at {first} "
            f"{a.reshape(-1)[first]!r} is {b.reshape(-1)[first]!r}"
        )


def length_of(seed: int, operators: int) -> int:
    """How many operators a step has at most: more often many than few.

    Half of the steps are of so many that all their commands are usually in one batch, as those of a
    window have to be.
    """
    chance = random.Random(seed)
    most = operators * PARTS[size_of(seed)]
    if chance.random() < 0.5:
        most = min(most, MOST_OF_WINDOWS)
    return 3 + int(most * chance.random() ** 0.4)


class Checker:
    """Two daemons; the second one recognises windows."""

    def __init__(self, operators: int = OPERATORS) -> None:
        self.operators = operators

    def __enter__(self) -> Checker:
        self.daemons = [Observed(f"--recognize-windows={on}", *FLAGS) for on in ("false", "true")]
        return self

    def __exit__(self, *arguments: Any) -> None:
        for daemon in self.daemons:
            daemon.__exit__(*arguments)

    def windows(self) -> list[int]:
        """How many each daemon has run."""
        return [int(daemon.metrics()[0].get(WINDOWS, 0)) for daemon in self.daemons]

    def check(self, seed: int) -> Outcome:
        """Compares the ways to run one step."""
        name = f"the step of seed {seed} (of {self.operators} operators at most)"
        addresses = [daemon.address for daemon in self.daemons]
        with chx.connect(addresses[0]) as session:
            with chx.using_device(session.devices[0]):
                step = Step(seed, length_of(seed, self.operators))
            outcome = Outcome("", len(step.instructions), size_of(seed), step.dtypes)
            outcome.trains, outcome.penalizes = step.trains, step.penalizes
            want, _ = history(seed, step, session, Eager)
        before = self.windows()[1]
        with chx.connect(addresses[1]) as session:
            got, _ = history(seed, step, session, Eager)
        compare(f"{name}, by windows", want, got)
        outcome.windows = self.windows()[1] - before
        try:
            with chx.connect(addresses[0]) as session:
                got, call = history(seed, step, session, chx.jit)
                compare(f"{name}, when it is recorded", want, got)
                outcome.kind = "unplanned" if call.cache_info().unplanned else "planned"
                text = call.explain()
                outcome.fused = text.count("fused, in blocks of")
                outcome.runs = sum(map(int, re.findall(r"measured: (\d+) runs", text)))
        except chx.NotImplementedError as error:
            outcome.kind = str(error)
        return outcome


def main(checker: Checker, seconds: float, seed: int) -> list[Outcome]:
    """Checks one seed after the other for a while."""
    end = time.monotonic() + seconds
    outcomes = []
    while time.monotonic() < end:
        outcomes.append(checker.check(seed))
        seed += 1
    return outcomes


def summary(outcomes: list[Outcome]) -> str:
    """What was covered."""
    lengths = sorted(outcome.operators for outcome in outcomes)
    kinds = collections.Counter(outcome.kind for outcome in outcomes)
    sizes = collections.Counter(outcome.size for outcome in outcomes)
    lines = [
        f"{len(outcomes)} steps of up to {lengths[-1]} operators, {sum(lengths)} in all; {dict(sizes)}",
        f"{sum(o.windows for o in outcomes)} windows, in {sum(o.windows > 0 for o in outcomes)} "
        f"steps of up to {max((o.operators for o in outcomes if o.windows), default=0)}",
        f"{sum(o.runs for o in outcomes)} runs of plans of recordings",
        f"{sum(o.fused for o in outcomes)} fused passes, in {sum(o.fused > 0 for o in outcomes)} "
        f"steps",
        f"backward in {sum(o.trains for o in outcomes)} steps, double in "
        f"{sum(o.penalizes for o in outcomes)}",
        f"dtypes: {', '.join(sorted(set().union(*(o.dtypes for o in outcomes))))}",
    ]
    return "\n".join(lines + [f"{count:6} {kind}" for kind, count in sorted(kinds.items())])


if __name__ == "__main__":
    first = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    print(f"seeds from {first}", flush=True)
    with Checker(int(sys.argv[3]) if len(sys.argv) > 3 else OPERATORS) as checker:
        print(summary(main(checker, float(sys.argv[1]), first)))
