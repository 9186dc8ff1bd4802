"""Chainer's variables on the daemon's arrays: what ChainerX refuses, and gradients as on NumPy."""

from __future__ import annotations

import warnings

import chainer
from chainer import variable

import chx
from chx._compat import zip_strict
from chx.chainer import _graph, _walk

Variable = variable.Variable

_backward = Variable.backward
_addgrad = Variable.addgrad
_get_grad = Variable._get_grad
_ensure_grad_var = Variable._ensure_grad_var_up_to_date


def ensure_grad_var_up_to_date(self):
    if not self._has_chainerx_array:
        _ensure_grad_var(self)
        return
    self._grad = None
    grad = _graph.grad_of(self)
    if grad is None:
        self._grad_var = None
    elif self._grad_var is None or self._grad_var._data[0] is not grad:
        self._grad_var = Variable(grad, requires_grad=grad.is_backprop_required())


def set_chainerx_array(self, array, grad):
    """Takes an array that is in a graph as it is, of others a view. Integers have no gradient."""
    self._grad = None
    if array is not None:
        if array.is_backprop_required():
            if not self._requires_grad:
                raise ValueError(
                    "[Variable] expects an array outside of graphs, or requires_grad=True, got "
                    f"{array.dtype.name}{array.shape} of a graph and requires_grad=False"
                )
        else:
            array = array.view()
        if self._requires_grad and array.dtype.kind == "f":
            array.require_grad()
            if grad is not None:
                array.set_grad(grad)
    self._data = [array]
    self._formers = ()
    self._has_set_grad = False
    self._has_chainerx_array = True
    self._chainerx_nobp_array_cache = None
    self._chainerx_grad_cache = None
    self._chainerx_fallback_array = None
    node = getattr(self, "_node", None)
    if isinstance(node, _graph.Node):
        node.describe(array)
    else:
        self._node = None  # NumPy's: of a parameter that had no shape yet


def set_chainerx_grad(self, grad, from_grad_var):
    """Sets the gradient; one that is in no graph becomes a root of the variable's graph."""
    if grad is not None and not self._requires_grad:
        raise RuntimeError(
            "[grad] expects a variable with requires_grad=True, got requires_grad=False"
        )
    array = self._data[0]
    _graph.forget_former_grads(self)
    if array is None:
        if grad is not None:
            raise RuntimeError(
                "[grad] expects a variable with an array, got one that is not initialized"
            )
    elif _graph.is_connected(array):
        if grad is not None and not from_grad_var and not _graph.is_connected(grad):
            grad = grad.view().require_grad()
        array.set_grad(grad)
        self._has_set_grad = grad is not None


def get_grad(self):
    if not self._has_chainerx_array or not self._grad_valid:
        return _get_grad(self)
    grad = _graph.grad_of(self)
    if grad is None:
        self._chainerx_grad_cache = None
        return None
    cache = self._chainerx_grad_cache
    if cache is None or cache[0] is not grad:
        self._chainerx_grad_cache = cache = grad, grad.as_grad_stopped()
    return cache[1]


def backward(self, retain_grad=False, enable_double_backprop=False, loss_scale=None):
    """Adds gradients to the leaves that the variable was made of.

    It starts from the variable's gradient, or from ones. The graph is kept.

    Args:
      retain_grad: Whether variables between keep their gradients.
      enable_double_backprop: Whether the gradients can be differentiated again.
      loss_scale: What a gradient that is not set starts from. Those of leaves stay as large: it is
        noted on them, for optimizers to divide by.

    Raises:
      RuntimeError: In debug mode, a function made a NaN.
    """
    if not self._has_chainerx_array:
        _backward(self, retain_grad, enable_double_backprop, loss_scale)
        return
    array = self._data[0]
    loss_scale = None if loss_scale is None else float(loss_scale)
    node = _graph.node_of(self)
    if node.creator_node is not None and _can_walk([node]):
        gy = _graph.grad_of(self)
        if gy is None:
            gy = chx.full_like(array, 1.0 if loss_scale is None else loss_scale)
        _graph.set_grad(self, None)
        _walk.walk([(node, gy)], retain_grad, enable_double_backprop)
    elif retain_grad:
        _backward_retaining(self, node, enable_double_backprop, loss_scale)
    else:
        if loss_scale is not None and _graph.is_connected(array) and _graph.grad_of(self) is None:
            _graph.set_grad(self, chx.full_like(array, loss_scale))
        if _graph.is_connected(array):  # else nothing, as with Chainer's own arrays
            chx.backward(array, None, enable_double_backprop)
        if self._has_set_grad and array._is_chained():
            _graph.set_grad(self, None)
    _graph.note_loss_scale([node], loss_scale)
    self._grad_var = None


