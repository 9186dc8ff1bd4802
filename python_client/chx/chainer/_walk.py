"""Backpropagation function by function, for who wants to look at each: hooks, NaN checks."""

from __future__ import annotations

import heapq

import chainer
from chainer import _backprop_utils

import chx
from chx._compat import zip_strict
from chx.chainer import _graph


def watched():
    """Whether somebody looks at every function: what runs now has to be recorded for a walk."""
    return bool(chainer.get_function_hooks()) or chainer.is_debug()


def is_recorded(nodes):
    """Whether all functions behind some nodes ran while somebody looked."""
    return all(f._chx_arguments is not None for f in _graph.creators(nodes))


def contains_nan(array):
    """Whether a float array has NaNs; waits."""
    return array is not None and array.dtype.kind == "f" and bool(chx.isnan(array).any())


def check_nan(label, way, what, indexes, arrays):
    """Raises RuntimeError, in Chainer's words, if what a function computed has NaNs.

    Args:
      label: The function's.
      way: "forward" or "backward".
      what, indexes: What each of the arrays is.
    """
    for i, array in zip_strict(indexes, arrays):
        if contains_nan(array):
            raise RuntimeError(
                f"NaN is detected on {way} computation of {label}\n"
                f"[{label}] expects no NaN in debug mode, got some in {what} {i}"
            )


def hooks_of(function):
    """The hooks that see a function: the thread's, then its own."""
    hooks = chainer.get_function_hooks()
    if not hooks and not function._n_local_function_hooks:
        return ()
    hooks = dict(hooks)
    if function._n_local_function_hooks:
        hooks.update(function.local_function_hooks)
    return list(hooks.values())


def walk(roots, retain_grad, double_backprop):
    """Adds gradients to the leaves behind some nodes.

    Args:
      roots: Pairs of a node and the array of its gradient.
      retain_grad: Whether variables between keep theirs.
      double_backprop: Whether the gradients can be differentiated again.

    Raises:
      RuntimeError: In debug mode, a function made a NaN.
    """
    with chainer.using_config("enable_backprop", double_backprop):
        _Walk(retain_grad, double_backprop).run(roots)


class _Walk:
    def __init__(self, retain_grad, double_backprop):
        self.retain_grad = retain_grad
        self.double_backprop = double_backprop
        self.grads = {}
        self.heap = []
        self.queued = set()

    def run(self, roots):
        for node, gy in roots:
            self.add(node, gy)
        while self.heap:
            self.step(heapq.heappop(self.heap)[2])
        for node, grad in self.grads.values():
            self.finish(node, grad)

    def add(self, node, grad):
        _, before = self.grads.get(id(node), (node, None))
        self.grads[id(node)] = node, grad if before is None else before + grad
        function = node.creator_node
        if function is not None and id(function) not in self.queued:
            self.queued.add(id(function))
            heapq.heappush(self.heap, (-function.rank, len(self.queued), function))

    def step(self, function):
        outputs, grads = [], []
        for ref in function.outputs:
            node = ref()
            _, grad = self.grads.pop(id(node), (None, None))
            outputs.append(None if node is None else node._array)
            grads.append(grad)
            var = None if node is None else node.get_variable_or_none()
            if self.retain_grad and var is not None:
                _graph.set_grad(var, grad)
        # Each input once, however often it is given: its gradients are summed anyway.
        targets = {}
        for i, node in enumerate(function.inputs):
            if node.requires_grad:
                targets.setdefault(id(node), []).append(i)
        if not targets or all(g is None for g in grads):
            return
        in_data = tuple([node.data for node in function.inputs])
        out_grads = tuple([None if g is None else g.as_grad_stopped() for g in grads])
        hooks = hooks_of(function)
        for hook in hooks:
            hook.backward_preprocess(function, in_data, out_grads)
        indexes = [i for group in targets.values() for i in group]
        for i, grad in zip_strict(indexes, self.grads_of(function, indexes, outputs, grads)):
            if grad is not None:
                self.add(function.inputs[i], grad)
        for hook in hooks:
            hook.backward_postprocess(function, in_data, out_grads)

    def grads_of(self, function, indexes, outputs, grads):
        """Gradients of a function's own inputs, from those of its outputs."""
        given = [(y, g) for y, g in zip_strict(outputs, grads) if g is not None]
        try:
            result = chx.grad(
                [y for y, _ in given],
                [function._chx_arguments[i] for i in indexes],
                enable_double_backprop=self.double_backprop,
                grad_outputs=[g for _, g in given],
            )
        except Exception as error:
            _backprop_utils._reraise_with_stack(function, error)
        if chainer.is_debug():
            check_nan(function.label, "backward", "the gradient of input", indexes, result)
        return result

    def finish(self, node, grad):
        array = node._array
        if array is not None and array._is_chained():
            # Made by ChainerX's functions, which Chainer doesn't know.
            array.set_grad(grad)
            chx.backward([array], enable_double_backprop=self.double_backprop)
            return
        var = node.get_variable_or_none()
        if var is not None and var._requires_grad:
            before = _graph.grad_of(var)
            _graph.set_grad(var, grad if before is None else before + grad)
