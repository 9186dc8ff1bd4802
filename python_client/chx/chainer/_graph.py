"""Chainer's view of the graph: variable nodes and functions, beside the graph in the daemon.

The daemon's graph computes gradients. This one names what is in it: for creators, dumps, unchaining,
and for walks that call hooks or check values at every function (_walk.py). It holds no arrays, unless
functions were recorded for such a walk.
"""

from __future__ import annotations

import functools
import operator
import weakref

from chainer import variable

import chx
from chx._compat import zip_strict

is_connected = chx._core._backprop_ids


def nobody():
    """A reference to a variable that is gone."""
    return None


class Node(variable.VariableNode):
    """The node of a variable whose array is in the daemon.

    It dies with its variable and with the functions that the variable is an input of.
    """

    _array = None
    _leaf = None  # the array in the daemon's graph, if the variable has been given another one
    _consumers = ()  # references to functions, of what some function made
    _most_consumers = 8  # before those that are gone are looked for

    def __init__(self, var, array, requires_grad):
        # Not the base class's: that makes a view of the array.
        self._variable = nobody if var is None else weakref.ref(var)
        self._name = None if var is None else var._chainerx_name
        self._requires_grad = requires_grad
        self.describe(array)

    def describe(self, array):
        """Takes over the dtype and shape of an array, unless it is None."""
        if array is not None:
            self.dtype = array.dtype
            self.shape = array.shape

    @property
    def name(self):
        var = self._variable()
        return self._name if var is None else var._chainerx_name

    @name.setter
    def name(self, name):
        self._name = name
        var = self._variable()
        if var is not None:
            var._chainerx_name = name

    @property
    def data(self):
        """The array, outside of any graph; None if it is not retained."""
        if self._data is None and self._array is not None:
            return self._array.as_grad_stopped()
        return self._data

    @data.setter
    def data(self, data):
        self._data = data

    def get_variable(self):
        var = self._variable()
        if var is None and self._array is not None:
            var = make_variable(self._array)
            var._chainerx_name = self._name
            var._node = self
            self._variable = weakref.ref(var)
        return var if var is not None else super().get_variable()

    def unchain(self):
        """Makes the variable a root, here and in the daemon."""
        self.creator_node = None
        var = self._variable()
        array = self._array if var is None else var._data[0]
        if array is None:
            self._cut_consumers()
        elif is_connected(array):
            array.unchain()
            array.require_grad()  # as roots do

    def add_consumer(self, function):
        """Notes a function that the variable is an input of, while that is there."""
        if not self._consumers:
            self._consumers = []
        elif len(self._consumers) >= self._most_consumers:
            self._consumers = [ref for ref in self._consumers if ref() is not None]
            self._most_consumers = max(8, 2 * len(self._consumers))
        self._consumers.append(weakref.ref(function))

    def _cut_consumers(self):
        """In the daemon, cuts off what was made of a variable that is gone and of nothing else."""
        for ref in self._consumers:
            function = ref()
            if function is None or function.inputs is None or function.outputs is None:
                continue
            if any(x.requires_grad and not x._is_gone() for x in function.inputs):
                continue
            for output in function.outputs:
                node = output()
                var = node and node._variable()
                if var is not None and is_connected(var._data[0]):
                    var._data[0].unchain()
                elif node is not None:
                    node._cut_consumers()

    def _is_gone(self):
        return self._creator_node is None and self._variable() is None and self._array is None


def grad_of(var):
    """The array that is a variable's gradient, None if there is none. In no_backprop_mode, too."""
    array = var._data[0]
    if array is None or not is_connected(array):
        return None
    if var._formers:
        _collect(var)
    # Of arrays that don't require one, it was set or retained. Asking about others might wait.
    return array.grad if array.is_grad_required() or var._has_set_grad else None


def set_grad(var, grad):
    """Makes an array a variable's gradient as it is, in a graph or not."""
    forget_former_grads(var)
    var._data[0].set_grad(grad)
    var._has_set_grad = grad is not None
    var._grad_var = None
    var._grad_valid = True


def retire(var, array):
    """The former arrays of a leaf, as nodes, when it is given another array.

    Functions that it went into keep the array that it has now, as a leaf of the daemon's graph, and
    the node, which has the array as long as there are such functions.
    """
    node, leaf = var._node, var._data[0]
    var._node = None
    if array is None or leaf is None or not is_connected(leaf):
        return ()
    if leaf.shape != array.shape or leaf.dtype != array.dtype or leaf.device is not array.device:
        return ()
    formers = [ref for ref in var._formers if ref() is not None]
    if node is not None:
        leaf.set_grad(None)  # what comes from now on is added to the variable's
        node._leaf = leaf
        formers.append(weakref.ref(node))
    return tuple(formers)


