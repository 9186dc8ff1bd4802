"""Runs random steps eagerly and recorded, and compares them to the last bit.

python -m tests.random_steps.check SECONDS [SEED]            # by chx.jit
python -m tests.random_steps.check windows SECONDS [SEED]    # by windows that the daemon recognises
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from typing import Any

import chx
import numpy as np

from tests.integration.observed import Observed

from .generator import State, Step

CALLS = 7
LOOPS = 40


def bits(array: Any) -> tuple[str, tuple[int, ...], bytes]:
    """All NaNs are one: fused operators may give another."""
    values = chx.to_numpy(array).copy()
    if values.dtype.kind == "f":
        values[np.isnan(values)] = np.nan
    return str(array.dtype), array.shape, values.tobytes()


def history(seed: int, recorded: bool) -> tuple[list[Any], Any]:
    """All that can be seen of some calls of the step, and chx.jit's account of them, if any."""
    length = 3 + seed % 40
    state = State(seed)
    step = Step(seed, length)

    def function(*arguments: Any) -> Any:
        return step(state, *arguments)

    # The step is drawn by a call that both have.
    seen: list[Any] = [bits(v) for v in function(*state.arguments(0))["values"]]
    call = chx.jit(function) if recorded else function
    for i in range(1, CALLS):
        arguments = state.arguments(i if seed % 3 else 0)
        if i == 4:
            state.buffers[0] += 1  # outside of the step
            state.params[0].grad = None
        if i == 5 and seed % 2:
            if recorded:
                result = call.repeat(3, *arguments)
            else:
                for _ in range(3):
                    result = call(*arguments)
        else:
            result = call(*arguments)
        seen += [bits(v) for v in result["values"]]
        seen += [bits(v) for v in [*state.seen(), *arguments]]
    return seen, call.cache_info() if recorded else None


def check(seed: int) -> str:
    """Compares one step. Gives "planned", "unplanned", or why it could not be recorded."""
    want, _ = history(seed, False)
    try:
        got, info = history(seed, True)
    except chx.NotImplementedError as error:
        return str(error)
    assert got == want, f"the step of seed {seed} differs when it is recorded"
    return "unplanned" if info.unplanned else "planned"


def loop(seed: int, session: Any) -> list[Any]:
    """All that is seen now and then of a loop that nobody has recorded."""
    chance = random.Random(seed)
    with chx.using_device(session.devices[0]):
        state = State(seed)
        step = Step(seed, 3 + seed % 40)
        seen: list[Any] = []
        older = []
        for i in range(LOOPS):
            arguments = state.arguments(i // 16 if seed % 3 else 0)
            result = step(state, *arguments)
            if chance.random() < 0.2:
                older.append(result)
            if chance.random() < 0.2:
                seen += [bits(v) for v in [*result["values"], *state.seen(), *arguments]]
            if chance.random() < 0.1:
                state.buffers[0] += 1  # outside of the step
            if chance.random() < 0.1:
                state.params[0].grad = None
        for result in older:
            seen += [bits(v) for v in result["values"]]
        return seen + [bits(v) for v in state.seen()]


def check_windows(seed: int, plain: str, recognizing: str) -> str:
    """Compares one loop with two daemons, by their addresses: one runs windows of commands."""
    try:
        with chx.connect(plain) as session:
            want = loop(seed, session)
    except chx.OutOfMemoryError:
        return "too large"
    with chx.connect(recognizing) as session:
        got = loop(seed, session)
    assert got == want, f"the loop of seed {seed} differs where its windows are recognised"
    return "equal"


def check_windows_of_daemons(seconds: float, seed: int) -> tuple[dict[str, int], list[int]]:
    """The outcomes with two daemons, and how many windows each has run."""
    flags = ("--metrics-listen=127.0.0.1:0", "--metrics-open")
    off, on = ((f"--recognize-windows={on}", *flags) for on in ("false", "true"))
    with Observed(*off) as plain, Observed(*on) as recognizing:
        daemons = (plain, recognizing)
        outcomes = main(
            seconds, seed, lambda seed: check_windows(seed, *[each.address for each in daemons])
        )
        name = ("chxd_repeated_windows_total", "local", "default")
        return outcomes, [int(each.metrics()[0][name]) for each in daemons]


def main(seconds: float, seed: int, check: Callable[[int], str] = check) -> dict[str, int]:
    """Checks one seed after the other for a while. Gives how often each outcome was seen."""
    end = time.monotonic() + seconds
    outcomes: dict[str, int] = {}
    while time.monotonic() < end:
        outcome = check(seed)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        seed += 1
    return outcomes


if __name__ == "__main__":
    windows = sys.argv[1] == "windows"
    numbers = sys.argv[2:] if windows else sys.argv[1:]
    first = int(numbers[1]) if len(numbers) > 1 else int(time.time())
    print(f"seeds from {first}", flush=True)
    if windows:
        outcomes, counts = check_windows_of_daemons(float(numbers[0]), first)
        print(f"{counts[1]:6} windows")
    else:
        with chx.connect():
            outcomes = main(float(numbers[0]), first)
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:6} {outcome}")
