"""chainer.grad and chainer.backward on the daemon's arrays."""

from __future__ import annotations

import chainer
from chainer import _backprop, function_node, variable

import chx
from chx._compat import zip_strict
from chx.chainer import _graph, _own_gradients

_grad = function_node.grad
_backward = _backprop.backward
_backprop_to_all = _backprop._backprop_to_all


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    grad_inputs=None,
    set_grad=False,
    retain_grad=False,
    enable_double_backprop=False,
    loss_scale=None,
):
    """d(outputs)/d(inputs), a list of variables; None where no output depends on the input.

    Args:
      outputs, inputs: Sequences of variables.
      grad_outputs: The outputs' gradients, or None for ones; elements may be None, too.
      grad_inputs: What is added to the results; elements may be None.
      set_grad: Whether the results become the inputs' gradients, too.
      retain_grad: Whether variables between keep their gradients.
      enable_double_backprop: Whether the results can be differentiated again.
      loss_scale: What the gradients that are not given start from.

    Raises:
      TypeError: Variables on the daemon are mixed with others.
    """
    on_daemon = [x is not None and x._has_chainerx_array for x in inputs or ()]
    if not on_daemon or not all(on_daemon) or not isinstance(outputs, (tuple, list)):
        return _grad(
            outputs,
            inputs,
            grad_outputs,
            grad_inputs,
            set_grad,
            retain_grad,
            enable_double_backprop,
            loss_scale,
        )
    _check_list("grad_outputs", grad_outputs, outputs)
    _check_list("grad_inputs", grad_inputs, inputs)
    scale = 1.0 if loss_scale is None else float(loss_scale)
    seeds = [
        chx.full_like(y._data[0], scale) if g is None else g._data[0]
        for y, g in zip_strict(outputs, grad_outputs or [None] * len(outputs))
    ]
    with _own_gradients.any_dtype():
        grads = _graph.grads(
            [y._data[0] for y in outputs],
            inputs,
            enable_double_backprop=enable_double_backprop,
            retain_grad=retain_grad,
            grad_outputs=seeds,
        )
    if retain_grad:
        _graph.retained_between([_graph.node_of(y) for y in outputs])
    return _added_and_set(grads, inputs, grad_inputs, set_grad, retain_grad)


def _added_and_set(grads, inputs, grad_inputs, set_grad, retain_grad):
    """Variables of grad()'s results, after `grad_inputs` were added and the inputs' gradients set."""
    for i, more in enumerate(grad_inputs or ()):
        if more is not None:
            grads[i] = more._data[0] if grads[i] is None else grads[i] + more._data[0]
    if set_grad or retain_grad:
        for x, g in zip_strict(inputs, grads):
            if set_grad or g is not None:
                _graph.set_grad(x, g)
    return [
        None if g is None else variable.Variable(g, requires_grad=g.is_backprop_required())
        for g in grads
    ]


def _check_list(name, given, like):
    """Raises an error unless `given` is None or a list as long as `like`."""
    if given is not None and not isinstance(given, (tuple, list)):
        raise TypeError(f"[grad] expects {name} to be a list, got {type(given).__name__}")
    if given is not None and len(given) != len(like):
        raise ValueError(f"[grad] expects {len(like)} {name}, got {len(given)}")


def backward(outputs, grad_outputs=None, **kwargs):
    """Adds gradients to the leaves that some variables were made of.

    Args:
      outputs: Variables.
      grad_outputs: Their gradients: variables or None. By default those that the outputs have, which
        are taken away from them.
      enable_double_backprop: Whether the gradients can be differentiated again.

    Raises:
      TypeError, ValueError: the lists don't match, or variables on the daemon are mixed with others.
    """
    on_daemon = [isinstance(y, variable.Variable) and y._has_chainerx_array for y in outputs]
    if not on_daemon or not all(on_daemon) or kwargs.keys() - {"enable_double_backprop"}:
        _backward(outputs, grad_outputs, **kwargs)
        return
    if grad_outputs is None:
        grad_outputs = [y.grad_var for y in outputs]
        for y in outputs:
            y.grad_var = None
    if len(outputs) != len(grad_outputs):
        raise ValueError(f"[backward] expects {len(outputs)} grad_outputs, got {len(grad_outputs)}")
    pairs = [(y, g._data[0]) for y, g in zip_strict(outputs, grad_outputs) if g is not None]
    _backward_from(pairs, kwargs.get("enable_double_backprop", False))


def _backward_from(pairs, double_backprop, loss_scale=None):
    """Adds gradients to leaves, starting from variables and the arrays of their gradients."""
    roots = []
    for y, g in pairs:
        array = y._data[0]
        if not _graph.is_connected(array):
            continue
        before = _graph.grad_of(y)
        # One that is set already is added to: a leaf's, or that of an output given twice.
        if before is not None and (not array._is_chained() or any(array is r for r in roots)):
            _graph.set_grad(y, before + g)
        else:
            _graph.set_grad(y, g)
        if not any(array is r for r in roots):
            roots.append(array)
    chx.backward(roots, enable_double_backprop=double_backprop)
    for y, _ in pairs:
        if y._data[0]._is_chained():
            _graph.set_grad(y, None)
    _graph.note_loss_scale([_graph.node_of(y) for y, _ in pairs], loss_scale)


def backprop_to_all(outputs, retain_grad, loss_scale):
    """chainer.backward() as Chainer's own functions call it, with nodes."""
    if not any(isinstance(node, _graph.Node) for node, _ in outputs):
        _backprop_to_all(outputs, retain_grad, loss_scale)
        return
    pairs = [(node.get_variable(), g._data[0]) for node, g in outputs if g is not None]
    _backward_from(pairs, chainer.config.enable_backprop, loss_scale)


def adapt(chainer):
    _backprop.backward = backward
    _backprop._backprop_to_all = backprop_to_all
    chainer.backward = backward
    function_node.grad = grad
    chainer.grad = grad