def _former_leaves(var):
    nodes = [ref() for ref in var._formers]
    return [node._leaf for node in nodes if node is not None]


def _collect(var):
    """Adds the gradients that former arrays of a variable were given since."""
    array = var._data[0]
    for leaf in _former_leaves(var):
        grad = leaf.grad
        if grad is not None:
            leaf.set_grad(None)
            array.set_grad(grad if array.grad is None else array.grad + grad)


def forget_former_grads(var):
    """Takes away the gradients of a variable's former arrays: it is given another, or none."""
    for leaf in _former_leaves(var):
        leaf.set_grad(None)


def grads(outputs, inputs, **options):
    """chx.grad() of arrays to variables, through their former arrays, too."""
    groups = [[x._data[0], *_former_leaves(x)] for x in inputs]
    parts = iter(chx.grad(outputs, [array for group in groups for array in group], **options))
    sums = []
    for group in groups:
        found = [g for _ in group if (g := next(parts)) is not None]
        sums.append(functools.reduce(operator.add, found) if found else None)
    return sums


def retained_between(nodes):
    """Notes that gradients were retained of what some nodes were made of."""
    for function in creators(nodes):
        for ref in function.outputs or ():
            node = ref()
            var = node and node.get_variable_or_none()
            if var is not None:
                var._has_set_grad = True
                var._grad_var = None


def make_variable(array):
    """A variable of what a function returned; it is in the graphs that the array is in."""
    # What Variable.__init__ sets, without its view of the array and without requiring a gradient
    # of it: Chainer keeps those of leaves only.
    var = variable.Variable.__new__(variable.Variable)
    var._requires_grad = array is not None and array.is_backprop_required()
    var._loss_scale = None
    var._grad_var = None
    var._grad = None
    var._device = None
    var._grad_valid = True
    var._layout = None
    var._data = [array]
    var._has_chainerx_array = True
    var._node = None
    var._chainerx_name = None
    return var


def node_of(x):
    """The node of a variable, or a new one of an array."""
    if not isinstance(x, variable.Variable):
        return Node(None, x, x is not None and x.is_backprop_required())
    node = x._node
    if node is None:
        node = x._node = Node(x, x._data[0], x._requires_grad)
    return node


def link(function, inputs, outputs, arguments):
    """Makes a function the creator of its outputs.

    Args:
      function: A FunctionNode.
      inputs: Variables or arrays.
      outputs: Variables.
      arguments: For walks: arrays that stand for the inputs and nothing else, or None.
    """
    function.inputs = tuple([node_of(x) for x in inputs])
    rank = 0
    for node in function.inputs:
        if node._creator_node is not None:
            node.add_consumer(function)
        if node.rank > rank:
            rank = node.rank
    function.rank = rank
    nodes = [node_of(y) for y in outputs]
    refs = []
    for node in nodes:
        node.creator_node = function
        refs.append(weakref.ref(node))
    function.outputs = tuple(refs)
    function._output_count = len(nodes)
    function._chx_arguments = arguments
    if arguments is not None:
        for node, y in zip_strict(nodes, outputs):
            node._array = y._data[0]
        for node, x in zip_strict(function.inputs, inputs):
            if node._array is None:
                node._array = x._data[0] if isinstance(x, variable.Variable) else x


_loss_scaling = False  # whether a backward of this process scaled its loss


def note_loss_scale(nodes, loss_scale):
    """Notes on the leaves behind nodes what their gradients are too large by, for optimizers."""
    global _loss_scaling
    if loss_scale is None and not _loss_scaling:
        return  # nothing to take back
    _loss_scaling = True
    for var in leaves(nodes):
        var._loss_scale = loss_scale


def leaves(nodes):
    """The variables that nodes were made of, or are, that require gradients; each once."""
    inputs = [x for function in creators(nodes) for x in function.inputs or ()]
    found = {}
    for node in [*nodes, *inputs]:
        var = node.get_variable_or_none()
        if var is not None and node.creator_node is None and node.requires_grad:
            found[id(var)] = var
    return list(found.values())


def creators(nodes):
    """The functions that made nodes and what they were made of, each once."""
    found = []
    seen = set()
    stack = [node.creator_node for node in nodes]
    while stack:
        function = stack.pop()
        if function is None or id(function) in seen:
            continue
        seen.add(id(function))
        found.append(function)
        stack.extend(node.creator_node for node in function.inputs or ())
    return found
