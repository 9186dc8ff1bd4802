"""Functions of Chainer's that go round its graph with ChainerX's arrays: copy and n_step_*.

Here they are function nodes, so that hooks, dumps and unchain_backward know them.
"""

import chainer
from chainer import function_node
from chainer.functions.array import copy as copy_module
from chainer.functions.rnn import n_step_gru, n_step_lstm, n_step_rnn

import chx


class NStep(function_node.FunctionNode):
    """A stacked recurrent network over sequences: chx's function of a name.

    Its inputs are the states, then each layer's weights, each layer's biases, and the sequences; its
    outputs are the states and the sequences.
    """

    def __init__(self, name, n_layers, n_states, ws, bs, options):
        self.name = name
        self.n_layers = n_layers
        self.n_states = n_states
        self.sizes = [[len(layer) for layer in layers] for layers in (ws, bs)]
        self.options = options

    @property
    def label(self):
        return self.name

    def forward_chainerx(self, inputs):
        inputs = list(inputs)

        def take(n):
            taken, inputs[:n] = inputs[:n], []
            return taken

        states = take(self.n_states)
        ws, bs = ([take(n) for n in sizes] for sizes in self.sizes)
        function = getattr(chx, self.name)
        *states, ys = function(self.n_layers, *states, ws, bs, inputs, *self.options)
        return (*states, *ys)


def _is_remote(x):
    return isinstance(chainer.as_array(x), chx.ndarray)


def _n_step(name, original, n_states):
    def base(n_layers, dropout_ratio, *args, **kwargs):
        # Without dropout, which is in training alone, the daemon has it as one function.
        dropout = dropout_ratio != 0 and chainer.config.train
        if dropout or kwargs.keys() != {"use_bi_direction"} or not _is_remote(args[0]):
            return original(n_layers, dropout_ratio, *args, **kwargs)
        states, (ws, bs, xs, *options) = args[:n_states], args[n_states:]
        kind = f"n_step_{'bi' if kwargs['use_bi_direction'] else ''}{name}"
        node = NStep(kind, n_layers, n_states, ws, bs, options)
        flat = [v for layers in (ws, bs) for layer in layers for v in layer]
        results = node.apply((*states, *flat, *xs))
        return (*results[:n_states], list(results[n_states:]))

    return base


_copy = copy_module.copy


def copy(x, dst):
    """The array on another device; a gradient goes back to the first one's.

    Args:
      x: A variable or an array.
      dst: A device.

    Raises:
      RuntimeError: it is in a graph, and one of the devices is a daemon's and the other is not.
    """
    device = chainer.get_device(dst)
    if not _is_remote(x) or not isinstance(device, chainer.backend.ChainerxDevice):
        return _copy(x, dst)
    source = chainer.backend.get_device_from_array(chainer.as_array(x))
    return copy_module.Copy(source, device).apply((x,))[0]


def adapt(chainer):
    copy_module.copy = chainer.functions.copy = copy
    for module, name, n_states in (
        (n_step_gru, "gru", 1),
        (n_step_lstm, "lstm", 2),
        (n_step_rnn, "rnn", 1),
    ):
        base = f"n_step_{name}_base"
        setattr(module, base, _n_step(name, getattr(module, base), n_states))
