"""When a run ends before its last step: for chx.runs."""

from __future__ import annotations

from typing import NamedTuple


class StopRule(NamedTuple):
    """When a run ends before its last step; below(), above(), nan() and no_improvement() make them."""

    kind: int
    metric: str
    bound: float = 0.0
    patience: int = 0


def nan(metric: str) -> StopRule:
    """Ends the run when the metric is NaN. "evaluation/NAME" is a metric of the evaluation."""
    return StopRule(0, metric)


def below(metric: str, bound: float) -> StopRule:
    """Ends the run when the metric is below the bound."""
    return StopRule(1, metric, bound)


def above(metric: str, bound: float) -> StopRule:
    """Ends the run when the metric is above the bound."""
    return StopRule(2, metric, bound)


def no_improvement(metric: str, patience: int) -> StopRule:
    """Ends the run when the metric was not smaller than ever before for so many times in a row."""
    return StopRule(3, metric, 0.0, patience)
