"""The functions and the data of a run, as the daemon is told of them."""

from __future__ import annotations

import array
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Union, cast

import numpy as np
import numpy.typing as npt

from chx import _core, _programs
from chx._compat import TypeAlias
from chx._core import ndarray
from chx._data_files import FileArray
from chx._numpy import creation
from chx._runtime.containers import map_leaves
from chx._stop_rules import StopRule

Each: TypeAlias = Union[ndarray, FileArray]
Data: TypeAlias = Union[Each, Sequence[Each]]
Metrics: TypeAlias = "list[tuple[str, int]]"

EVALUATION = "evaluation/"
NO_EVENTS = 2**63  # from there on there are none
_MOST_VALUES = 2**27
_MANY = 256  # arrays of one operator
_MARKS = {"log_at": 1, "evaluate_at": 2, "pause_at": 4}


def data_of(data: Data) -> list[Each]:
    arrays = [data] if isinstance(data, (ndarray, FileArray)) else list(data)
    for each in arrays:
        if not isinstance(each, (ndarray, FileArray)):
            raise TypeError(f"[runs] expects chx arrays as data, got {type(each).__name__}")
    if not arrays:
        raise ValueError("[runs] expects an array of data at least")
    return arrays


def rows_of(arrays: Sequence[Each]) -> int:
    rows = {a.shape[0] if a.ndim else None for a in arrays}
    if None in rows or len(rows) != 1:
        shapes = ", ".join(str(a.shape) for a in arrays)
        raise _core.DimensionError(f"[runs] expects data of as many rows each, got {shapes}")
    return cast(int, rows.pop())


def call(
    function: Callable[..., Any], arrays: Sequence[Each], rows: npt.NDArray[Any]
) -> tuple[Any, Any]:
    """Calls the function with these rows. What was recorded, and its result."""
    if not isinstance(function, (_programs.Jitted, _programs._Method)):
        function = _programs.jit(function)
    index = creation.array(rows.astype(np.int64), device=arrays[0].device)
    result = function(
        *[
            a.load(rows) if isinstance(a, FileArray) else _core.take(a, index, axis=0)
            for a in arrays
        ]
    )
    jitted = function if isinstance(function, _programs.Jitted) else function._jitted
    with jitted._lock:
        if not jitted._recorded:
            raise ValueError("[runs] expects a function of chx.jit that keeps what it records")
        recorded = next(reversed(jitted._recorded.values()))  # what was used last
    return recorded, result


def augmented(augment: Callable[..., Any], step: Callable[..., Any]) -> Callable[..., Any]:
    def augmented_step(*rows: ndarray) -> Any:
        result = augment(*rows)
        return step(*result) if isinstance(result, (tuple, list)) else step(result)

    return augmented_step


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


class Steps(NamedTuple):
    """Those that the client has made itself, and the programs that repeat them."""

    whole: Any
    rest: Any  # for the rows that are left over; None: there are none
    metrics: Metrics
    first: list[ndarray]  # of each metric: (steps,), or without dimensions for one


def _stacked(values: Sequence[ndarray]) -> ndarray:
    if len(values) == 1:
        return values[0]
    parts = [_core.stack(values[i : i + _MANY]) for i in range(0, len(values), _MANY)]
    while len(parts) > 1:
        parts = [_core.concatenate(parts[i : i + _MANY]) for i in range(0, len(parts), _MANY)]
    return parts[0]


def make_steps(
    function: Callable[..., Any],
    arrays: Sequence[Each],
    batches: Sequence[npt.NDArray[Any]],
    metrics: Sequence[str] | None,
    schedule: Callable[[int], object] | None = None,
) -> Steps:
    """Calls the function with the rows of each minibatch; the last may have fewer than the others."""
    programs: dict[int, Any] = {}
    names: Metrics | None = None
    made: list[list[ndarray]] = []
    for number, rows in enumerate(batches):
        if schedule is not None:
            schedule(number)
        programs[len(rows)], result = call(function, arrays, rows)
        found, results = outputs(result, metrics)
        if names not in (None, found):
            raise ValueError(
                "[runs] expects the same results for minibatches of each size, got "
                f"{[name for name, _ in names or ()]} and {[name for name, _ in found]}"
            )
        names = found
        made.append([results[place] for _, place in found])
    whole, *rest = programs.values()
    first = [_stacked(each) for each in zip(*made)]
    return Steps(whole, rest[0] if rest else None, names or [], first)


def values(
    made: Steps,
    done: int,
    steps: int,
    per_epoch: int,
    schedule: Callable[[int], object] | None,
) -> npt.NDArray[np.int64] | None:
    """What the numbers that vary are in all steps but those that are done: (steps - done, numbers)."""
    programs = [made.whole] if made.rest is None else [made.whole, made.rest]
    width = max(recorded.numbers for recorded in programs)
    if not width or steps == done:
        return None
    if (steps - done) * width > _MOST_VALUES:
        raise ValueError(
            f"[runs] expects at most {_MOST_VALUES // width} steps of a function with "
            f"{width} numbers that vary, got {steps}"
        )
    values = array.array("q")
    tapes = [recorded.tape.run([]) for recorded in programs]
    for number in range(done, steps):
        if schedule is not None:
            schedule(number)
        which = len(programs) - 1 if (number + 1) % per_epoch == 0 else 0
        recorded = programs[which]
        for slot in recorded.slots:
            values.extend(_programs._bits(value) for value in slot(tapes[which]))
        values.extend([0] * (width - recorded.numbers))
    return np.frombuffer(values, np.int64).reshape(steps - done, width)


