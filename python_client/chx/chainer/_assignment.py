"""`variable.array = array`, where either may be the daemon's.

As on NumPy, the array becomes the variable's: what else it is used for sees what is written to it.
The variable's gradient stays, if it is one of such an array.

To the daemon's graph the new array is another leaf. Functions that the variable went into know the
former one: the gradients that they will give it are the variable's, too.
"""

import chainer
from chainer import backend, variable

import chx
from chx.chainer import _copies, _graph

Variable = variable.Variable

_set_array = Variable._set_array
_to_device = Variable._to_device


def set_array(self, array, *, layout_check=True):
    """Replaces a variable's array, and that of its shallow copies.

    Raises:
      ValueError: Functions made the variable, and gradients would no longer reach them; or the
        array is in a graph.
    """
    to_daemon = isinstance(array, chx.ndarray)
    if self._layout is not None or not (to_daemon or self._has_chainerx_array):
        _set_array(self, array, layout_check=layout_check)
        return
    if self._has_chainerx_array and array is self.array:
        return  # param.array -= x wrote to it
    others = _copies.sharers(self)
    for var in (self, *others):
        _check(var, array)
    for var in (self, *others):
        _assign(var, array, to_daemon)
    for var in others:
        if self._has_chainerx_array:
            _copies.share(self, var)
        else:
            var._data = self._data  # what NumPy's share


def _check(var, array):
    old = var._data[0]
    if old is None:
        return
    made = old._is_chained() if var._has_chainerx_array else var._node.creator_node is not None
    if made:
        raise ValueError(
            "[array] expects a variable that no function made, as gradients could not go on to what "
            f"it was made of, got one that {getattr(var.creator, 'label', 'a function')} made"
        )
    if isinstance(array, chx.ndarray) and _graph.is_connected(array):
        raise ValueError(
            "[array] expects an array outside of graphs: use as_grad_stopped(), got "
            f"{array.dtype.name}{array.shape} of a graph"
        )


def _assign(var, array, to_daemon):
    grad = _grad_for(var, array)
    device = var.device if array is None else None  # the array's
    if to_daemon or array is None:
        formers = _graph.retire(var, array) if var._has_chainerx_array else ()
        if not var._has_chainerx_array:
            var._chainerx_name = var._node.name
            var._node._variable = _graph.nobody  # graphs of NumPy's end there
            var._node = None
        var._set_chainerx_array(array, grad)
        var._formers = formers
        if array is None:
            var._node = variable.VariableNode(var, var._chainerx_name)
        elif not _graph.is_connected(array):
            var._chainerx_nobp_array_cache = array
    else:
        var._clear_chainerx()
        var._has_chainerx_array = False
        var._data = [array]
        var._node = variable.VariableNode(var, var._chainerx_name)
        var._grad, var._grad_var = grad, None
    var._device = device


def _grad_for(var, array):
    """The variable's gradient where the array is; None if it cannot be that array's."""
    if var._has_chainerx_array:
        grad = _graph.grad_of(var)
    else:
        grad = var._grad if var._grad_var is None else var._grad_var._data[0]
    if grad is None or array is None or not var._requires_grad:
        return None
    if grad.shape != array.shape or grad.dtype != array.dtype:
        return None
    return backend.get_device_from_array(array).send(grad)


def to_device(self, device, allow_unchaining):
    """Moves a variable. One that no function made stays a leaf, whose gradients end there."""
    device = chainer.get_device(device)
    array = self._data[0]
    if (
        self._has_chainerx_array
        and isinstance(device, backend.ChainerxDevice)
        and array is not None
        and array.device is not device.device
        and not array._is_chained()
    ):
        _assign(self, device.send(self.array), True)
        self._device = device
    else:
        _to_device(self, device, allow_unchaining)


def adapt(chainer):
    Variable._set_array = set_array
    Variable._to_device = to_device
