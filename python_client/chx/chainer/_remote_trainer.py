"""A chainer.training.Trainer whose iterations are a run of the daemon's (chx.runs).

The daemon has the data, and repeats a recording of one iteration. It tells of the iterations after which
extensions are called, and what was reported in those between. This process calls the extensions, with the
trainer, its updater and optimizer as they would be then. Extensions that read or change anything beside
what was reported are called while the run is paused.
"""

import contextlib
import os
import sys
import time
import traceback

import chainer
import numpy
from chainer import reporter as reporter_module

import chx
from chx import _core, runs
from chx.chainer import _jit_updaters, _optimizers, _remote_plans
from chx.chainer._remote_plans import Columns, Kind, Plan
from chx.optimizers._rules import operators

_FINITE = "all parameters are finite"  # a metric beside those that are reported
_GO_ON, _STOP = 0, 2
# So many events of stops at most between two pauses: a run keeps many more.
_STOPS_AT_ONCE = 1000


def _reported(observation, dtypes):
    """The numbers among what was reported in a recording, as its results."""
    metrics = {}
    for name, value in observation.items():
        array, is_variable = _jit_updaters._recordable(name, value)
        if array.ndim == 0:
            metrics[name] = array
            dtypes[name] = array.dtype, is_variable
    return metrics


def _observed(metrics, dtypes):
    """What a step or an evaluation has reported, as numbers of this process."""
    values = {}
    for name, value in metrics.items():
        if name != _FINITE:
            dtype, is_variable = dtypes[name]
            array = numpy.array(value, dtype)
            values[name] = chainer.Variable(array, requires_grad=False) if is_variable else array
    return values


class _Evaluation:
    """What an Evaluator does, as a function of minibatches."""

    def __init__(self, evaluator):
        self._evaluator = evaluator
        self._function = evaluator.eval_func or evaluator._targets["main"]
        iterator = evaluator.get_iterator("main")
        self.columns = Columns.of(iterator.dataset)
        self.columns.send(evaluator.device)
        self.batch_size = min(iterator.batch_size, self.columns.rows)
        self._dtypes = {}

    def __call__(self, *arrays):
        evaluator, reporter = self._evaluator, reporter_module.Reporter()
        prefix = f"{evaluator.name}/" if evaluator.name is not None else ""
        for name, target in evaluator.get_all_targets().items():
            reporter.add_observer(prefix + name, target)
            reporter.add_observers(prefix + name, target.namedlinks(skipself=True))
        observation = {}
        test_mode, no_graph = chainer.using_config("train", False), chainer.no_backprop_mode()
        with reporter.scope(observation), test_mode, no_graph:
            self.columns.call(self._function, arrays)
        return _reported(observation, self._dtypes)

    def observed(self, metrics):
        # Means are numbers, whatever they are of.
        dtypes = {name: (dtype, False) for name, (dtype, _) in self._dtypes.items()}
        return _observed(metrics, dtypes)


class _Optimizer:
    """Where an optimizer and the extensions that change it are after each step of a run.

    Recording a run takes them to its end at once; this has them go there again, step by step.
    """

    def __init__(self, optimizer, plan, trainer, shifts):
        self._optimizer, self._plan, self._trainer = optimizer, plan, trainer
        self._counts_epochs = trainer.updater.auto_new_epoch
        params = list(optimizer.target.params())
        self._params = params
        rules = {id(p.update_rule): p.update_rule for p in params if p.update_rule is not None}
        self._rules = list(rules.values())
        owners = [optimizer, optimizer.hyperparam, *self._rules, *shifts]
        self._begin = [(vars(owner), dict(vars(owner))) for owner in owners]
        self._step = 0

    def go_back(self):
        for own, values in self._begin:
            own.update(values)
        self._step = 0

    def _count(self):
        self._optimizer.t += 1
        for rule in self._rules:
            if rule.enabled:
                rule.t += 1
                _optimizers._after(_optimizers._name_of(rule), rule)

    def shift(self, step):
        """Calls the extensions that change it after a step; counts its epoch before."""
        if self._counts_epochs and self._plan.is_new_epoch(step):
            self._optimizer.new_epoch(auto=True)
        for extension in self._plan.shifts.get(step, ()):
            extension(self._trainer)

    def go_to(self, step):
        """As after a step's update, and before the extensions that are called then."""
        while self._step < step:
            if self._step and self._step not in self._plan.fired:
                for extension in self._plan.shifts.get(self._step, ()):
                    extension(self._trainer)
            self._step += 1
            self._count()
            if self._counts_epochs and self._plan.is_new_epoch(self._step):
                self._optimizer.new_epoch(auto=True)

    def state(self):
        """What the run takes for granted: an extension that changes it is not heard."""
        return (
            dict(vars(self._optimizer.hyperparam)),
            [(id(p._data[0]), id(p.update_rule)) for p in self._params],
            [rule.enabled for rule in self._rules],
        )


