"""What a trainer is going to do, iteration by iteration, found before its run begins.

Rows, epochs and triggers that depend on nothing else are the same whether iterations are made or not. So
the daemon is told once which rows it takes, and after which iterations the trainer has something to do.
"""

import copy
import math
import types

import chainer
import numpy
from chainer import training
from chainer.dataset import convert
from chainer.training import extensions, trigger as trigger_module, triggers

import chx

_SHIFTS = (
    extensions.ExponentialShift,
    extensions.InverseShift,
    extensions.LinearShift,
    extensions.MultistepShift,
    extensions.PolynomialShift,
    extensions.StepShift,
    extensions.WarmupShift,
)
_TRIGGERS = (
    triggers.IntervalTrigger,
    triggers.ManualScheduleTrigger,
    triggers.OnceTrigger,
    types.FunctionType,  # the one that never fires
)
# They fire only when their inner trigger does, and if what was reported has become better than ever.
_OF_VALUES = (triggers.BestValueTrigger, triggers.MaxValueTrigger, triggers.MinValueTrigger)
# They read what was reported, and nothing of the model.
SUMMARIES = (extensions.LogReport, extensions.PlotReport)
_OF_THE_GRAPH = (
    extensions.DumpGraph,
    extensions.ParameterStatistics,
    extensions.VariableStatisticsPlot,
)


def refuse(what):
    return ValueError(
        f"[remote_trainer] expects {what}: Trainer.run() does without the daemon's loop"
    )


class Columns:
    """The arrays of a dataset, as concat_examples would put its examples together."""

    def __init__(self, arrays, names=None, is_tuple=False):
        self.arrays = arrays
        self._names = names
        self._is_tuple = is_tuple
        self.rows = len(arrays[0])

    @classmethod
    def of(cls, dataset):
        """Those of a dataset of arrays, or of a part of one.

        Raises:
          ValueError: it is another kind of dataset.
        """
        datasets = chainer.datasets
        if isinstance(dataset, (numpy.ndarray, chx.ndarray)) and dataset.ndim > 0:
            return cls([dataset])
        if type(dataset) is datasets.TupleDataset:
            return cls([cls._array_of(each) for each in dataset._datasets], is_tuple=True)
        if type(dataset) is datasets.DictDataset:
            each = dataset._datasets
            return cls([cls._array_of(each[name]) for name in each], names=list(each))
        if type(dataset) is datasets.SubDataset:
            whole = cls.of(dataset._dataset)
            order = range(whole.rows) if dataset._order is None else dataset._order
            rows = numpy.asarray(order, numpy.int64)[dataset._start : dataset._finish]
            whole.arrays = [
                array.take(chx.array(rows, device=array.device), axis=0)
                if isinstance(array, chx.ndarray)
                else array[rows]
                for array in whole.arrays
            ]
            whole.rows = len(rows)
            return whole
        if isinstance(dataset, datasets.TransformDataset):
            raise refuse(
                "arrays as a dataset, got a TransformDataset, whose function is called in this "
                "process for each example"
            )
        raise refuse(f"a dataset of arrays, as TupleDataset has them, got {type(dataset).__name__}")

    @classmethod
    def _array_of(cls, dataset):
        columns = cls.of(dataset)
        if columns._is_tuple or columns._names is not None:
            raise refuse("a dataset of arrays, got a dataset of datasets")
        return columns.arrays[0]

    def send(self, device):
        """Has the arrays on a device of the daemon.

        Raises:
          ValueError: `device` is none, and they are not there already.
        """
        if device is not None:
            self.arrays = [device.send(array) for array in self.arrays]
        if not all(isinstance(array, chx.ndarray) for array in self.arrays):
            raise refuse("data on a device of the daemon, or an updater with one")

    def call(self, function, arrays):
        """Calls a function with minibatches, as updaters and evaluators do."""
        if self._names is not None:
            return function(**dict(zip(self._names, arrays)))
        return function(*arrays)


