"""The route of connectionist temporal classification."""

from chainer.functions.loss import ctc

import chx
from chx.chainer._routes._registry import route


@route(ctc.ConnectionistTemporalClassification)
def _ctc(f, xs):
    input_length, label_length, t, x = xs
    # As NumPy's indices, labels count from the end, too.
    labels = chx.where(t < 0, t + x.shape[2], t)
    log_y = chx.log_softmax(x, 2)
    loss = chx.ctc_loss(log_y, labels, input_length, label_length, f.blank_symbol, "none")
    # Chainer's logarithm of zero is finite, and so is the loss of labels that no path gives.
    loss = chx.where(chx.isinf(loss), 1e4 if x.dtype == "float16" else 1e10, loss)
    return (chx.mean(loss) if f.reduce == "mean" else loss,)
