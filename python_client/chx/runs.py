"""Training that the daemon does by itself, whether its client is there or not: docs/runs.md.

run = chx.runs.start(step, data=(x, t), batch_size=64, epochs=10, shuffle=0)
for event in run:
    print(event.step, event.metrics)
"""

from __future__ import annotations

import builtins
import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from chx import _core, _data_files, _programs, _run_calls, _run_views
from chx._data_files import FileArray
from chx._run_calls import Data
from chx._runtime import recording as _recording
from chx._stop_rules import StopRule, above, below, nan, no_improvement

__all__ = [
    "Event",
    "FileArray",
    "Run",
    "StopRule",
    "above",
    "attach",
    "below",
    "files",
    "list",
    "nan",
    "no_improvement",
    "order",
    "start",
]

T = TypeVar("T")

_KINDS = ("started", "log", "evaluation", "paused", "resumed", "warning", "ended")
_STATES = ("running", "paused", "ended", "suspended")
_GO_ON, _PAUSE, _STOP = range(3)
_WAIT = 1.0  # seconds, of one question for events: Ctrl-C is heard between two
_NEVER = 2**62  # steps


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that has happened in a run."""

    number: int
    """Counted from 0. Some are missing where a run has had many: see docs/runs.md."""
    kind: str
    """started, log, evaluation, paused, resumed, warning or ended."""
    step: int
    """Steps that were done."""
    epoch: float
    """The same in epochs."""
    time: float
    """When it was, in seconds since 1970, by the daemon's clock."""
    metrics: Mapping[str, float]
    """Of log: means since the last one. Of evaluation: means over its minibatches."""
    reason: str
    """Of ended: done, stopped, rule, time limit, error, session or daemon."""
    message: str
    """Of ended and warning: more about it."""