def has_columns(iterator, converter):
    """Why an iterator's minibatches are not rows of arrays; None: they are."""
    if type(iterator) is not chainer.iterators.SerialIterator:
        return f"a SerialIterator, got {type(iterator).__name__}"
    if converter is not convert.concat_examples:
        return "minibatches made by concat_examples, got another converter"
    return None


def is_each_iteration(trigger):
    return (
        type(trigger) is triggers.IntervalTrigger
        and trigger.unit == "iteration"
        and trigger.period == 1
    )


def is_decided(trigger):
    """Whether it depends on nothing but the iteration and the epoch."""
    if type(trigger) is types.FunctionType:
        return trigger is trigger_module._never_fire_trigger
    return type(trigger) in _TRIGGERS


def is_time(trigger):
    return type(trigger) is triggers.TimeTrigger


def _check_trigger(trigger, owner):
    inner = trigger._interval_trigger if type(trigger) in _OF_VALUES else trigger
    if not is_decided(inner) and not is_time(trigger):
        raise refuse(
            "triggers of Chainer's that depend on the iteration, the epoch, the time or what is "
            f"reported, got {_name(inner)} of {owner}"
        )


def _name(trigger):
    return type(trigger).__name__


def value_of(trigger):
    """What a trigger makes summaries of, as its name; None: of nothing."""
    if type(trigger) in _OF_VALUES:
        return trigger._key
    return trigger.monitor if type(trigger) is triggers.EarlyStoppingTrigger else None


