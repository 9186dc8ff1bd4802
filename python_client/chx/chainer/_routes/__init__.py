"""Routes: how the daemon computes Chainer's functions.

A route is a function of a FunctionNode (or an old-style Function), which has the parameters, and of
its input arrays. It computes the outputs with chx, on arrays that may be in graphs: their gradients,
of any order, are the daemon's. It may return chainer.Fallback.
"""

from chainer import Fallback, function

_routes = {}


def route(*classes):
    """Registers a function as the route of FunctionNode and Function classes."""

    def register(function):
        for cls in classes:
            _routes[cls] = function
        return function

    return register


def _implementation(node):
    return node.function if isinstance(node, function.FunctionAdapter) else node


def run(node, arrays):
    """A function node's outputs by its route; chainer.Fallback if it has none."""
    route = _routes.get(type(node))
    if route is not None:
        return route(node, arrays)
    implementation = _implementation(node)
    route = _routes.get(type(implementation))
    return Fallback if route is None else route(implementation, arrays)


def name_of(node):
    """How a function is called in accounts: its class, with its module unless it is Chainer's."""
    cls = type(_implementation(node))
    if cls.__module__.startswith("chainer.functions."):
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


def adapt(chainer):
    from chx.chainer._routes import (  # noqa: F401  for their effect
        activation,
        array,
        connection,
        distributions,
        evaluation,
        images,
        linalg,
        loss,
        math,
        noise,
        normalization,
        pooling,
        recurrent,
        roi,
        sequence_loss,
        special,
    )

    loss.adapt_softmax_cross_entropy(chainer)
    noise.adapt_gumbel_softmax(chainer)
    pooling.adapt_average_pooling_2d(chainer)
    distributions.adapt(chainer)
