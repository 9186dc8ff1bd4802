"""Routes: how the daemon computes Chainer's functions.

A route is a function of a FunctionNode (or an old-style Function), which has the parameters, and of
its input arrays. It computes the outputs with chx, on arrays that may be in graphs: their gradients,
of any order, are the daemon's. It may return chainer.Fallback.
"""

from chainer import function, function_node

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


def find(node):
    """The route of a function node, as a function of its inputs; None if it has none."""
    implementation = _implementation(node)
    route = _routes.get(type(implementation))
    return None if route is None else lambda arrays: route(implementation, arrays)


def name_of(node):
    """How a function is called in accounts: its class, with its module unless it is Chainer's."""
    cls = type(_implementation(node))
    if cls.__module__.startswith("chainer.functions."):
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


def classes():
    """The classes that have a route: in the table, or from ChainerX's days."""
    base = function_node.FunctionNode.forward_chainerx

    def all_of(cls):
        for sub in cls.__subclasses__():
            yield sub
            yield from all_of(sub)

    own = {cls for cls in all_of(function_node.FunctionNode) if cls.forward_chainerx is not base}
    return own | set(_routes)


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
    )

    loss.adapt_softmax_cross_entropy(chainer)
    noise.adapt_gumbel_softmax(chainer)
    distributions.adapt(chainer)