class _Sometimes:
    """Fires when a TimeTrigger is asked: each time a thousandth more iterations have been made."""

    def __init__(self):
        self._next = 0

    def __call__(self, trainer):
        iteration = trainer.updater.iteration
        if iteration < self._next:
            return False
        self._next = iteration + max(1, iteration // 1000)
        return True


def _candidate(trigger):
    """Fires after all iterations after which a trigger may fire."""
    if is_time(trigger):
        return _Sometimes()
    return copy.copy(trigger._interval_trigger if type(trigger) in _OF_VALUES else trigger)


class Kind:
    """What becomes of an extension."""

    SHIFT = "its calls are made in advance"
    EVALUATION = "the daemon evaluates"
    CHECK = "the daemon checks after each step"
    READER = "is called while the run goes on"
    OTHER = "is called while the run is paused"


def _is_observe_lr(extension):
    closure = getattr(extension, "__closure__", None) or ()
    modules = [getattr(cell.cell_contents, "__module__", None) for cell in closure]
    own = extensions.observe_lr.__module__
    return getattr(extension, "__module__", None) == own and own in modules


def _can_evaluate(evaluator):
    iterators = evaluator._iterators
    iterator = iterators.get("main")
    return (
        type(evaluator) is extensions.Evaluator
        and list(iterators) == ["main"]
        and has_columns(iterator, evaluator.converter) is None
        and not iterator.repeat
        and iterator.order_sampler is None
        and evaluator.eval_hook is None
        and not evaluator._progress_bar
    )


def kind_of(name, entry, optimizer):
    """The kind of an extension.

    Raises:
      ValueError: it cannot be called at all.
    """
    extension = entry.extension
    _check_trigger(entry.trigger, f"extension {name!r}")
    if type(extension) in _SHIFTS:
        if not is_decided(entry.trigger):
            raise refuse(
                "schedules whose triggers depend on the iteration or the epoch, got "
                f"{_name(entry.trigger)} of extension {name!r}"
            )
        if extension._optimizer not in (None, optimizer):
            raise refuse(f"extension {name!r} to change the optimizer that is trained")
        return Kind.SHIFT
    if type(extension) in SUMMARIES:
        _check_trigger(extension._trigger, f"extension {name!r}")
        return Kind.READER
    if type(extension) is extensions.PrintReport:
        return Kind.READER if isinstance(extension._log_report, str) else Kind.OTHER
    if type(extension) is extensions.ProgressBar or _is_observe_lr(extension):
        return Kind.READER
    if type(extension) is extensions.FailOnNonNumber and is_each_iteration(entry.trigger):
        return Kind.CHECK
    if isinstance(extension, extensions.Evaluator) and _can_evaluate(extension):
        return Kind.EVALUATION if is_decided(entry.trigger) else Kind.OTHER
    if isinstance(extension, _OF_THE_GRAPH):
        raise refuse(
            f"no extension {name!r}: an iteration's graph and gradients are not known here"
        )
    return Kind.OTHER


class Plan:
    """Iterations, counted from 1 as steps of the run; `begin` were made before it.

    Args:
      trainer: whose extensions have been initialized.
      entries: (name, entry) of its extensions, in the order of their calls.
      kinds: of each, by name.
    """

    def __init__(self, trainer, entries, kinds):
        updater = trainer.updater
        self._iterator = iterator = updater.get_iterator("main")
        self._state = iterator._state
        self._previous = iterator._previous_epoch_detail
        self._size = iterator._epoch_size
        self.batch_size = iterator.batch_size
        self.begin = updater.iteration
        self._entries = entries
        self._kinds = kinds
        self.fired = {}
        """Of steps after which something is called: names of the extensions whose triggers fire."""
        self.shifts = {}
        """Of steps: the extensions that change the optimizer then."""
        self.undecided = {name for name, entry in entries if not is_decided(entry.trigger)}
        """Names of extensions whose triggers only may fire after those steps."""
        self.checks = set()
        """Steps after which the trainer may stop early."""
        self.steps = self._simulate(trainer)
        self._orders = [self._state.order]  # of epochs
        self._last_drawn = 0  # the step that comes to the end of the last of them

    def _epochs(self, step):
        """Epochs that have ended, and the position in the next one."""
        return divmod(self._state.current_position + step * self.batch_size, self._size)

    def is_new_epoch(self, step):
        return self._epochs(step)[0] != self._epochs(step - 1)[0]

    def _epoch_detail(self, step):
        epochs, position = self._epochs(step)
        return self._state.epoch + epochs + position / self._size

    def _simulate(self, trainer):
        """Calls copies of the triggers as the trainer would; the number of steps."""
        updater = types.SimpleNamespace()
        seen = types.SimpleNamespace(updater=updater, stop_trigger=trainer.stop_trigger)
        stop, check = copy.copy(trainer.stop_trigger), trigger_module._never_fire_trigger
        if type(stop) is triggers.EarlyStoppingTrigger:
            stop, check = copy.copy(stop._max_trigger), copy.copy(stop._interval_trigger)
        calls = []
        for name, entry in self._entries:
            extension, kind = entry.extension, self._kinds[name]
            # What observe_lr() reports is another number after each step.
            follows = kind in (Kind.READER, Kind.CHECK) and is_each_iteration(entry.trigger)
            follows = follows and not _is_observe_lr(extension)
            inner = _candidate(extension._trigger) if type(extension) in SUMMARIES else None
            interval = getattr(extension, "_update_interval", None)
            calls.append(
                (name, kind, _candidate(entry.trigger), follows, inner, interval, extension)
            )
        self.following = {call[0] for call in calls if call[3]}
        """Names of extensions that would be called after each step."""
        step = 0
        while True:
            epochs, position = self._epochs(step)
            updater.iteration = self.begin + step
            updater.epoch = self._state.epoch + epochs
            updater.epoch_detail = updater.epoch + position / self._size
            updater.previous_epoch_detail = (
                self._epoch_detail(step - 1) if step else self._iterator.previous_epoch_detail
            )
            updater.is_new_epoch = step > 0 and self.is_new_epoch(step)
            if step:
                fired = self._fire(step, seen, calls)
                if check(seen):
                    self.checks.add(step)
                    self.fired[step] = fired
            if stop(seen):
                break
            step += 1
        if step:
            self.fired[step] = fired
        return step

    def _fire(self, step, seen, calls):
        fired, shifts, is_stop = set(), [], False
        for name, kind, trigger, follows, inner, interval, extension in calls:
            if not trigger(seen):
                continue
            fired.add(name)
            if kind == Kind.SHIFT:
                shifts.append(extension)
            elif not follows:
                is_stop = True
            elif inner is not None:
                is_stop = inner(seen) or is_stop
            elif interval is not None:
                is_stop = is_stop or seen.updater.iteration % interval == 0
        if shifts:
            self.shifts[step] = shifts
        if is_stop:
            self.fired[step] = fired
        return fired

    def stops(self):
        """Steps after which something is called, in ascending order; the last is one of them."""
        return sorted(self.fired)

    def calls_after(self, step):
        """Names of extensions that are called then, if it is a stop or the end."""
        return self.fired.get(step, self.following)

    def pauses_after(self, step):
        return step in self.checks or any(
            self._kinds[name] == Kind.OTHER for name in self.fired[step]
        )

    def draw(self, steps):
        """Draws the orders of epochs up to the last of so many steps, as the iterator would."""
        sampler, begin, size = (
            self._iterator.order_sampler,
            self._state.current_position,
            self._size,
        )
        order = self._orders[-1]
        for epoch in range(len(self._orders), (begin + steps * self.batch_size) // size + 1):
            if order is not None:
                # Where the iterator is when its minibatch comes to the end of an epoch.
                step = math.ceil((epoch * size - begin) / self.batch_size)
                position = begin + (step - 1) * self.batch_size
                order = sampler(order, 0 if self._last_drawn == step else position % size)
                if len(order) != size:
                    raise refuse(f"orders of {size} rows of its order_sampler, got {len(order)}")
                self._last_drawn = step
            self._orders.append(order)

    def rows(self):
        """Those of each step: (steps, rows)."""
        self.draw(self.steps)
        begin, end = self._state.current_position, self.steps * self.batch_size
        end += begin
        orderly = self._state.order is None
        taken = numpy.arange(end) % self._size if orderly else numpy.concatenate(self._orders)
        return taken[begin:end].astype(numpy.int64).reshape(self.steps, self.batch_size)

    def go_to(self, step, updater):
        """Has the updater and its iterator where they are after a step."""
        updater.iteration = self.begin + step
        if step == 0:
            self.restore()
            return
        epochs, position = self._epochs(step)
        self._iterator._state = type(self._state)(
            position, self._state.epoch + epochs, self.is_new_epoch(step), self._orders[epochs]
        )
        self._iterator._previous_epoch_detail = self._epoch_detail(step - 1)

    def restore(self):
        """Has the iterator where it was before all steps."""
        self._iterator._state = self._state
        self._iterator._previous_epoch_detail = self._previous


def check(trainer):
    """What is known before anything is done.

    Raises:
      ValueError, RuntimeError: the trainer cannot be run so.
    """
    if trainer._done:
        raise RuntimeError("cannot run training loop multiple times")
    updater = trainer.updater
    if type(updater) is not training.updaters.StandardUpdater:
        raise refuse(f"a StandardUpdater, got {type(updater).__name__}")
    iterators, optimizers = updater._iterators, updater.get_all_optimizers()
    if list(iterators) != ["main"] or list(optimizers) != ["main"]:
        raise refuse("one iterator and one optimizer")
    why_not = has_columns(iterators["main"], updater.converter)
    if why_not:
        raise refuse(why_not)
    if not iterators["main"].repeat:
        raise refuse("an iterator that repeats its epochs")
    if not isinstance(optimizers["main"], chainer.GradientMethod):
        raise refuse(f"a GradientMethod, got {type(optimizers['main']).__name__}")
    stop = trainer.stop_trigger
    if type(stop) is triggers.EarlyStoppingTrigger:
        if not is_decided(stop._interval_trigger):
            raise refuse(
                f"a check_trigger in epochs or iterations, got {_name(stop._interval_trigger)}"
            )
        stop = stop._max_trigger
    if type(stop) is triggers.ManualScheduleTrigger:
        done = updater.iteration if stop.unit == "iteration" else updater.epoch_detail
        if max(stop.points) <= done:
            raise refuse(
                f"a stop trigger that is still to fire, got points up to {max(stop.points)}"
            )
    elif type(stop) is not triggers.IntervalTrigger:
        raise refuse(
            "a stop trigger in epochs or iterations, or an EarlyStoppingTrigger whose max_trigger is "
            f"one, as it has the rows of all iterations in advance, got {_name(stop)}"
        )