def given_rows(given: Any, rows: int) -> npt.NDArray[np.int64]:
    """What a caller says of the rows of each step: (steps, batch size)."""
    table = np.asarray(given)
    if table.ndim != 2 or table.dtype.kind not in "iu" or 0 in table.shape:
        raise ValueError(
            "[runs] expects rows as integers of (steps, batch size), got "
            f"{table.dtype}{table.shape}"
        )
    if table.min() < 0 or table.max() >= rows:
        raise ValueError(
            f"[runs] expects rows of 0 to {rows - 1}, got {table.min()} to {table.max()}"
        )
    return table.astype(np.int64)


def copies(arrays: Any) -> Any:
    """For jit, whose calls are one command each: no step of a run comes between two of the copies."""

    def copy(leaf: Any) -> Any:
        return leaf.as_grad_stopped().copy() if isinstance(leaf, ndarray) else leaf

    return map_leaves("weights", copy, arrays)


def steps_of(numbers: Sequence[int] | None) -> list[int]:
    return [] if numbers is None else [operator.index(number) for number in numbers]


def marks(steps: int, **lists: Sequence[int] | None) -> npt.NDArray[np.int64] | None:
    """The table of steps after which something is done beside the rest."""
    table: dict[int, int] = {}
    for name, numbers in lists.items():
        for number in steps_of(numbers):
            if not 1 <= number <= steps:
                raise ValueError(f"[runs] expects {name} of steps 1 to {steps}, got {number}")
            table[number] = table.get(number, 0) | _MARKS[name]
    return np.array(sorted(table.items()), np.int64) if table else None


def equal_weights(by: str) -> bool:
    """Whether an evaluation's minibatches count alike, whatever rows they have."""
    if by not in ("rows", "minibatches"):
        raise ValueError(f"[runs] expects weights by 'rows' or 'minibatches', got {by!r}")
    return by == "minibatches"


def event_number(start: int) -> int:
    number = operator.index(start)
    if number < 0:
        raise ValueError(f"[runs] expects the number of an event, 0 or more, got {number}")
    return min(number, NO_EVENTS)


def check_from(done: int, *lists: Sequence[int] | None) -> None:
    """That these steps are not among those that the client makes itself, but for the last of them."""
    early = [number for numbers in lists for number in steps_of(numbers) if number < done]
    if early:
        raise ValueError(
            f"[runs] expects evaluate_at and pause_at from step {done} on, got {early[0]}: start() "
            "makes the first epoch itself where rows are left over; drop_last=True leaves them out"
        )


def snapshots(every: int | None, seconds: float | None) -> tuple[int, float]:
    if every is not None and every < 1:
        raise ValueError(f"[runs] expects snapshots every 1 step at most, got {every}")
    if seconds is not None and not seconds > 0:
        raise ValueError(f"[runs] expects snapshot_seconds above 0, got {seconds}")
    return every or 0, seconds or 0.0


def rule(
    rule: StopRule, names: Metrics, evaluation_names: Metrics
) -> tuple[int, bool, int, float, int]:
    of_evaluation = rule.metric.startswith(EVALUATION)
    metric = rule.metric[len(EVALUATION) :] if of_evaluation else rule.metric
    among = [name for name, _ in (evaluation_names if of_evaluation else names)]
    if metric not in among:
        raise ValueError(f"[runs] expects a rule about one of {among}, got {rule.metric!r}")
    return rule.kind, of_evaluation, among.index(metric), rule.bound, rule.patience


def sent(table: npt.NDArray[np.int64] | None, device: Any) -> list[ndarray]:
    """A table in the daemon, if there is one."""
    return [] if table is None else [creation.array(table, device=device)]


def calls(made: Steps, data: Sequence[ndarray | FileArray], size: int) -> Any:
    """How the daemon is told of a step: the programs, and what they are called with."""
    rest = None if made.rest is None else made.rest.program
    arrays = [None if isinstance(each, FileArray) else each for each in data]
    in_files = [(each.path, each.name) for each in data if isinstance(each, FileArray)]
    return made.whole.program, arrays, size, made.metrics, rest, in_files, data[0].device


def make_evaluation(
    evaluate: tuple[Callable[..., Any], Data] | None, size: int | None
) -> tuple[Steps | None, Any]:
    """Calls an evaluation once for minibatches of each size; how the daemon is told of it, too."""
    if evaluate is None:
        return None, None
    function, data = evaluate
    arrays = data_of(data)
    every = np.arange(rows_of(arrays))
    size = len(every) if size is None else size
    if not 1 <= size <= len(every):
        raise ValueError(f"[runs] expects evaluate_batch_size of 1 to {len(every)}, got {size}")
    left = [every[len(every) - len(every) % size :]] if len(every) % size else []
    made = make_steps(function, arrays, [every[:size], *left], None)
    return made, calls(made, arrays, size)