class Run:
    """A run of a session, by its name. Made by start() and attach()."""

    def __init__(self, session: Any, name: str) -> None:
        self._session = session
        self.name = name
        info = self._info()
        self.steps: int = info[3]
        """That it is to make."""
        self.steps_per_epoch: int = info[4]
        self._metrics: tuple[str, ...] = info[5]
        self._evaluation_metrics: tuple[str, ...] = info[6]
        self._copies = _programs.jit(_run_calls.copies)

    def __repr__(self) -> str:
        _, state, step, steps, *_ = self._info()
        return f"<chx.runs.Run {self.name!r}: {_STATES[state]}, {step} of {steps} steps>"

    @property
    def state(self) -> str:
        """running, paused, ended, or suspended: while its daemon restarts."""
        return _STATES[self._info()[1]]

    @property
    def step(self) -> int:
        """Steps that are done."""
        return cast(int, self._info()[2])

    def __iter__(self) -> Iterator[Event]:
        """As watch(): all events."""
        return self.watch()

    def watch(self, start: int = 0) -> Iterator[Event]:
        """Events to the end; waits for those that are to come.

        Args:
          start: the number of the first one, `event.number + 1` to go on behind an event. Where it is
            not kept any more the next one that is comes first. The last event, "ended", comes in any
            case.

        Raises:
          ValueError: the number is negative.
        """
        return self._events(_run_calls.event_number(start), None)

    def events(self, start: int = 0) -> builtins.list[Event]:
        """Those that there are; does not wait.

        Args:
          start: as watch().

        Raises:
          ValueError: the number is negative.
        """
        return builtins.list(self._events(_run_calls.event_number(start), 0.0))

    def wait(self, timeout: float | None = None) -> Event:
        """Waits for the end of the run.

        Args:
          timeout: seconds; None: as long as it takes.

        Returns:
          The last event.

        Raises:
          ChainerxError: a step has failed.
          TimeoutError: it goes on.
        """
        end = None if timeout is None else time.monotonic() + timeout
        after = 0
        while True:
            left = _WAIT if end is None else min(_WAIT, end - time.monotonic())
            _, after, _, events = self._watch(after, max(left, 0))
            if events:
                after = events[-1][0] + 1
            if events and _KINDS[events[-1][1]] == "ended":
                event = self._event(events[-1])
                if event.reason == "error":
                    raise _core.ChainerxError(f"run {self.name!r}: {event.message}")
                return event
            if left <= 0:
                raise TimeoutError(f"run {self.name!r} has not ended within {timeout} s")

    def metrics(self) -> dict[str, npt.NDArray[Any]]:
        """What has been logged so far.

        Returns:
          "step", "epoch" and each metric: 1-d arrays, an element for each log event; and the same of
          evaluations under "evaluation/step", "evaluation/epoch", "evaluation/NAME".
        """
        events = self.events()
        result: dict[str, npt.NDArray[Any]] = {}
        for kind, prefix, names in (
            ("log", "", self._metrics),
            ("evaluation", _run_calls.EVALUATION, self._evaluation_metrics),
        ):
            if prefix and not names:
                continue
            chosen = [event for event in events if event.kind == kind]
            result[f"{prefix}step"] = np.array([event.step for event in chosen], np.int64)
            result[f"{prefix}epoch"] = np.array([event.epoch for event in chosen], np.float64)
            for name in names:
                values = [event.metrics[name] for event in chosen]
                result[prefix + name] = np.array(values, np.float64)
        return result

    def show_progress(self) -> Event:
        """wait() with a bar of tqdm: steps, and the last metrics. Needs chx[runs].

        Raises:
          ChainerxError: a step has failed.
          ImportError: tqdm is not installed.
        """
        return _run_views.show_progress(self)

    def plot(self, file: str | os.PathLike[str], metrics: Sequence[str] | None = None) -> None:
        """Draws what metrics() has over epochs, with Matplotlib. Needs chx[runs].

        Args:
          file: is written; its ending is the format: ".png", ".svg", ".pdf".
          metrics: their names, "evaluation/NAME" for those of evaluations; None: all.

        Raises:
          ImportError: Matplotlib is not installed.
          ValueError: there is no such metric.
        """
        _run_views.plot(self, file, metrics)

    def weights(self, arrays: T) -> T:
        """Copies of arrays, all as the same step of the run has left them, while it goes on.

        Args:
          arrays: of its session, such as load() gives: one, or dicts, lists and tuples of them.

        Returns:
          The same containers with the copies, which are in no graph.
        """
        copies: T = self._copies(arrays)
        return copies

    def pause(self) -> None:
        """Returns when the run stands between two steps, or has ended. It waits for resume()."""
        self._control(_PAUSE, ("paused", "ended"))

    def resume(self) -> None:
        """Goes on after pause(), or where `pause_at` has it wait."""
        self._control(_GO_ON, ("running", "ended"))

    def stop(self) -> None:
        """Ends the run after the step that it makes, and waits for that."""
        self._control(_STOP, ("ended",))

    def _control(self, order: int, states: tuple[str, ...]) -> None:
        after = _core._run_watch(self._session, self.name, _run_calls.NO_EVENTS, 0.0)[1]
        _core._run_control(self._session, self.name, order)
        while True:
            info, next_event, _, events = _core._run_watch(self._session, self.name, after, _WAIT)
            # It may have paused again by itself.
            resumed = order == _GO_ON and any(_KINDS[event[1]] == "resumed" for event in events)
            if resumed or _STATES[info[1]] in states:
                return
            after = next_event

    def _info(self) -> tuple[Any, ...]:
        return _core._run_watch(self._session, self.name, _run_calls.NO_EVENTS, 0.0)[0]

    def _watch(self, after: int, wait: float) -> tuple[Any, ...]:
        """The run, where its events end, how many there are not any more, and those from one on."""
        answer = _core._run_watch(self._session, self.name, after, wait)
        if not answer[3] and _STATES[answer[0][1]] == "ended" and answer[1] <= after:
            # It has been told, or another run has the name by now: its last event says so.
            answer = _core._run_watch(self._session, self.name, max(answer[1] - 1, 0), wait)
        return answer

    def _events(self, after: int, timeout: float | None) -> Iterator[Event]:
        while True:
            wait = _WAIT if timeout is None else timeout
            _, _, _, events = self._watch(after, wait)
            for event in map(self._event, events):
                yield event
                if event.kind == "ended":
                    return
                after = event.number + 1
            if timeout is not None and not events:
                return

    def _watched(self) -> Iterator[tuple[int, Event | None]]:
        """To the end: steps that are done, about once a second, and each new event."""
        after, ended = 0, False
        while not ended:
            info, after, _, events = self._watch(after, _WAIT)
            for event in map(self._event, events):
                after, ended = event.number + 1, event.kind == "ended"
                yield event.step, event
            yield info[2], None

    def _event(self, fields: tuple[Any, ...]) -> Event:
        number, kind, step, when, values, reason, text = fields
        names = self._evaluation_metrics if _KINDS[kind] == "evaluation" else self._metrics
        epoch = step / self.steps_per_epoch
        metrics = dict(zip(names, values))
        return Event(number, _KINDS[kind], step, epoch, when, metrics, reason, text)


