"""Gradients of functions that Python computes here: asked for by the daemon, checked as on NumPy."""

from __future__ import annotations

import contextlib
import threading

import chainer
from chainer import function_node, variable

import chx
from chx._compat import zip_strict
from chx.chainer import _devices
from chx.chainerx import _core

_Node = function_node.FunctionNode
_get_retained_inputs = _Node.get_retained_inputs
_get_retained_outputs = _Node.get_retained_outputs


class _Checks(threading.local):
    dtypes = True


_checks = _Checks()


@contextlib.contextmanager
def any_dtype():
    """Within it, gradients may have another dtype than their arrays: chainer.grad checks none."""
    before, _checks.dtypes = _checks.dtypes, False
    try:
        yield
    finally:
        _checks.dtypes = before


def record(function, inputs, outputs):
    """Connects what a function made of its inputs to their graphs.

    Args:
      function: A FunctionNode; what it said to retain is retained.
      inputs, outputs: Arrays or None. The outputs must be in no graph.
    """
    indexes = [
        list(function._input_indexes_to_retain or ()),
        list(function._output_indexes_to_retain or ()),
    ]
    function._is_chainerx_fallback_mode = True
    function._output_count = len(outputs)
    function._output_layouts = function._output_layouts or (None,) * len(outputs)
    _core._function_node_forward(function, inputs, outputs, *indexes)
    if not any(y is not None and y.is_backprop_required() for y in outputs):
        return
    # For who asks outside of backward(). Not in a graph: that holds the function.
    function._chx_retained = [
        [None if arrays[i] is None else arrays[i].as_grad_stopped() for i in of_which]
        for arrays, of_which in zip_strict((inputs, outputs), indexes)
    ]


def _retained_variables(nodes, indexes, arrays):
    """The variables of nodes where they are left, or new ones outside of the graph."""
    found = []
    for i, array in zip_strict(indexes, arrays):
        var = nodes[i] and nodes[i].get_variable_or_none()
        if var is None and array is not None:
            var = variable.Variable(array, requires_grad=False)
        found.append(var)
    return tuple(found)


def get_retained_inputs(self):
    """The variables of the inputs that forward() retained; in backward(), in the daemon's graph."""
    if not self._is_chainerx_fallback_mode:
        return _get_retained_inputs(self)
    if self._chainerx_retained_inputs is not None:
        return self._chainerx_retained_inputs
    if self._input_indexes_to_retain is None or self.outputs is None:
        return ()
    return _retained_variables(self.inputs, self._input_indexes_to_retain, self._chx_retained[0])


def get_retained_outputs(self):
    """The variables of the outputs that forward() retained; in backward(), in the daemon's graph."""
    if not self._is_chainerx_fallback_mode:
        return _get_retained_outputs(self)
    if self._chainerx_retained_outputs is not None:
        return self._chainerx_retained_outputs
    if self._output_indexes_to_retain is None or self.outputs is None:
        return ()
    nodes = [ref() for ref in self.outputs]
    return _retained_variables(nodes, self._output_indexes_to_retain, self._chx_retained[1])


def _variables(arrays):
    return tuple(
        [
            None if a is None else variable.Variable(a, requires_grad=a.is_backprop_required())
            for a in arrays
        ]
    )


def backward_chainerx(self, targets, output_grads, retained_inputs, retained_outputs):
    """What the daemon calls for the gradients of a function that fell back.

    Args:
      targets: Indices of the inputs whose gradients are wanted.
      output_grads, retained_inputs, retained_outputs: Arrays or None.

    Returns:
      An array or None for each target.

    Raises:
      TypeError, ValueError: backward() returned what is no gradient of its inputs.
    """
    self._chainerx_retained_inputs = _variables(retained_inputs)
    self._chainerx_retained_outputs = _variables(retained_outputs)
    device = self.chainerx_device
    recorded = chainer.using_config("enable_backprop", chx.is_backprop_required())
    with _devices.results_on(device.device), chainer.using_device(device), recorded:
        grads = _grads(self, tuple(targets), _variables(output_grads))
        arrays = [None if g is None else g._data[0] for g in grads]
        return [_checked(self, self.inputs[i], array) for i, array in zip_strict(targets, arrays)]


def _grads(self, targets, output_grads):
    """A variable or None for each target, by the method that the class has."""
    if self.backward_accumulate.__code__ is not _Node.backward_accumulate.__code__:
        # What comes to the inputs by other ways is added in the daemon.
        grads = self.backward_accumulate(targets, output_grads, (None,) * len(targets))
        return [*grads, *[None] * len(targets)][: len(targets)]  # as Chainer's zip takes them
    grads = self.backward(targets, output_grads)
    if chainer.is_debug():
        for g in grads:
            if not (g is None or isinstance(g, variable.Variable)):
                _refuse(self, f"variables, got {type(g).__name__}")
    if len(grads) == len(self.inputs):
        return [grads[i] for i in targets]
    if len(grads) != len(targets):
        counts = " or ".join(map(str, sorted({len(targets), len(self.inputs)})))
        _refuse(self, f"{counts} gradients, got {len(grads)}")
    return grads


def _refuse(self, what):
    raise ValueError(self._get_error_message(f"[{self.label}] expects backward() to return {what}"))


def _checked(self, node, grad):
    """A gradient, in the daemon. TypeError: it is of another dtype; ValueError: of another shape."""
    if grad is None:
        return None
    if _checks.dtypes or grad.shape != node.shape:
        variable._check_grad_type(self, node, True, grad)
    return self.chainerx_device.send(grad)


def adapt(chainer):
    _Node._chx_retained = ((), ())
    _Node._backward_chainerx = backward_chainerx
    _Node.get_retained_inputs = get_retained_inputs
    _Node.get_retained_outputs = get_retained_outputs
