"""Chainer's summaries: all their numbers come from the daemon in one read."""

import collections

from chainer import reporter

import chx

DictSummary = reporter.DictSummary

_compute_mean = DictSummary.compute_mean
_make_statistics = DictSummary.make_statistics


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


def adapt(chainer):
    DictSummary.compute_mean = compute_mean
    DictSummary.make_statistics = make_statistics
