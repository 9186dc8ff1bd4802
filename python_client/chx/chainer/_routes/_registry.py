"""Which function is the route of which of Chainer's classes."""

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
