"""What Chainer reports of a daemon's arrays: numbers that come together, in one read."""

import collections

from chainer import reporter, variable
from chainer.training import extensions

import chx
from chx.chainer import _graph
from chx.optimizers._rules import operators

DictSummary = reporter.DictSummary

_copy_variable = reporter._copy_variable
_compute_mean = DictSummary.compute_mean
_make_statistics = DictSummary.make_statistics
_fail_on_non_number = extensions.FailOnNonNumber.__call__


def copy_variable(value):
    """A variable outside of its graph, so that the daemon may forget that; others as they are."""
    remote = isinstance(value, variable.Variable) and value._has_chainerx_array
    if remote and value._data[0] is not None:
        copied = _graph.make_variable(value._data[0].as_grad_stopped())
        copied._chainerx_name = value._chainerx_name
        return copied
    return _copy_variable(value)


def _fetched(values):
    """The values by their names; those that were in the daemon as NumPy's scalars."""
    groups = collections.defaultdict(list)
    for name, value in values.items():
        if isinstance(value, chx.ndarray):
            groups[value.device, value.dtype].append(name)
    for names in groups.values():
        stacked = chx.to_numpy(chx.stack([values[name] for name in names]))
        values.update(zip(names, stacked, strict=True))
    return values


def compute_mean(self):
    """Mean values by their names; numbers of the daemon's as NumPy's."""
    return _fetched(_compute_mean(self))


def make_statistics(self):
    """Means, and standard deviations by the names with .std; numbers of the daemon's as NumPy's."""
    return _fetched(_make_statistics(self))


def fail_on_non_number(self, trainer):
    """Raises RuntimeError if an optimizer's parameters are not finite; one read for each device."""
    by_device = collections.defaultdict(list)
    elsewhere = False
    for optimizer in trainer.updater.get_all_optimizers().values():
        for param in optimizer.target.params(include_uninit=False):
            if param._has_chainerx_array and param._data[0].dtype.kind == "f":
                by_device[param._data[0].device].append(param.array)
            else:
                elsewhere = True
    finite = [operators["all_finite"](params) for params in by_device.values()]
    if elsewhere or not all(map(bool, finite)):
        _fail_on_non_number(self, trainer)  # it says which


def adapt(chainer):
    reporter._copy_variable = copy_variable
    DictSummary.compute_mean = compute_mean
    DictSummary.make_statistics = make_statistics
    extensions.FailOnNonNumber.__call__ = fail_on_non_number
