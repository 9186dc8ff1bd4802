"""Random steps for some seconds: see check.py. docs/fuzzing.md says how to run them for hours."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from . import check, generator

SECONDS = float(os.environ.get("CHX_STEPS_SECONDS", 25))
OPERATORS = int(os.environ.get("CHX_STEPS_OPERATORS", check.OPERATORS))
MOST_SECONDS = SECONDS + 500  # on a machine that has much else to do
PLANNED = 0.8


@pytest.fixture(scope="module")
def checker() -> Iterator[check.Checker]:
    with check.Checker(OPERATORS) as checker:
        yield checker


def missing(outcomes: list[check.Outcome]) -> list[str]:
    """What these steps have not reached."""
    planned = [o for o in outcomes if o.runs > 0]
    reached = {
        "plans of many operators": any(o.operators > 0.4 * OPERATORS for o in planned),
        "plans of large arrays": any(o.size == "large" for o in planned),
        "fused passes": sum(o.fused > 0 for o in planned) > 1,
        "windows": sum(o.windows > 2 for o in outcomes) > 1,
        "windows of some operators": any(o.windows > 2 and o.operators > 10 for o in outcomes),
        "training": any(o.trains for o in planned),
        "double backward": any(o.penalizes for o in planned),
        "dtypes": len(set().union(*(o.dtypes for o in outcomes))) > 7,
    }
    return [what for what, is_reached in reached.items() if not is_reached]


def test_steps_are_equal_to_the_last_bit(checker: check.Checker) -> None:
    seed = int(os.environ.get("CHX_TEST_SEED", random.randrange(2**31)))
    print(f"CHX_TEST_SEED={seed}")
    began = time.monotonic()
    outcomes: list[check.Outcome] = []
    for each in itertools.count(seed):
        outcomes.append(checker.check(each))
        seconds = time.monotonic() - began
        if seconds > MOST_SECONDS or (seconds > SECONDS and not missing(outcomes)):
            break
    print(check.summary(outcomes))
    assert missing(outcomes) == []
    assert checker.windows()[0] == 0
    assert sum(o.kind == "planned" for o in outcomes) > PLANNED * len(outcomes)


@pytest.mark.parametrize(("way", "loops"), [("by windows", 1), ("when it is recorded", 2)])
def test_a_difference_is_seen(
    checker: check.Checker, monkeypatch: pytest.MonkeyPatch, way: str, loops: int
) -> None:
    """The loop of one way writes something that the others do not."""
    whole = generator.State.renew
    states: list[generator.State] = []

    def renew(self: Any) -> None:
        whole(self)
        if not states or states[-1] is not self:
            states.append(self)
        if len(states) == loops + 1:
            self.buffers[2] += 1

    monkeypatch.setattr(generator.State, "renew", renew)
    with pytest.raises(AssertionError, match=f"the step of seed 4.* {way}: call .*buffers"):
        checker.check(4)