def order(seed: int, epoch: int, rows: int) -> npt.NDArray[np.int64]:
    """The order in which an epoch of a shuffled run takes the rows of its data.

    Args:
      seed: as given to start().
      epoch: counted from 0.
      rows: of the data.

    Returns:
      int64 array (rows,): a permutation. Row i has the random number that is word i % 2 of 64 bits of
      Philox4x32-10's block with the key `seed` and the counter (i // 2, epoch); rows are sorted by it.
    """
    return np.frombuffer(_core._run_order(seed % 2**64, epoch % 2**32, rows), np.int64).copy()


def files(path: str, *, device: Any = None) -> dict[str, FileArray]:
    """Arrays in a file on the daemon's side, for `data` of start().

    The file lies below the folder that the daemon's operator has named (chxd --data-root). Rows of a
    minibatch are read when its step is made, so that the session has no more of it in memory.

    Args:
      path: relative to that folder: NAME.npy, NAME.npz without compression, or NAME.safetensors.
      device: where minibatches are; None: the default device.

    Returns:
      The arrays by their names; that of a .npy file is the file's without its ending.

    Raises:
      ValueError: there is no such file, or it is damaged; elements are in Fortran's order.
    """
    return _data_files.files(path, _core._get_device(device))


def start(
    step: Callable[..., Any],
    data: Data,
    *,
    batch_size: int | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    name: str = "run",
    shuffle: int | None = None,
    rows: npt.ArrayLike | None = None,
    drop_last: bool = False,
    augment: Callable[..., Any] | None = None,
    metrics: Sequence[str] | None = None,
    schedule: Callable[[int], object] | None = None,
    log_every: int | None = None,
    log_at: Sequence[int] | None = None,
    evaluate: tuple[Callable[..., Any], Data] | None = None,
    evaluate_every: int = 1,
    evaluate_at: Sequence[int] | None = None,
    evaluate_batch_size: int | None = None,
    evaluate_weights: str = "rows",
    pause_at: Sequence[int] = (),
    stop: Sequence[StopRule] = (),
    time_limit: float | None = None,
    snapshot_every: int | None = None,
    snapshot_seconds: float | None = None,
    session: Any = None,
) -> Run:
    """Starts a run: the daemon calls a step with minibatches, again and again.

    The first step is made here, by calling `step`, which records it if that is needed; its metrics
    count as the others do. So are those of the first epoch, if its last minibatch has fewer rows than
    the others. The daemon makes the others. It goes on with them when this process has ended, where
    the session has a name.

    Args:
      step: a function of chx.jit, or one for it. Is called as step(*minibatches), and gives arrays
        without dimensions: one, a tuple of them or a dict.
      data: arrays of as many rows each, or arrays in files(). A minibatch is `batch_size` rows of
        each.
      batch_size: rows of a minibatch; of an epoch's last one, those that are left over.
      epochs: how often all rows are taken.
      steps: how many steps there are, instead of `epochs`.
      name: of the run, in its session.
      shuffle: the seed of each epoch's order(); None: the rows are taken as they are.
      rows: int array (steps, batch size): the rows of each step, instead of `batch_size`, `epochs`,
        `steps` and `shuffle`. The same rows may be there again. Epochs are counted as if all rows were
        taken in turn.
      drop_last: leaves out the rows of each epoch that are left over.
      augment: a function of a minibatch's arrays that gives those for `step`: one, or a tuple or
        list. It is recorded with the step, and may draw random numbers: each step has others.
        Evaluations are made without it.
      metrics: the names of what `step` gives, in that order; of a dict, the keys that are metrics.
        None: "loss" for one array, all keys of a dict.
      schedule: is called with the number of each step, from 0, before what the optimizers and random
        numbers of the step need is read: it may set `optimizer.lr`. All calls are made here.
      log_every: steps that a log event has the means of; None: those of an epoch.
      log_at: steps, counted from 1, after which there is a log event, instead of `log_every`.
      evaluate: a function like `step` and its data. It may not draw random numbers or update
        anything. It is called once here, to record it, for minibatches of each size.
      evaluate_every: epochs between evaluations. There is one after the last step, too.
      evaluate_at: steps after which there is one, instead of `evaluate_every`.
      evaluate_batch_size: rows of the evaluation's minibatches; None: all.
      evaluate_weights: "rows": an evaluation's means are over rows; "minibatches": over minibatches,
        of which the last one may have fewer rows.
      pause_at: steps after which the run pauses by itself, until resume() is called.
      stop: rules that end the run before its last step.
      time_limit: seconds.
      snapshot_every: steps after each of which the daemon writes the session to its disk, so that the
        run goes on from there if the daemon crashes. Needs `chxd --state-dir`. None: only as often as
        the daemon writes all sessions.
      snapshot_seconds: the same by time, since the last one that it has asked for. Both may be given.
      session: whose arrays it works on; None: that of the default device.

    Returns:
      The run, which has begun.

    Raises:
      ValueError: an argument does not fit, or the session has a run of that name that goes on.
    """
    if _recording.current() is not None:
        raise _core.NotImplementedError("[jit] cannot record the start of a run")
    session = session or _default_session()
    arrays = _run_calls.data_of(data)
    count = _run_calls.rows_of(arrays)
    if rows is not None:
        if (batch_size, epochs, steps, shuffle) != (None, None, None, None):
            raise ValueError("[runs] expects rows, or batch_size, epochs, steps and shuffle")
        given = _run_calls.given_rows(rows, count)
        total, batch_size = given.shape
        per_epoch, done = max(count // batch_size, 1), 1
        taken = given[0]
    else:
        if batch_size is None or not 1 <= batch_size <= count:
            raise ValueError(f"[runs] expects a batch size of 1 to {count}, got {batch_size}")
        if (epochs is None) == (steps is None):
            raise ValueError("[runs] expects either epochs or steps")
        given = None
        has_rest = count % batch_size > 0 and not drop_last
        per_epoch = count // batch_size + has_rest
        total = per_epoch * epochs if epochs is not None else cast(int, steps)
        # Nobody but the client can record a step, and to record it is to make it.
        done = per_epoch if has_rest and total >= per_epoch else 1
        taken = order(shuffle, 0, count) if shuffle is not None else np.arange(count)
    if total < 1 or evaluate_every < 1:
        raise ValueError("[runs] expects 1 step and epoch at least")
    snapshots = _run_calls.snapshots(snapshot_every, snapshot_seconds)
    equal_weights = _run_calls.equal_weights(evaluate_weights)
    for rule in stop:
        if not isinstance(rule, StopRule):
            raise TypeError(f"[runs] expects chx.runs.below(...) or the like, got {rule!r}")
    marks = _run_calls.marks(total, log_at=log_at, evaluate_at=evaluate_at, pause_at=pause_at)
    _run_calls.check_from(done, evaluate_at, pause_at)
    if any(info[0] == name and _STATES[info[1]] != "ended" for info in _core._run_list(session)):
        raise ValueError(f"[runs] the session has a run {name!r} that has not ended")
    evaluated, evaluation = _run_calls.make_evaluation(evaluate, evaluate_batch_size)
    if augment is not None:
        step = _run_calls.augmented(augment, step)
    batches = [taken[i * batch_size :][:batch_size] for i in range(done)]
    made = _run_calls.make_steps(step, arrays, batches, metrics, schedule)
    if given is None and has_rest and made.rest is None:
        made = made._replace(rest=made.whole)  # there are too few steps to come to them
    values = _run_calls.values(made, done, total, per_epoch, schedule)
    device = arrays[0].device

    _core._run_start(
        session,
        name,
        _run_calls.calls(made, arrays, batch_size),
        total,
        None if shuffle is None else shuffle % 2**64,
        _run_calls.sent(None if given is None else given[1:], device),
        done,
        made.first,
        _run_calls.sent(values, device),
        log_every or (per_epoch if log_at is None else _NEVER),
        evaluation,
        _NEVER if evaluate_at is not None else evaluate_every * per_epoch,
        equal_weights,
        _run_calls.sent(marks, device),
        [
            _run_calls.rule(rule, made.metrics, evaluated.metrics if evaluated else [])
            for rule in stop
        ],
        0.0 if time_limit is None else time_limit,
        *snapshots,
    )
    return Run(session, name)


def attach(name: str = "run", *, session: Any = None) -> Run:
    """A run that another process may have started.

    Args:
      name: as given to start().
      session: None: that of the default device.

    Raises:
      ValueError: the session has no such run.
    """
    return Run(session or _default_session(), name)


def list(*, session: Any = None) -> builtins.list[Run]:
    """The session's runs, with those that have ended, oldest first."""
    session = session or _default_session()
    return [Run(session, info[0]) for info in _core._run_list(session)]


def _default_session() -> Any:
    return _core._get_device(None).backend._session
