"""Routes: how the daemon computes Chainer's functions.

A route is a function of a FunctionNode (or an old-style Function), which has the parameters, and of
its input arrays. It computes the outputs with chx, on arrays that may be in graphs: their gradients,
of any order, are the daemon's. It may return chainer.Fallback.
"""

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
from chx.chainer._routes._registry import name_of, run

__all__ = ["adapt", "name_of", "run"]


def adapt(chainer):
    loss.adapt_softmax_cross_entropy(chainer)
    noise.adapt_gumbel_softmax(chainer)
    pooling.adapt_average_pooling_2d(chainer)
    distributions.adapt(chainer)