class _Driver:
    """Calls a trainer's extensions as its run goes."""

    def __init__(self, trainer, entries, name):
        self._trainer, self._entries, self._name = trainer, entries, name
        updater = trainer.updater
        self._updater, self._optimizer = updater, updater.get_optimizer("main")
        self._model = self._optimizer.target
        self._kinds = self._kinds_of()
        self._evaluation = None
        self._dtypes = {}
        self._run = None

    def _kinds_of(self):
        kinds = {}
        for name, entry in self._entries:
            kind = _remote_plans.kind_of(name, entry, self._optimizer)
            if kind == Kind.EVALUATION and kind in kinds.values():
                kind = Kind.OTHER  # a run has one
            kinds[name] = kind
        return kinds

    def _of_kind(self, kind):
        return [entry.extension for name, entry in self._entries if self._kinds[name] == kind]

    def prepare(self):
        """Has the data in the daemon, and finds what is to be done when.

        Raises:
          ValueError: the data or the parameters are not for it.
        """
        updater = self._updater
        self._columns = Columns.of(updater.get_iterator("main").dataset)
        if not self._columns.rows:
            raise _remote_plans.refuse("data with rows")
        self._columns.send(updater.input_device)
        for evaluator in self._of_kind(Kind.EVALUATION):
            self._evaluation = _Evaluation(evaluator)
        if not isinstance(self._model.device, chainer.backend.ChainerxDevice):
            raise _remote_plans.refuse("a model on a device of the daemon")
        self._plan = Plan(self._trainer, self._entries, self._kinds)
        if any(not param.is_initialized for param in self._model.params()):
            # Those without a shape get one by a minibatch, after NumPy's random numbers for it.
            self._plan.draw(1)
            arrays = [
                array[: updater.get_iterator("main").batch_size] for array in self._columns.arrays
            ]
            with chainer.using_config("train", False), chainer.no_backprop_mode():
                self._columns.call(updater.loss_func or self._model, arrays)

    def start(self):
        """The run, whose first step is made; None: there is nothing to do.

        Raises:
          NotImplementedError: an iteration cannot be recorded; nothing has changed.
        """
        plan, optimizer = self._plan, self._optimizer
        if not plan.steps:
            return None
        for param in self._model.params():
            rule = param.update_rule
            if rule is not None and rule.enabled and param.is_initialized:
                with chx.no_backprop_mode():
                    rule._init_states(_optimizers._master_of(rule, param))
        self._positions = _Optimizer(optimizer, plan, self._trainer, self._of_kind(Kind.SHIFT))
        rules = [param.update_rule for param in self._model.params()]
        session = self._columns.arrays[0].device.backend._session
        counters = _jit_updaters.Counters([optimizer, *filter(None, rules)], session)
        snapshot = _jit_updaters._Snapshot(optimizer)
        try:
            run = self._start(session)
        except BaseException:
            self._positions.go_back()
            counters.restore()
            snapshot.restore()
            plan.restore()
            raise
        self._positions.go_back()
        return run

    def _start(self, session):
        plan, evaluation = self._plan, self._evaluation
        rows = plan.rows()
        stops = plan.stops()
        logs, evaluates, pauses = {plan.steps}, [], []
        for number, stop in enumerate(stops, 1):
            # What was reported in this step, and the means of those since the last one.
            logs |= {stop, stop - 1} - {0}
            if self._evaluates(stop):
                evaluates.append(stop)
            if plan.pauses_after(stop) or number % _STOPS_AT_ONCE == 0:
                pauses.append(stop)
        self._pauses = set(pauses)
        checks = bool(self._of_kind(Kind.CHECK))
        options = {}
        if evaluation is not None:
            options = {
                "evaluate": (evaluation, evaluation.columns.arrays),
                "evaluate_batch_size": evaluation.batch_size,
                "evaluate_at": evaluates,
                "evaluate_weights": "minibatches",
            }
        self._last_logged = 0
        return runs.start(
            self._step,
            self._columns.arrays,
            rows=rows,
            name=self._name,
            schedule=lambda number: self._positions.shift(number) if number else None,
            log_at=sorted(logs),
            pause_at=pauses,
            stop=[runs.below(_FINITE, 0.5)] if checks else [],
            session=session,
            **options,
        )

    def _step(self, *arrays):
        optimizer, observation = self._optimizer, {}
        loss_func = self._updater.loss_func or self._model
        with self._trainer.reporter.scope(observation):
            self._columns.call(lambda *a, **kw: optimizer.update(loss_func, *a, **kw), arrays)
        metrics = _reported(observation, self._dtypes)
        if self._of_kind(Kind.CHECK):
            arrays = [p.array for p in self._model.params() if p.array.dtype.kind == "f"]
            metrics[_FINITE] = operators["all_finite"](arrays)
        return metrics

    def _evaluates(self, stop):
        return any(self._kinds[n] == Kind.EVALUATION for n in self._plan.calls_after(stop))

    def drive(self, run):
        """Calls extensions until the run has ended.

        Raises:
          ChainerxError: a step has failed.
          RuntimeError: the run has ended otherwise, or its events are not all there.
        """
        self._run = run
        waiting = None  # for what else the daemon says of a stop: its metrics
        evaluated = {}
        for number, event in enumerate(run):
            if event.number != number:
                raise RuntimeError(
                    f"[remote_trainer] expects all events of run {self._name!r}, of which the "
                    "session had no memory to keep some"
                )
            if event.kind == "log":
                waiting = self._log(event, waiting)
                evaluated = {}
                if event.metrics.get(_FINITE, 1.0) < 1.0:
                    # The run ends with it; FailOnNonNumber raises.
                    self._visit(event.step, waiting or {}, evaluated, diverged=True)
                elif waiting is not None and not self._has_more(event.step):
                    self._visit(event.step, waiting, evaluated)
                    waiting = None
            elif event.kind == "evaluation":
                evaluated = self._evaluation.observed(event.metrics)
                if event.step not in self._pauses and event.step != self._plan.steps:
                    self._visit(event.step, waiting, evaluated)
                    waiting = None
            elif event.kind == "paused" and event.step in self._pauses:
                stops = waiting is not None and self._visit(event.step, waiting, evaluated)
                waiting = None
                _core._run_control(run._session, run.name, _STOP if stops else _GO_ON)
            elif event.kind == "ended":
                self._end(event, waiting, evaluated)

    def _has_more(self, stop):
        return stop in self._pauses or stop == self._plan.steps or self._evaluates(stop)

    def _log(self, event, waiting):
        """What was reported in the step, if it is a stop; else it counts for the summaries."""
        steps, self._last_logged = event.step - self._last_logged, event.step
        if event.step in self._plan.fired:
            return _observed(event.metrics, self._dtypes)
        for trigger in self._triggers_of_values():
            name = _remote_plans.value_of(trigger)
            if name in event.metrics:
                trigger._summary.add({name: (event.metrics[name], steps)})
        for name, entry in self._entries:
            extension = entry.extension
            if type(extension) not in _remote_plans.SUMMARIES or name not in self._plan.following:
                continue
            keys = getattr(extension, "_keys", getattr(extension, "_y_keys", None))
            extension._summary.add(
                {
                    key: (value, steps)
                    for key, value in event.metrics.items()
                    if key != _FINITE and (keys is None or key in keys)
                }
            )
        return waiting

    def _triggers_of_values(self):
        yield self._trainer.stop_trigger
        for _, entry in self._entries:
            yield entry.trigger
            if type(entry.extension) in _remote_plans.SUMMARIES:
                yield entry.extension._trigger

    def _go_to(self, step):
        self._positions.go_to(step)
        self._plan.go_to(step, self._updater)

    def _visit(self, step, observed, evaluated, diverged=False):
        """Calls the extensions of a step; whether the trainer stops after it."""
        trainer = self._trainer
        # Triggers have been called after each iteration, as far as they know. What was reported
        # in these is in their summaries.
        trainer.observation = {}
        self._plan.go_to(step - 1, self._updater)
        trainer.stop_trigger(trainer)
        if step > 1:
            for name, entry in self._entries:
                called = [entry.trigger]
                if (
                    name in self._plan.following
                    and type(entry.extension) in _remote_plans.SUMMARIES
                ):
                    called.append(entry.extension._trigger)
                for trigger in called:
                    if not _remote_plans.is_time(trigger):
                        trigger(trainer)
        self._go_to(step)
        trainer.observation = dict(observed)
        called = self._plan.calls_after(step)
        with trainer.reporter.scope(trainer.observation):
            for name, entry in self._entries:
                kind = self._kinds[name]
                fires = entry.trigger(trainer)  # it remembers where it was called
                if name not in called or (kind == Kind.CHECK and not diverged):
                    continue
                if name in self._plan.undecided and not fires:
                    continue
                if kind == Kind.EVALUATION:
                    reporter_module.report(evaluated)
                elif kind == Kind.OTHER:
                    self._call(name, entry.extension)
                else:
                    entry.extension(trainer)
        return trainer.stop_trigger(trainer)

    def _call(self, name, extension):
        before = self._positions.state()
        extension(self._trainer)
        if self._positions.state() != before:
            raise RuntimeError(
                f"[remote_trainer] expects extension {name!r} to leave the optimizer's "
                "hyperparameters and the parameters' arrays as they are: the run does not see it. "
                "Write to parameters in place, and change hyperparameters by Chainer's shifts"
            )

    def _end(self, event, waiting, evaluated):
        step = event.step
        if event.reason == "done":
            self._visit(step, waiting, evaluated)
        elif event.reason == "stopped":
            self._go_to(step)
        else:
            kind = _core.ChainerxError if event.reason == "error" else RuntimeError
            raise kind(f"run {self._name!r}: {event.message}")

    def stop(self):
        """Ends the run if it goes on."""
        if self._run is not None:
            # It may have ended in another way.
            with contextlib.suppress(ConnectionError, chx.ChainerxError, ValueError):
                self._run.stop()


