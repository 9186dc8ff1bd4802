"""Static subgraphs on a daemon's device: a chain's function is a recording of chx.jit.

In test mode without backpropagation the daemon runs it by a plan. With backpropagation a run is one
command, too: the daemon carries out the function's commands, so the results are in the graph as ever,
and backward is what it is without a recording. In an iteration that is recorded as a whole
(chx.config.jit_updaters) the function is a part of that. A function of `static_code` is to be called in
each iteration, so one that calls such a function is not recorded.
"""

import functools
import logging
import random
import weakref
from typing import NamedTuple

import chainer
import numpy
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


def _arrays(node, in_graph):
    return _mapped(node, chainer.Variable, lambda v: _Variable(v._data[0] if in_graph else v.array))


def _variables(node):
    return _mapped(node, _Variable, lambda v: chainer.as_variable(v.array))


def _are_recordable(node, in_graph):
    """Whether all arrays are on the daemon, and in no graph if results are to be in one."""
    found = []
    _mapped(node, (chainer.Variable, chainer.get_array_types()), found.append)
    arrays = [v._data[0] if isinstance(v, chainer.Variable) else v for v in found]
    return all(
        isinstance(a, chx.ndarray) and not (in_graph and a.is_backprop_required()) for a in arrays
    )


class _Kept:
    """What a recording that fails may have changed: what links keep, and random numbers."""

    def __init__(self, chain):
        self._values = list(_jit_updaters.persistents(chain))
        self._copies = [(v, v.copy()) for *_, v in self._values if isinstance(v, chx.ndarray)]
        self._random = random.getstate(), numpy.random.get_state()

    def restore(self):
        for link, name, value in self._values:
            link.__dict__[name] = value
        for array, copy in self._copies:
            chx.copyto(array, copy)
        random.setstate(self._random[0])
        numpy.random.set_state(self._random[1])


class _Schedule:
    """What functions of `static_code` find as chainer.config.schedule_func while there is a recording."""

    verbosity_level = 0

    def append_function(self, function, args, kwargs, func_name=None):
        # Chainer's own have no side effects.
        if function.__module__.partition(".")[0] == "chainer":
            return function(*args, **kwargs)
        name = func_name or function.__qualname__
        raise chx.NotImplementedError(
            f"[jit] cannot record static_code: {name} is called in each iteration"
        )


_SCHEDULE = _Schedule()


class _Recordings:
    """Those of one function of one chain; `in_graph`: with backpropagation."""

    def __init__(self, function, chain, in_graph):
        self._chain = weakref.ref(chain)  # which keeps this
        self._function = function
        self._in_graph = in_graph
        self._jitted = chx.jit(self._call)
        self._jitted._in_graph = in_graph
        self._jitted._before = self._keep
        self._kept = None
        self._refused = False

    def _keep(self):
        self._kept = _Kept(self._chain())

    def _call(self, state, args, kwargs):
        with chainer.using_config("schedule_func", _SCHEDULE):
            result = self._function(self._chain(), *_variables(args), **_variables(kwargs))
        return _arrays(result, self._in_graph)

    def call(self, args, kwargs):
        """The result, and whether there is one."""
        chain = self._chain()
        if self._refused or not _are_recordable((args, kwargs), self._in_graph):
            return None, False
        arrays = [p._data[0] for p in chain.params()]
        if not arrays or not all(isinstance(a, chx.ndarray) for a in arrays):
            return None, False
        session = arrays[0].device.backend._session
        counters = _jit_updaters.Counters([], session)
        state = _jit_updaters.Key(_jit_updaters.settings(), _jit_updaters.arrays_of(chain))
        self._kept = None
        try:
            result = self._jitted(
                state, _arrays(args, self._in_graph), _arrays(kwargs, self._in_graph)
            )
        except chx.NotImplementedError as error:
            counters.restore()
            if self._kept is not None:
                self._kept.restore()
            self._refuse(str(error))
            return None, False
        finally:
            self._kept = None
        if self._jitted._loses_graph:
            self._refuse("it changes gradients, or its results depend on gradients")
        return _variables(result), True

    def _refuse(self, why):
        self._refused = True
        _logger.warning(
            "static_graph: %s of %s is not recorded, but runs as ever: %s",
            self._function.__name__,
            type(self._chain()).__name__,
            why,
        )


def _wrapped(
    made,
    function,
    force_test_define_by_run=False,
    minimize_cache_size=False,
    verbosity_level=0,
    **_,
):
    recordings = weakref.WeakKeyDictionary()  # by chain, then by whether results are in a graph

    @functools.wraps(made)
    def call(chain, *args, **kwargs):
        if not isinstance(chain.device, chainer.backend.ChainerxDevice):
            return made(chain, *args, **kwargs)
        config = chainer.config
        if not config.use_static_graph:
            return made(chain, *args, **kwargs)
        if not hasattr(chain, "schedule_manager"):
            # For callers of end_forward().
            chain.schedule_manager = module.ScheduleManager(minimize_cache_size, verbosity_level)
        if recording.current() is not None:
            with chainer.using_config("schedule_func", _SCHEDULE):
                return function(chain, *args, **kwargs)
        in_graph = config.enable_backprop
        # Hooks would see the first call only.
        recordable = not chainer.get_function_hooks()
        if recordable and (config.train or not force_test_define_by_run):
            of_chain = recordings.setdefault(chain, {})
            if in_graph not in of_chain:
                of_chain[in_graph] = _Recordings(function, chain, in_graph)
            result, is_there = of_chain[in_graph].call(args, kwargs)
            if is_there:
                return result
        with chainer.using_config("use_static_graph", False):
            return made(chain, *args, **kwargs)

    return call


def static_graph(*args, **kwargs):
    """Chainer's decorator; chains on a daemon's device are recorded."""
    made = _static_graph(*args, **kwargs)
    if len(args) == 1 and not kwargs and callable(args[0]):
        return _wrapped(made, args[0])
    return lambda function: _wrapped(made(function), function, **kwargs)


def adapt(chainer):
    chainer.static_graph = static_graph
    if hasattr(chainer.functions, "static_graph"):
        chainer.functions.static_graph = static_graph
