"""Routes of chainer.functions.activation."""

import chainer
from chainer.functions.activation import (
    clipped_relu,
    crelu,
    elu,
    hard_sigmoid,
    leaky_relu,
    prelu,
    relu,
    rrelu,
    sigmoid,
    softmax,
    softplus,
    swish,
)

import chx
from chx.chainer._routes._common import cast, sent, uniform
from chx.chainer._routes._registry import route


@route(relu.ReLU)
def _relu(f, xs):
    return (chx.relu(xs[0]),)


@route(clipped_relu.ClippedReLU)
def _clipped_relu(f, xs):
    (x,) = xs
    return (chx.where(x >= f.cap, f.cap, chx.relu(x)),)  # NaN is neither


@route(crelu.CReLU)
def _crelu(f, xs):
    return (chx.crelu(xs[0], f.axis),)


@route(elu.ELU)
def _elu(f, xs):
    return (chx.elu(xs[0], f.alpha),)


@route(hard_sigmoid.HardSigmoid)
def _hard_sigmoid(f, xs):
    (x,) = xs
    inside = chx.logical_and(x > -2.5, x < 2.5)
    # Outside it is 0 or 1, or NaN; of no gradient.
    return (chx.where(inside, x * 0.2 + 0.5, chx.clip(x.as_grad_stopped(), 0.0, 1.0)),)


@route(leaky_relu.LeakyReLU)
def _leaky_relu(f, xs):
    (x,) = xs
    # Not chx.leaky_relu: at 0, Chainer's gradient is the slope.
    return (chx.where(x <= 0, x * f.slope, x),)


@route(prelu.PReLUFunction)
def _prelu(f, xs):
    x, w = xs
    w = w.reshape(prelu._get_extended_shape(w, x))
    return (chx.where(x >= 0, x, x * w),)


@route(rrelu.RReLU)
def _rrelu(f, xs):
    (x,) = xs
    if not chainer.config.train:
        f.r = chx.full(x.shape, (f.lower + f.upper) / 2, x.dtype, device=x.device)
    elif f.r is None:
        f.r = cast(uniform(x.shape, x, f.lower, f.upper), x.dtype)
    return (chx.where(x >= 0, x, x * sent(f.r, x)),)


@route(sigmoid.Sigmoid)
def _sigmoid(f, xs):
    return (chx.sigmoid(xs[0]),)


@route(softmax.Softmax)
def _softmax(f, xs):
    return (chx.softmax(xs[0], f.axis),)


@route(softplus.Softplus)
def _softplus(f, xs):
    return (chx.softplus(xs[0], f.beta),)


@route(swish.Swish)
def _swish(f, xs):
    x, beta = xs
    beta = beta.reshape(swish._get_extended_shape(beta, x))
    return (x * chx.sigmoid(beta * x),)
