"""The functions and the data of a run, as the daemon is told of them."""

from __future__ import annotations

import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Union, cast

import numpy as np
import numpy.typing as npt

from chx import _core, _programs
from chx._compat import TypeAlias
from chx._core import ndarray
from chx._numpy import creation

if TYPE_CHECKING:
    from chx.runs import StopRule

Data: TypeAlias = Union[ndarray, Sequence[ndarray]]
Metrics: TypeAlias = "list[tuple[str, int]]"

EVALUATION = "evaluation/"
_MOST_VALUES = 2**27


def data_of(data: Data) -> list[ndarray]:
    arrays = [data] if isinstance(data, ndarray) else list(data)
    for each in arrays:
        if not isinstance(each, ndarray):
            raise TypeError(f"[runs] expects chx arrays as data, got {type(each).__name__}")
    if not arrays:
        raise ValueError("[runs] expects an array of data at least")
    return arrays


def rows_of(arrays: Sequence[ndarray]) -> int:
    rows = {a.shape[0] if a.ndim else None for a in arrays}
    if None in rows or len(rows) != 1:
        shapes = ", ".join(str(a.shape) for a in arrays)
        raise _core.DimensionError(f"[runs] expects data of as many rows each, got {shapes}")
    return cast(int, rows.pop())


def call(
    function: Callable[..., Any], arrays: Sequence[ndarray], rows: npt.NDArray[Any]
) -> tuple[Any, Any]:
    """Calls the function with these rows. What was recorded, and its result."""
    if not isinstance(function, (_programs.Jitted, _programs._Method)):
        function = _programs.jit(function)
    index = creation.array(rows.astype(np.int64), device=arrays[0].device)
    result = function(*[_core.take(a, index, axis=0) for a in arrays])
    jitted = function if isinstance(function, _programs.Jitted) else function._jitted
    with jitted._lock:
        if not jitted._recorded:
            raise ValueError("[runs] expects a function of chx.jit that keeps what it records")
        recorded = next(reversed(jitted._recorded.values()))  # what was used last
    return recorded, result


def outputs(result: Any, metrics: Sequence[str] | None) -> tuple[Metrics, list[ndarray]]:
    """The metrics' names and places among a step's arrays, and these."""
    outputs: list[ndarray] = []
    _programs._flatten(result, outputs, lambda number: None)
    if isinstance(result, dict):
        chosen = list(result) if metrics is None else list(metrics)
        named = [(key, result[key]) for key in chosen]
    else:
        if metrics is None:
            metrics = ["loss"] if len(outputs) == 1 else [f"output{i}" for i in range(len(outputs))]
        if len(metrics) > len(outputs):
            raise ValueError(
                f"[runs] expects names of at most {len(outputs)} results, got {metrics}"
            )
        named = list(zip(metrics, outputs))
    for name, value in named:
        if not isinstance(value, ndarray) or value.ndim != 0:
            raise _core.DimensionError(
                f"[runs] expects metrics to be arrays without dimensions, got {name!r} of "
                f"{getattr(value, 'shape', type(value).__name__)}"
            )
    places = [
        (str(name), next(i for i, output in enumerate(outputs) if output is value))
        for name, value in named
    ]
    return places, outputs


def values(
    recorded: Any, steps: int, schedule: Callable[[int], object] | None
) -> npt.NDArray[np.int64] | None:
    """What the numbers that vary are in all steps but the first: (steps - 1, numbers)."""
    if not recorded.numbers or steps == 1:
        return None
    if (steps - 1) * recorded.numbers > _MOST_VALUES:
        raise ValueError(
            f"[runs] expects at most {_MOST_VALUES // recorded.numbers} steps of a function with "
            f"{recorded.numbers} numbers that vary, got {steps}"
        )
    values = array.array("q")
    numbers = recorded.tape.run([])
    for number in range(1, steps):
        if schedule is not None:
            schedule(number)
        for slot in recorded.slots:
            values.extend(_programs._bits(value) for value in slot(numbers))
    return np.frombuffer(values, np.int64).reshape(steps - 1, recorded.numbers)


def rule(
    rule: StopRule, names: Metrics, evaluation_names: Metrics
) -> tuple[int, bool, int, float, int]:
    of_evaluation = rule.metric.startswith(EVALUATION)
    metric = rule.metric[len(EVALUATION) :] if of_evaluation else rule.metric
    among = [name for name, _ in (evaluation_names if of_evaluation else names)]
    if metric not in among:
        raise ValueError(f"[runs] expects a rule about one of {among}, got {rule.metric!r}")
    return rule.kind, of_evaluation, among.index(metric), rule.bound, rule.patience
