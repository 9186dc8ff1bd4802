"""Routes of special functions of chainer.functions.math, in float64, from what the daemon has.

They are made of differentiable functions, so that their gradients are the daemon's, too.
"""

import math

from chainer.functions.math import (
    digamma,
    erfc,
    erfcinv,
    erfcx,
    erfinv,
    lgamma,
    log_ndtr,
    ndtr,
    ndtri,
    polygamma,
    zeta,
)

import chx
from chx.chainer._routes._common import cast, sent
from chx.chainer._routes._registry import route

# Chebyshev coefficients of (1 + 2 x) exp(x^2) erfc(x), x >= 0, in (x - 3.75) / (x + 3.75): the
# variable of Shepherd and Laframboise, Mathematics of Computation 36 (1981). Computed to 40 digits.
_ERFCX = (
    1.1775789345674017,
    -0.004590054580646478,
    -0.08424913336651792,
    0.05920993999819189,
    -0.026658668435305753,
    0.009074997670705265,
    -0.002413163540417608,
    0.0004907758365258086,
    -6.916973302501207e-05,
    4.13902798607301e-06,
    7.740383066198491e-07,
    -2.1886401049234386e-07,
    1.0764999465671004e-08,
    4.521959811218372e-09,
    -7.754400208830589e-10,
    -6.31808834088002e-11,
    2.8687950109363422e-11,
    1.945586855042697e-13,
    -9.654696748073274e-13,
    3.2525481506828756e-14,
    3.347811949739705e-14,
    -1.8645628767814072e-15,
    -1.2507950603417642e-15,
    7.418233442194908e-17,
    5.068146013060458e-17,
    -2.2370961931509366e-18,
)
# Bernoulli's numbers B2, B4, ...
_BERNOULLI = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
    43867 / 798,
    -174611 / 330,
)


def _unary(*classes):
    """A route of classes of one input, which a function computes in float64."""

    def register(function):
        def call(f, xs):
            return (cast(function(cast(xs[0], "float64")), xs[0].dtype),)

        route(*classes)(call)
        return function

    return register


def _erfcx_above(x):
    """exp(x^2) erfc(x) for x >= 0."""
    u = (x - 3.75) / (x + 3.75)
    double = u * 2
    after, later = 0.0, 0.0
    for c in reversed(_ERFCX[1:]):
        after, later = double * after - later + c, after
    return (u * after - later + _ERFCX[0]) / (1 + 2 * x)


@_unary(erfcx.Erfcx)
def _erfcx(x):
    above = _erfcx_above(chx.abs(x))
    return chx.where(x < 0, 2 * chx.exp(chx.square(chx.minimum(x, 0))) - above, above)


@_unary(erfc.Erfc)
def _erfc(x):
    # 1 - erf(x) has nothing left of a small result.
    far = chx.maximum(x, 0.5)
    return chx.where(x < 0.5, 1 - chx.erf(x), chx.exp(-chx.square(far)) * _erfcx_above(far))


@_unary(ndtr.Ndtr)
def _ndtr(x):
    return 0.5 * _erfc(x * -math.sqrt(0.5))


@_unary(log_ndtr.LogNdtr)
def _log_ndtr(x):
    above = chx.log1p(-0.5 * _erfc(chx.maximum(x, 0) * math.sqrt(0.5)))
    low = chx.minimum(x, 0) * -math.sqrt(0.5)
    below = chx.log(0.5 * _erfcx_above(low)) - chx.square(low)
    return chx.where(x > 0, above, below)


def _solved(y, q):
    """x >= 0 with erf(x) = y and erfc(x) = q, of which the smaller is exact."""
    near = y < 0.5

    def missing(x):
        # Newton's step: what erf lacks, by its derivative.
        square = chx.square(x)
        by_erf = (y - chx.erf(x)) * chx.exp(chx.where(near, square, 0))
        return (
            math.sqrt(math.pi) / 2 * chx.where(near, by_erf, _erfcx_above(x) - q * chx.exp(square))
        )

    # Winitzki's approximation, which is right to 2 parts in 1000.
    with chx.no_backprop_mode():
        a = 0.147
        log = chx.log(q * (2 - q))
        half = 2 / (math.pi * a) + log / 2
        x = chx.sqrt(chx.maximum(chx.sqrt(chx.square(half) - log / a) - half, 0))
        for _ in range(3):
            step = missing(x)
            x = x + step / (1 - x * step)
    # Each further step makes one more derivative exact.
    for _ in range(2):
        x = x + missing(x)
    return x


