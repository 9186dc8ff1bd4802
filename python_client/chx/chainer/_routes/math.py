"""Routes of chainer.functions.math."""

import numpy as np
from chainer.functions.math import (
    arctanh,
    average,
    basic_math,
    batch_l2_norm_squared,
    clip,
    cumprod,
    cumsum,
    erf,
    exponential,
    exponential_m1,
    fft,
    fmod,
    hyperbolic,
    identity,
    linear_interpolate,
    logarithm_1p,
    maximum,
    minimum,
    prod,
    square,
    sum as sum_module,
    trigonometric,
)

import chx
from chx.chainer._routes._common import cast, precisely, scalar, sent
from chx.chainer._routes._registry import route

# Functions of one array that chx has, too.
_ELEMENTWISE = {
    arctanh.Arctanh: chx.arctanh,
    basic_math.Absolute: chx.abs,
    erf.Erf: chx.erf,
    exponential.Log2: chx.log2,
    exponential.Log10: chx.log10,
    exponential_m1.Expm1: chx.expm1,
    hyperbolic.Cosh: chx.cosh,
    hyperbolic.Sinh: chx.sinh,
    logarithm_1p.Log1p: chx.log1p,
    square.Square: chx.square,
    trigonometric.Sin: chx.sin,
    trigonometric.Cos: chx.cos,
    trigonometric.Tan: chx.tan,
    trigonometric.Arcsin: chx.arcsin,
    trigonometric.Arccos: chx.arccos,
    trigonometric.Arctan: chx.arctan,
}
for _cls, _function in _ELEMENTWISE.items():
    route(_cls)(lambda f, xs, function=_function: (function(xs[0]),))


@route(trigonometric.Arctan2)
def _arctan2(f, xs):
    return (chx.arctan2(*xs),)


@route(fmod.Fmod)
def _fmod(f, xs):
    return (chx.fmod(*xs),)


@route(maximum.Maximum)
def _maximum(f, xs):
    return (chx.maximum(*xs),)


@route(minimum.Minimum)
def _minimum(f, xs):
    return (chx.minimum(*xs),)


@route(identity.Identity)
def _identity(f, xs):
    return tuple([x.view() for x in xs])


@route(basic_math.MultiAdd)
def _multi_add(f, xs):
    y = xs[0]
    for x in xs[1:]:
        y = y + x
    return (y,)


@route(basic_math.AddConstant)
def _add_constant(f, xs):
    (x,) = xs
    return (cast(x + scalar(f.value, x), x.dtype),)


@route(basic_math.SubFromConstant)
def _sub_from_constant(f, xs):
    (x,) = xs
    return (cast(scalar(f.value, x) - x, x.dtype),)


@route(basic_math.MulConstant)
def _mul_constant(f, xs):
    (x,) = xs
    return (cast(x * scalar(f.value, x), x.dtype),)


@route(basic_math.DivFromConstant)
def _div_from_constant(f, xs):
    (x,) = xs
    return (scalar(f.value, x) / x,)


@route(basic_math.PowVarVar)
def _pow_var_var(f, xs):
    return (xs[0] ** xs[1],)


@route(basic_math.PowVarConst)
def _pow_var_const(f, xs):
    (x,) = xs
    return (cast(x ** scalar(f.value, x), x.dtype),)


@route(basic_math.PowConstVar)
def _pow_const_var(f, xs):
    (x,) = xs
    return (cast(scalar(f.value, x) ** x, x.dtype),)


@route(average.Mean)
def _mean(f, xs):
    return (chx.mean(xs[0], f.axis, f.keepdims),)


@route(prod.Prod)
def _prod(f, xs):
    return (chx.prod(xs[0], f.axis, f.keepdims),)


@route(cumsum.Cumsum)
def _cumsum(f, xs):
    return (chx.cumsum(xs[0], f.axis),)


@route(cumprod.Cumprod)
def _cumprod(f, xs):
    return (chx.cumprod(xs[0], f.axis),)


@route(sum_module.SumTo)
def _sum_to(f, xs):
    (x,) = xs
    lead = x.ndim - len(f._shape)
    axes = tuple(
        i for i, n in enumerate(x.shape) if i < lead or (f._shape[i - lead] == 1 and n != 1)
    )
    return (chx.sum(x, axes, True).reshape(f._shape) if axes else x,)


@route(batch_l2_norm_squared.BatchL2NormSquared)
def _batch_l2_norm_squared(f, xs):
    return (chx.sum(chx.square(xs[0].reshape(len(xs[0]), -1)), 1),)


@route(clip.Clip)
def _clip(f, xs):
    (x,) = xs
    # The gradient is 1 at the bounds, too.
    y = x
    if f.x_min is not None:
        y = chx.where(x < f.x_min, f.x_min, y)
    if f.x_max is not None:
        y = chx.where(x > f.x_max, f.x_max, y)
    return (cast(y, x.dtype),)


@route(linear_interpolate.LinearInterpolate)
def _linear_interpolate(f, xs):
    p, x, y = xs
    return (p * x + (1 - p) * y,)


@route(fft.FFT)
def _fft(f, xs):
    """Fourier's sums, as products with a matrix: there are no complex arrays in the daemon."""
    dtype = xs[0].dtype
    real, imag = map(precisely, xs)  # NumPy rounds to float16 once, at the end
    n = real.shape[-1]
    angle = 2 * np.pi / n * (np.outer(np.arange(n), np.arange(n)) % n)
    sign, scale = (-1, 1) if f._method == "fft" else (1, 1 / n)
    c, s = (sent((scale * a).astype(real.dtype), real) for a in (np.cos(angle), np.sin(angle)))
    a, b = (chx.matmul(real, c), chx.matmul(imag, c))
    d, e = (chx.matmul(imag, s), chx.matmul(real, s))
    return cast(a - sign * d, dtype), cast(b + sign * e, dtype)
