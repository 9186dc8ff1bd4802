"""Routes of chainer.functions.noise: random numbers are the device's."""

from chainer.functions.noise import dropout, gaussian, simplified_dropconnect, zoneout

import chx
from chx.chainer._routes._common import cast, kept, normal, sent
from chx.chainer._routes._registry import route


@route(dropout.Dropout)
def _dropout(f, xs):
    (x,) = xs
    if f.mask is None:
        scale = chx.full((), 1.0 / (1 - f.dropout_ratio), x.dtype, device=x.device)
        f.mask = chx.where(kept(x.shape, x, f.dropout_ratio), scale, 0)
    return (x * sent(f.mask, x),)


@route(gaussian.Gaussian)
def _gaussian(f, xs):
    mean, ln_var = xs
    if f.eps is None:
        f.eps = normal(ln_var.shape, mean)
    return (mean + chx.exp(ln_var * 0.5) * sent(f.eps, mean),)


@route(simplified_dropconnect.SimplifiedDropconnect)
def _simplified_dropconnect(f, xs):
    x, w = xs[:2]
    if f.mask is None:
        shape = (len(x), *w.shape) if f.use_batchwise_mask else w.shape
        f.mask = kept(shape, x, f.ratio)
    else:
        f.mask = sent(f.mask, x)
    x2 = x.reshape(len(x), -1)
    scaled = w * cast(f.mask, w.dtype) * (1.0 / (1 - f.ratio))
    y = chx.squeeze(chx.matmul(scaled, chx.expand_dims(x2, 2)), 2)
    return (cast(y if len(xs) == 2 else y + xs[2], x.dtype),)


@route(zoneout.Zoneout)
def _zoneout(f, xs):
    h, x = xs
    f.flag_x = kept(x.shape, x, f.zoneout_ratio)
    f.flag_h = chx.logical_not(f.flag_x)
    return (chx.where(f.flag_x, x, h),)


def adapt_gumbel_softmax(chainer):
    """gumbel_softmax asks NumPy-like modules for a generator that ChainerX's has not."""
    from chainer.functions.noise import gumbel_softmax as module

    original = module.gumbel_softmax

    def gumbel_softmax(log_pi, tau=0.1, axis=1):
        """A sample of the Gumbel-softmax distribution over an axis.

        Args:
          log_pi: Unnormalized logarithms of probabilities; on a daemon, its generator is used.
          tau: The temperature.
          axis: The axis that the softmax is over.
        """
        array = chainer.as_array(log_pi)
        if not isinstance(array, chx.ndarray) or array.ndim < 1:
            return original(log_pi, tau, axis)
        noise = chx.random.gumbel(size=array.shape, dtype=array.dtype, device=array.device)
        return chainer.functions.softmax((log_pi + noise) / tau, axis=axis)

    module.gumbel_softmax = chainer.functions.gumbel_softmax = gumbel_softmax