def _inverse(y, q, sign):
    """sign times the solution; infinite at the end, NaN beyond."""
    inside = q > 0
    x = _solved(chx.where(inside, y, 0), chx.where(inside, q, 1))
    return sign * chx.where(inside, x, chx.where(q == 0, math.inf, math.nan))


@_unary(erfinv.ErfInv)
def _erfinv(y):
    size = chx.abs(y)
    return _inverse(size, 1 - size, chx.sign(y.as_grad_stopped()))


@_unary(erfcinv.ErfcInv)
def _erfcinv(p):
    above = p > 1
    q = chx.where(above, 2 - p, p)
    return _inverse(1 - q, q, chx.where(above, -1.0, chx.ones_like(p)))


@_unary(ndtri.Ndtri)
def _ndtri(p):
    return -math.sqrt(2) * _erfcinv(2 * p)


def _shifted(x):
    """x, or x + 8 if x is below 8: from where on Stirling's series is exact; and x's steps there."""
    low = x < 8
    steps = [chx.where(low, x + i, 1) for i in range(8)]
    return chx.where(low, x + 8, x), low, steps


def _reflected(x):
    """Whether x is below 1/2, and then 1 - x instead."""
    low = x < 0.5
    return low, chx.where(low, 1 - x, x)


@_unary(lgamma.LGamma)
def _lgamma(x):
    below, z = _reflected(x)
    s, _, steps = _shifted(z)
    series = 0
    for k, b in enumerate(_BERNOULLI[:9], 1):
        series = series + b / (2 * k * (2 * k - 1)) * s ** (1.0 - 2 * k)
    product = steps[0]
    for step in steps[1:]:
        product = product * step
    y = (s - 0.5) * chx.log(s) - s + 0.5 * math.log(2 * math.pi) + series - chx.log(product)
    sine = chx.sin(math.pi * (chx.where(below, x, 0.5) % 2))
    return chx.where(below, math.log(math.pi) - chx.log(chx.abs(sine)) - y, y)


@_unary(digamma.DiGamma)
def _digamma(x):
    below, z = _reflected(x)
    s, low, steps = _shifted(z)
    y = chx.log(s) - 0.5 / s
    for k, b in enumerate(_BERNOULLI[:9], 1):
        y = y - b / (2 * k) * s ** (-2.0 * k)
    for step in steps:
        y = y - chx.where(low, 1 / step, 0)
    tangent = chx.tan(math.pi * (chx.where(below, x, 0.25) % 1))
    return chx.where(below, y - math.pi / tangent, y)


def _hurwitz(s, q, terms=12):
    """sum of (q + k)^-s over k >= 0, s > 1: Euler's and Maclaurin's formula. NaN for q <= -2."""
    y = 0
    for k in range(terms):
        y = y + (q + k) ** -s
    a = q + terms
    y = y + a ** (1 - s) / (s - 1) + 0.5 * a**-s
    factor = s * a ** (-s - 1)
    for j, b in enumerate(_BERNOULLI, 1):
        y = y + b / math.factorial(2 * j) * factor
        factor = factor * (s + (2 * j - 1)) * (s + 2 * j) / chx.square(a)
    return chx.where(q > -2, y, math.nan)


@route(zeta.Zeta)
def _zeta(f, xs):
    q = cast(xs[0], "float64")
    s = chx.broadcast_to(cast(sent(f._x, q), "float64"), q.shape)
    return (cast(_hurwitz(s, q), xs[0].dtype),)


@route(polygamma.PolyGamma)
def _polygamma(f, xs):
    n, x = xs
    order, z = cast(n, "float64"), cast(x, "float64")
    some = chx.maximum(order, 1)
    sign = 1 - 2 * ((some + 1) % 2)
    y = sign * chx.exp(_lgamma(some + 1)) * _hurwitz(some + 1, z)
    return (cast(chx.where(order == 0, _digamma(z), y), x.dtype),)
