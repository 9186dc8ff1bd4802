"""Chainer's function nodes on the daemon's arrays: routes first, NumPy in this process else."""

import traceback

import chainer
from chainer import function_node, utils, variable
from chainer.backends import _cpu

import chx
from chx.chainer import _devices, _fallbacks, _graph, _own_gradients, _routes, _walk

_numpy_apply = function_node.FunctionNode.apply
_unchain = function_node.FunctionNode.unchain


def apply(self, inputs):
    """Computes output variables, and makes the function their creator.

    On a daemon's arrays it checks types, calls hooks and, in debug mode, looks for NaNs as on others.
    """
    is_chainerx, arrays = function_node._extract_apply_in_data(inputs)
    if not is_chainerx:
        return _numpy_apply(self, inputs)
    _check_inputs(self, inputs, arrays)
    if chainer.config.enable_backprop:
        return _apply(self, inputs, arrays)
    with chx.no_backprop_mode():
        return _apply(self, inputs, arrays)


def _check_inputs(self, inputs, arrays):
    # Called for every function: no generators.
    only_arrays = _are_arrays(arrays)
    if not only_arrays:
        utils._check_arrays_forward_compatible(arrays, self.label)
    layouts = [x._layout if isinstance(x, variable.Variable) else None for x in inputs]
    self._input_layouts = tuple(layouts)
    if layouts.count(None) != len(layouts):
        self.check_layout_forward([chainer.as_variable(x) for x in inputs])
    if only_arrays and chainer.config.type_check:
        self._check_data_type_forward(arrays)


def _are_arrays(arrays):
    for a in arrays:
        if type(a) is not chx.ndarray:
            return False
    return bool(arrays)


def _apply(self, inputs, arrays):
    debug = chainer.is_debug()
    hooks = _walk.hooks_of(self)
    watched = debug or hooks != ()
    if watched:
        # For a walk: arrays whose gradients are this function's alone.
        arrays = tuple(
            [a.view() if a is not None and a.is_backprop_required() else a for a in arrays]
        )
    if debug:
        self.stack = traceback.extract_stack()
    for hook in hooks:
        hook.forward_preprocess(self, arrays)
    results = _forward(self, arrays)
    for hook in hooks:
        hook.forward_postprocess(self, arrays)
    if debug:
        _walk.check_nan(self.label, "forward", "output", range(len(results)), results)
    outputs = tuple([_graph.make_variable(y) for y in results])
    everything = hooks != () and any([getattr(h, "links_everything", False) for h in hooks])
    for y in outputs:
        if y._requires_grad or everything:
            _graph.link(self, inputs, outputs, arrays if watched else None)
            break
    return outputs


def _forward(self, arrays):
    results = _routes.run(self, arrays)
    if results is chainer.Fallback:
        results = self.forward_chainerx(arrays)
    if results is chainer.Fallback:
        return _fall_back(self, arrays)
    # A variable of its own, with a gradient of its own, has an array of its own.
    return tuple([_apart_from(arrays, y) for y in results])


def _apart_from(arrays, y):
    for x in arrays:
        if y is x and y is not None:
            return y.view()
    return y


def _fall_back(self, arrays):
    _fallbacks.note(_routes.name_of(self), arrays)
    device = chainer.backend.ChainerxDevice(next(a.device for a in arrays if a is not None))
    self._is_chainerx_fallback_mode = True
    self.chainerx_device = device
    self._input_indexes_to_retain = None
    self._output_indexes_to_retain = None
    host = tuple([None if a is None else chx.to_numpy(a) for a in arrays])
    with _devices.results_on(device.device), chainer.using_device(_cpu.CpuDevice()):
        # Arrays that forward() keeps in attributes are kept in the daemon.
        with function_node._chainerx_attribute_fallback(self, device):
            results = self.forward(host)
        if not isinstance(results, tuple):
            raise TypeError(
                f"[{self.label}] expects forward() to return a tuple, got {type(results).__name__}"
            )
        if not all(y is None or isinstance(y, chainer.get_array_types()) for y in results):
            kinds = ", ".join(type(y).__name__ for y in results)
            raise TypeError(f"[{self.label}] expects forward() to return arrays, got ({kinds})")
        # Copies: forward() may have returned an input, or kept an output to change it.
        sent = tuple([y if y is None else device.send(y) for y in results])
    # What backward() is given and checked by: in apply() it is linked to nodes, if there is a graph.
    self.inputs = tuple([_graph.node_of(a) for a in arrays])
    _own_gradients.record(self, arrays, sent)
    return sent


def unchain(self):
    """Makes the function's outputs roots, and forgets its inputs."""
    if not hasattr(self, "_chx_arguments"):
        _unchain(self)
        return
    for ref in self.outputs or ():
        node = ref()
        if node is not None:
            node.unchain()
    # A function that fell back may be reached through arrays that have no variable any more.
    if not self._is_chainerx_fallback_mode:
        self.inputs = None
    self.outputs = None
    self._chx_arguments = None


def adapt(chainer):
    node = function_node.FunctionNode
    node.apply = apply
    node.unchain = unchain
