"""Chainer's summaries and checks: all their numbers come from the daemon in one read."""

import collections

from chainer import reporter
from chainer.training import extensions

import chx
from chx.optimizers._rules import operators

DictSummary = reporter.DictSummary
FailOnNonNumber = extensions.FailOnNonNumber

_compute_mean = DictSummary.compute_mean
_make_statistics = DictSummary.make_statistics
_fail_on_nonnumber = FailOnNonNumber.__call__


def fetched(values):
    """A dict whose arrays without dimensions are NumPy's; one read for each device and dtype."""
    groups = collections.defaultdict(list)
    for name, value in values.items():
        if isinstance(value, chx.ndarray) and value.ndim == 0:
            groups[value.device, value.dtype].append(name)
    values = dict(values)
    for names in groups.values():
        numbers = chx.to_numpy(chx.stack([values[name].as_grad_stopped() for name in names]))
        values.update(zip(names, numbers, strict=True))
    return values


def compute_mean(self):
    """The means by name, as NumPy scalars where they were in the daemon."""
    return fetched(_compute_mean(self))


def make_statistics(self):
    """The means and deviations by name, as NumPy scalars where they were in the daemon."""
    return fetched(_make_statistics(self))


def fail_on_nonnumber(self, trainer):
    """Raises RuntimeError if a parameter has an infinity or NaN; one read for each device."""
    groups = collections.defaultdict(list)
    for optimizer in trainer.updater.get_all_optimizers().values():
        for param in optimizer.target.params():
            if not isinstance(param.array, chx.ndarray):
                _fail_on_nonnumber(self, trainer)
                return
            groups[param.array.device].append(param.array)
    if not all(bool(operators["all_finite"](arrays)) for arrays in groups.values()):
        _fail_on_nonnumber(self, trainer)  # it names the optimizer


def adapt(chainer):
    FailOnNonNumber.__call__ = fail_on_nonnumber
    DictSummary.compute_mean = compute_mean
    DictSummary.make_statistics = make_statistics
