"""Copies of variables on the daemon's arrays: of one array, and with gradients of their own.

On NumPy a shallow copy (`Link.copy()`) has the very array of its original, also one that either is
given later, and a gradient of its own; a deep or pickled one has a copy of both. In the daemon a
gradient belongs to an array of a graph: here a copy's is another leaf in the same memory.
"""

import weakref

from chainer import variable

from chx.chainer import _graph

Parameter = variable.Parameter
Variable = variable.Variable

_copy_to = Variable._copy_to
_reduce = Parameter.__reduce__


def sharers(var):
    """The other variables that are to have whatever array this one has."""
    group = _group_of(var)
    others = [ref() for ref in group or ()]
    return [v for v in others if v is not None and v is not var and _group_of(v) is group]


def _group_of(var):
    """References to the variables that share; None if the array was set otherwise since."""
    if var._sharing is None or var._sharing[1] is not var._data:
        return None
    return var._sharing[0]


def _join(var, group):
    # Whoever moves a variable elsewhere, which ends its sharing as on NumPy, replaces _data.
    var._sharing = group, var._data


def share(source, target):
    """Lets a variable, which has the same array, have whatever array another one is given later."""
    group = _group_of(source)
    if group is None:
        group = [weakref.ref(source)]
        _join(source, group)
    group[:] = [ref for ref in group if ref() is not None and ref() is not target]
    group.append(weakref.ref(target))
    _join(target, group)


def copy_to(self, target):
    """Makes target a variable with the same array and gradient; it is a root of the graph."""
    if not self._has_chainerx_array:
        return _copy_to(self, target)
    array, grad = self.array, _graph.grad_of(self)
    target.__dict__ = self.__dict__.copy()
    target._grad_var = None
    target._node = None  # of its own, made when it is asked for
    target._set_chainerx_array(array, grad)
    target._chainerx_nobp_array_cache = array  # both have the same object, as on NumPy
    if array is None:
        target._node = variable.VariableNode(target, self.name)  # as others without a shape yet
    share(self, target)
    return target


def reduce(self):
    """How a parameter is pickled, and copied deeply: with its gradient and its update rule."""
    if not self._has_chainerx_array:
        return _reduce(self)
    grad = _graph.grad_of(self)
    return recover, (
        self.array,
        self.name,
        None if grad is None else grad.as_grad_stopped(),
        self._grad_valid,
        self.initializer,
        self.update_rule,
        self.device,
        self._requires_grad,
    )


def recover(array, name, grad, grad_valid, initializer, update_rule, device, requires_grad):
    """What reduce() says, as a parameter again."""
    param = Parameter(initializer, name=name)
    param._requires_grad = requires_grad
    param.array = array
    param.to_device(device)
    if grad is not None:
        param.grad = grad
    param._grad_valid = grad_valid
    param.update_rule = update_rule
    return param


def adapt(chainer):
    Variable._sharing = None
    Variable._copy_to = copy_to
    Parameter.__reduce__ = reduce
