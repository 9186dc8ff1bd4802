"""Routes of chainer.functions.math."""

from chainer.functions.math import average, basic_math, identity

import chx
from chx.chainer._routes import route


@route(identity.Identity)
def _identity(f, xs):
    return tuple([x.view() for x in xs])


@route(basic_math.PowVarConst)
def _pow_var_const(f, xs):
    return (xs[0] ** f.value,)


@route(average.Mean)
def _mean(f, xs):
    return (chx.mean(xs[0], f.axis, f.keepdims),)
