"""Routes of chainer.functions.activation."""

from chainer.functions.activation import relu

import chx
from chx.chainer._routes import route


@route(relu.ReLU)
def _relu(f, xs):
    return (chx.relu(xs[0]),)
