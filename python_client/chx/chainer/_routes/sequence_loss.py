"""The route of connectionist temporal classification."""

from chainer.functions.loss import ctc

import chx
from chx.chainer._routes._common import cast
from chx.chainer._routes._registry import route


@route(ctc.ConnectionistTemporalClassification)
def _ctc(f, xs):
    """Graves et al., 2006: forward variables, in logarithms; the daemon's graph has the rest."""
    input_length, label_length, t, x = xs
    steps, batch, classes = x.shape
    never = -1e4 if x.dtype == "float16" else -1e10
    log_y = chx.log_softmax(x, 2)
    # Labels with blanks before, between and after them.
    blanks = chx.full((batch, t.shape[1]), f.blank_symbol, t.dtype, device=x.device)
    path = chx.stack([blanks, t], 2).reshape(batch, 2 * t.shape[1])
    path = chx.concatenate([path, blanks[:, :1]], 1)
    size = path.shape[1]
    length = chx.expand_dims(2 * label_length + 1, 1)
    place = chx.arange(size, dtype="int32", device=x.device)
    outside = place >= length
    # A label may follow another one directly, unless they are the same, or blanks.
    skips = chx.pad(path[:, 2:] != path[:, :-2], [(0, 0), (2, 0)], "constant", False)
    alpha = cast(chx.where(place == 0, 0.0, never), x.dtype)
    alpha = chx.broadcast_to(alpha, (batch, size))
    for step in range(steps):
        if step == 0:
            # As if there had been a blank before: then the first two places can be reached.
            moved = chx.where(place < 2, 0.0, never)
            into = chx.broadcast_to(cast(moved, x.dtype), (batch, size))
        else:
            one = chx.pad(alpha[:, :-1], [(0, 0), (1, 0)], "constant", never)
            two = chx.pad(alpha[:, :-2], [(0, 0), (2, 0)], "constant", never)
            into = chx.logsumexp(chx.stack([alpha, one, chx.where(skips, two, never)]), 0)
        now = into + chx.take_along_axis(log_y[step], path, 1)
        now = chx.where(outside, never, now)
        over = chx.expand_dims(input_length <= step, 1)
        alpha = chx.where(over, alpha, now)
    # It ends with the last label, or the blank after it.
    ends = place >= length - 2
    loss = chx.negative(chx.logsumexp(chx.where(ends, alpha, never), 1))
    return (chx.mean(loss) if f.reduce == "mean" else loss,)
