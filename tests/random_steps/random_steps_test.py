"""Random steps for some seconds: see check.py. docs/programs.md says how to run them for hours."""

from __future__ import annotations

import os
import random
from typing import Any

import chx
import pytest

from . import check, generator

SECONDS = float(os.environ.get("CHX_STEPS_SECONDS", 20))


def test_recorded_steps_are_equal_to_the_last_bit() -> None:
    seed = int(os.environ.get("CHX_TEST_SEED", random.randrange(2**31)))
    print(f"CHX_TEST_SEED={seed}")
    with chx.connect():
        outcomes = check.main(SECONDS, seed)
    print(outcomes)
    planned = outcomes.get("planned", 0)
    assert planned > 10
    assert planned > 0.8 * sum(outcomes.values()), outcomes


def test_loops_are_equal_where_windows_are_recognised() -> None:
    seed = int(os.environ.get("CHX_TEST_SEED", random.randrange(2**31)))
    print(f"CHX_TEST_SEED={seed}")
    outcomes, windows = check.check_windows_of_daemons(SECONDS, seed)
    print(outcomes, windows)
    assert outcomes["equal"] > 10
    assert windows[0] == 0
    assert windows[1] > 2 * outcomes["equal"]


def test_a_difference_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step whose Python differs in each call is another one when it is recorded."""
    whole = generator.Step.__call__

    def counted(self: Any, state: Any, *arguments: Any) -> Any:
        self.calls = getattr(self, "calls", 0) + 1
        state.buffers[2] += self.calls
        return whole(self, state, *arguments)

    monkeypatch.setattr(generator.Step, "__call__", counted)
    with chx.connect(), pytest.raises(AssertionError, match="the step of seed 5 differs"):
        check.check(5)