def _handle(trainer, entries, error, show):
    """Tells the extensions of an error, as Trainer.run does."""
    if show:
        sys.stderr.write(
            f"Exception in main training loop: {error}\nTraceback (most recent call last):\n"
        )
        traceback.print_tb(error.__traceback__)
        sys.stderr.write(
            "Will finalize trainer extensions and updater before reraising the exception.\n"
        )
    for _, entry in entries:
        handler = getattr(entry.extension, "on_error", None)
        if handler:
            try:
                handler(trainer, error, error.__traceback__)
            except Exception as other:
                sys.stderr.write(f"Exception in error handler: {other}\n")


def run(trainer, name, show_loop_exception_msg):
    """chx.chainer.remote_trainer."""
    _remote_plans.check(trainer)
    entries = sorted(trainer._extensions.items(), key=lambda item: item[1].priority, reverse=True)
    driver = _Driver(trainer, entries, name)
    os.makedirs(trainer.out, exist_ok=True)
    trainer._start_at = time.perf_counter()
    try:
        for _, entry in entries:
            initialize = getattr(entry.extension, "initialize", None)
            if initialize and not getattr(entry.trigger, "finished", False):
                initialize(trainer)
        driver.prepare()
        if trainer.is_before_training:
            trainer.observation = {}
            with trainer.reporter.scope(trainer.observation):
                for _, entry in entries:
                    if entry.call_before_training:
                        entry.extension(trainer)
        started = driver.start()
    except BaseException:
        trainer._start_at = None
        raise
    try:
        if started is not None:
            driver.drive(started)
    except Exception as error:
        _handle(trainer, entries, error, show_loop_exception_msg)
        raise
    finally:
        driver.stop()
        for _, entry in entries:
            finalize = getattr(entry.extension, "finalize", None)
            if finalize:
                finalize()
        trainer.updater.finalize()
    trainer._final_elapsed_time = trainer.elapsed_time
    trainer._done = True
    return started
