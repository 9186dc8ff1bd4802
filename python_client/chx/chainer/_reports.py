"""What Chainer reports and checks of a daemon's arrays."""

import collections

from chainer import reporter, variable
from chainer.training import extensions

from chx.chainer import _graph
from chx.optimizers._rules import operators

_copy_variable = reporter._copy_variable
_fail_on_non_number = extensions.FailOnNonNumber.__call__


def copy_variable(value):
    """A variable outside of its graph, so that the daemon may forget that; others as they are."""
    remote = isinstance(value, variable.Variable) and value._has_chainerx_array
    if remote and value._data[0] is not None:
        copied = _graph.make_variable(value._data[0].as_grad_stopped())
        copied._chainerx_name = value._chainerx_name
        copied._chainerx_nobp_array_cache = copied._data[0]  # what its .array would view
        return copied
    return _copy_variable(value)


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
    extensions.FailOnNonNumber.__call__ = fail_on_non_number
