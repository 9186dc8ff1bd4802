"""Chainer's view of the graph: variable nodes and functions, beside the graph in the daemon.

The daemon's graph computes gradients. This one names what is in it: for creators, dumps, unchaining,
and for walks that call hooks or check values at every function (_walk.py). It holds no arrays, unless
functions were recorded for such a walk.
"""

import weakref

from chainer import variable

import chx

is_connected = chx._core._backprop_ids


def _nobody():
    return None


class Node(variable.VariableNode):
    """The node of a variable whose array is in the daemon.

    It dies with its variable and with the functions that the variable is an input of.
    """

    _array = None

    def __init__(self, var, array, requires_grad):
        # Not the base class's: that makes a view of the array.
        self._variable = _nobody if var is None else weakref.ref(var)
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
        if array is not None and is_connected(array):
            array.unchain()
            array.require_grad()  # as roots do


def grad_of(array):
    """An array's gradient, None if there is none. In no_backprop_mode, too."""
    if array is None or not is_connected(array):
        return None
    if array.is_grad_required():
        return array.grad
    try:
        return array.grad
    except chx.ChainerxError:  # it was neither set nor retained
        return None


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
    function.rank = max([node.rank for node in function.inputs], default=0)
    nodes = [node_of(y) for y in outputs]
    for node in nodes:
        node.creator_node = function
    function.outputs = tuple([weakref.ref(node) for node in nodes])
    function._output_count = len(nodes)
    function._chx_arguments = arguments
    if arguments is not None:
        for node, y in zip(nodes, outputs, strict=True):
            node._array = y._data[0]
        for node, x in zip(function.inputs, inputs, strict=True):
            if node._array is None:
                node._array = x._data[0] if isinstance(x, variable.Variable) else x


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
