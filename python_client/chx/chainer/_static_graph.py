"""Static subgraphs: a chain on a daemon's device runs as it is written; nothing is recorded."""

import functools

import chainer
from chainer.graph_optimizations import static_graph as module

_static_graph = module.static_graph


def _on_numpy_only(wrapped):
    @functools.wraps(wrapped)
    def call(chain, *args, **kwargs):
        if not isinstance(chain.device, chainer.backend.ChainerxDevice):
            return wrapped(chain, *args, **kwargs)
        with chainer.using_config("use_static_graph", False):
            return wrapped(chain, *args, **kwargs)

    return call


def static_graph(*args, **kwargs):
    """Chainer's decorator, which has no effect on chains that are on a daemon's device."""
    made = _static_graph(*args, **kwargs)
    if len(args) == 1 and not kwargs and callable(args[0]):
        return _on_numpy_only(made)
    return lambda function: _on_numpy_only(made(function))


def adapt(chainer):
    chainer.static_graph = static_graph