_unseen = set()


def _can_walk(nodes):
    if not _walk.watched():
        return False
    if _walk.is_recorded(nodes):
        return True
    if not _unseen:
        _unseen.add(True)
        warnings.warn(
            "functions that ran outside of debug mode and of function hooks are not seen by them "
            "in backward",
            RuntimeWarning,
            stacklevel=4,
        )
    return False


def _backward_retaining(self, node, double_backprop, loss_scale):
    array = self._data[0]
    leaves = [var for var in _graph.leaves([node]) if var is not self]
    before = [_graph.grad_of(var) for var in leaves]
    seed = _graph.grad_of(self)
    if seed is None:
        seed = chx.full_like(array, 1.0 if loss_scale is None else loss_scale)
    grads = _graph.grads(
        [array],
        leaves,
        enable_double_backprop=double_backprop,
        retain_grad=True,
        grad_outputs=[seed],
    )
    for var, old, grad in zip_strict(leaves, before, grads):
        if grad is not None:
            _graph.set_grad(var, grad if old is None else old + grad)
    _graph.retained_between([node])
    _graph.set_grad(self, seed)


def unchain(self):
    """Makes the variable a root: backpropagation stops there."""
    self.node.unchain()


def unchain_backward(self):
    """Makes roots of the variable and of all that it was made of, which frees what is behind."""
    node = self.node
    for function in _graph.creators([node]):
        function.unchain()
    node.unchain()


def retain_data(self):
    """Lets the node keep the array."""
    self.node.data = self.array if self._has_chainerx_array else self._data[0]


def addgrad(self, var):
    """Adds another variable's gradient to this one's, wherever that is."""
    if var.grad is not None and _is_remote(self) != _is_remote(var):
        other = Variable(self.device.send(var.array))
        other.grad = self.device.send(var.grad)
        var = other
    _addgrad(self, var)


def _is_remote(var):
    return isinstance(var.device, chainer.backend.ChainerxDevice)


def _set_creator(self, function):
    if function is None:
        self.node.unchain()
    elif self._has_chainerx_array and function is not self.node.creator_node:
        raise RuntimeError(
            "[creator] expects None or the function that made the variable, as the graph is the "
            f"daemon's, got {getattr(function, 'label', function)!r}"
        )
    else:
        self.node.creator_node = function


def adapt(chainer):
    Variable._ensure_grad_var_up_to_date = ensure_grad_var_up_to_date
    Variable._has_set_grad = False
    Variable._formers = ()  # nodes of arrays that it had before: see _graph.retire()
    Variable._get_grad = get_grad
    Variable._set_chainerx_grad = set_chainerx_grad
    Variable._set_chainerx_array = set_chainerx_array
    Variable.backward = backward
    Variable.unchain = unchain
    Variable.unchain_backward = unchain_backward
    Variable.retain_data = retain_data
    Variable.addgrad = addgrad
    Variable.set_creator = Variable.set_creator_node = _set_creator
    Variable.node = property(
        lambda self: _graph.node_of(self) if self._has_chainerx_array else self._node,
        doc="The variable's node in Chainer's graph.",
    )
    Variable.label = property(lambda self: self.node.label)
    Variable.rank = property(lambda self: self.node.rank)
    Variable.creator = property(lambda self: self.node.creator, _set_creator)
    Variable.creator_node = property(lambda self: self.node.creator_node, _set_creator)
