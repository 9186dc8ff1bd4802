"""Routes of chainer.functions.rnn and chainer.functions.util."""

import chainer
from chainer.functions.rnn import tree_lstm
from chainer.functions.util import forget

import chx
from chx.chainer import _own_gradients
from chx.chainer._routes._common import cast
from chx.chainer._routes._registry import route


@route(tree_lstm.TreeLSTM)
def _tree_lstm(f, xs):
    return tuple(cast(y, xs[0].dtype) for y in chx.tree_lstm(*xs))


@route(forget.Forget)
def _forget(f, xs):
    """Runs on the daemon, unrecorded; its gradients are asked for here, and run it again."""
    results = tuple([y.as_grad_stopped() for y in f.forward(xs)])
    f.chainerx_device = chainer.backend.ChainerxDevice(xs[0].device)
    _own_gradients.record(f, xs, results)
    return results
