"""Runs random steps eagerly and recorded, and compares them to the last bit.

python -m tests.random_steps.check SECONDS [SEED]
"""

from __future__ import annotations

import sys
import time
from typing import Any

import chx
import numpy as np

from .generator import State, Step

CALLS = 7


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


def main(seconds: float, seed: int) -> dict[str, int]:
    """Checks one seed after the other for a while. Gives how often each outcome was seen."""
    end = time.monotonic() + seconds
    outcomes: dict[str, int] = {}
    while time.monotonic() < end:
        outcome = check(seed)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        seed += 1
    return outcomes


if __name__ == "__main__":
    first = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    print(f"seeds from {first}", flush=True)
    with chx.connect():
        for outcome, count in sorted(main(float(sys.argv[1]), first).items()):
            print(f"{count:6} {outcome}")
