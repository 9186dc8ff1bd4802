"""Static subgraphs on a daemon's device: recorded, where nobody wants their gradients.

A chain's function is a recording of chx.jit in test mode without backpropagation. Elsewhere it runs as
it is written: the results of a recording are in no graph. In an iteration that is recorded as a whole
(chx.config.jit_updaters) it is a part of that.
"""

import functools
import logging
import weakref
from typing import NamedTuple

import chainer
from chainer.graph_optimizations import static_graph as module

import chx
from chx._runtime import recording
from chx.chainer import _jit_updaters

_logger = logging.getLogger("chx")
_static_graph = module.static_graph


class _Variable(NamedTuple):
    """A variable as an argument or a result of a recording."""

    array: chx.ndarray


def _mapped(node, kind, convert):
    """The node with those of a kind converted, in containers, too."""
    if isinstance(node, kind):
        return convert(node)
    if type(node) in (list, tuple):
        return type(node)(_mapped(v, kind, convert) for v in node)
    if type(node) is dict:
        return {name: _mapped(v, kind, convert) for name, v in node.items()}
    return node


def _arrays(node):
    return _mapped(node, chainer.Variable, lambda v: _Variable(v.array))


def _variables(node):
    return _mapped(node, _Variable, lambda v: chainer.as_variable(v.array))


def _all_remote(node):
    remote = []
    _mapped(node, (chainer.Variable, chainer.get_array_types()), remote.append)
    return all(isinstance(getattr(v, "array", v), chx.ndarray) for v in remote)


class _Recordings:
    """Those of one function of one chain."""

    def __init__(self, function, chain):
        self._chain = weakref.ref(chain)  # which keeps this
        self._function = function
        self._jitted = chx.jit(self._call)
        self._refused = False

    def _call(self, state, args, kwargs):
        return _arrays(self._function(self._chain(), *_variables(args), **_variables(kwargs)))

    def call(self, args, kwargs):
        """The result, and whether there is one."""
        chain = self._chain()
        if self._refused or not _all_remote((args, kwargs)):
            return None, False
        arrays = [p._data[0] for p in chain.params()]
        if not arrays or not all(isinstance(a, chx.ndarray) for a in arrays):
            return None, False
        session = arrays[0].device.backend._session
        counters = _jit_updaters.Counters([], session)
        state = _jit_updaters.Key(_jit_updaters.settings(), _jit_updaters.arrays_of(chain))
        try:
            return _variables(self._jitted(state, _arrays(args), _arrays(kwargs))), True
        except chx.NotImplementedError as error:
            counters.restore()
            self._refused = True
            _logger.warning(
                "static_graph: %s of %s is not recorded, but runs as ever: %s",
                self._function.__name__,
                type(chain).__name__,
                error,
            )
            return None, False


def _wrapped(made, function):
    recordings = weakref.WeakKeyDictionary()  # by chain

    @functools.wraps(made)
    def call(chain, *args, **kwargs):
        if not isinstance(chain.device, chainer.backend.ChainerxDevice):
            return made(chain, *args, **kwargs)
        config = chainer.config
        recordable = config.use_static_graph and not config.train and not config.enable_backprop
        if recordable and recording.current() is None:
            if chain not in recordings:
                recordings[chain] = _Recordings(function, chain)
            result, is_there = recordings[chain].call(args, kwargs)
            if is_there:
                return result
        with chainer.using_config("use_static_graph", False):
            return made(chain, *args, **kwargs)

    return call


def static_graph(*args, **kwargs):
    """Chainer's decorator; chains on a daemon's device are recorded in test mode."""
    made = _static_graph(*args, **kwargs)
    if len(args) == 1 and not kwargs and callable(args[0]):
        return _wrapped(made, args[0])
    return lambda function: _wrapped(made(function), function)


def adapt(chainer):
    chainer.static_graph = static_graph
    if hasattr(chainer.functions, "static_graph"):
        chainer.functions.static_graph = static_graph
