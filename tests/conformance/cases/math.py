import math
from fractions import Fraction

import numpy as np

from ..elementwise import NUMBERS, away_from_zero, binary, floats, special, to_float, unary
from ..table import FLOATS, INTS, row


def erf(x):
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


unary("exp", floats(np.exp))
unary("expm1", floats(np.expm1))
unary("log", floats(np.log), domain=(1, 5))
unary("sqrt", floats(np.sqrt), domain=(0.2, 5))
# Exact powers too: glibc's float32 result may be one unit off.
unary("cbrt", lambda x: np.cbrt(to_float(x)), domain=away_from_zero)
unary("tanh", floats(np.tanh))
unary("exp2", floats(np.exp2))
unary("log2", floats(np.log2), domain=(1, 5))
unary("log10", floats(np.log10), domain=(1, 5))
unary("log1p", floats(np.log1p), domain=(0, 5))
unary("erf", floats(erf))
unary("sin", floats(np.sin))
unary("cos", floats(np.cos))
unary("tan", floats(np.tan), domain=(-1, 1))
unary("arcsin", floats(np.arcsin), dtypes=FLOATS, domain=(-0.8, 0.8))
unary("arccos", floats(np.arccos), dtypes=FLOATS, domain=(-0.8, 0.8))
unary("arctan", floats(np.arctan))
unary("sinh", floats(np.sinh))
unary("cosh", floats(np.cosh))
unary("arcsinh", floats(np.arcsinh))
unary("arccosh", floats(np.arccosh), domain=(1.5, 5))
unary("arctanh", floats(np.arctanh), dtypes=FLOATS, domain=(-0.8, 0.8))
unary("floor", floats(np.floor), grad=False)
unary("ceil", floats(np.ceil), grad=False)
unary("trunc", floats(np.trunc), grad=False)
unary("rint", floats(np.rint), grad=False, domain=(-9, 9))
unary("deg2rad", floats(np.deg2rad))
unary("rad2deg", floats(np.rad2deg))


def around(x, decimals):
    """In Python's integers, which are not bounded; halves to even, and too large ones wrap around."""
    if x.dtype.kind == "f" or decimals >= 0:
        return np.around(x, decimals) if x.dtype.kind == "f" else x
    unit = 10**-decimals
    rounded = [round(Fraction(int(v), unit)) * unit for v in x.ravel()]
    wrapped = np.array([v % 2**64 for v in rounded], "uint64").view("int64")
    return wrapped.astype(x.dtype).reshape(x.shape)


for decimals in (0, 1, -1):
    row(
        "around",
        lambda chx, x, d=decimals: chx.around(x, d),
        lambda x, d=decimals: around(x, d),
        [(3, 4)],
        dtypes=[("bool", *INTS, "float32", "float64")],
        domain=(-30, 30),
        name=f"around-{decimals}",
    )


def every_size(rng, shape):
    """Numbers of as many digits as int64 has, extremes, and halves of powers of ten."""
    digits = rng.integers(0, 19, shape)
    value = rng.integers(-9, 10, shape) * 10**digits // 2 + rng.integers(-1, 2, shape)
    extreme = rng.choice(np.array([-(2**63), 2**63 - 1]), shape)
    return np.where(rng.random(shape) < 0.05, extreme, value)


for decimals in (-1, -2, -3, -9, -18, -19, -20, -400, -(2**63)):
    row(
        "around",
        lambda chx, x, d=decimals: chx.round(x, d),
        lambda x, d=decimals: around(x, d) if d > -19 else np.zeros_like(x),
        [(400,)],
        dtypes=[("bool", *INTS)],
        domain=every_size,
        exact=True,
        name=f"around-integers-{decimals}",
    )

binary("arctan2", lambda x, y: np.arctan2(to_float(x), to_float(y)))
binary("hypot", lambda x, y: np.hypot(to_float(x), to_float(y)))
binary("logaddexp", lambda x, y: np.logaddexp(to_float(x), to_float(y)), domain=(-3, 3))
binary("copysign", lambda x, y: np.copysign(to_float(x), to_float(y)))
# Scalars, of which gradients have no dtype to ask for.
for number in (2.5, 2, True):
    row(
        "arctan2",
        lambda chx, x, s=number: chx.arctan2(x, s),
        lambda x, s=number: np.arctan2(x, x.dtype.type(s)),
        [(5,)],
        grad=[0],
        domain=(0.1, 0.9),
        name=f"arctan2-scalar-{number}",
    )
row(
    "nextafter",
    lambda chx, x, y: chx.nextafter(x, y),
    lambda x, y: np.nextafter(to_float(x), to_float(y)),
    [(3, 4), (4,)],
    dtypes=[("float64", *INTS)] * 2,
    exact=True,
)
row(
    "nextafter",
    lambda chx, x, y: chx.nextafter(x.astype("float32"), y.astype("float32")),
    lambda x, y: np.nextafter(x.astype("float32"), y.astype("float32")),
    [(40,), (40,)],
    dtypes=[("int32",)] * 2,
    domain=(0, 1),
    exact=True,
    name="nextafter-float32",
)


def with_zeros(rng, shape):
    return np.where(rng.random(shape) < 0.3, 0, away_from_zero(rng, shape))


unary("sinc", lambda x: np.asarray(np.sinc(to_float(x))).astype(to_float(x).dtype))
row(
    "sinc",
    lambda chx, x: chx.sinc(x),
    np.sinc,
    [(3, 9)],
    grad=[0],
    double=False,
    domain=with_zeros,
    name="sinc-zeros",
)
row(
    "heaviside",
    lambda chx, x, y: chx.heaviside(x, y),
    lambda x, y: np.heaviside(to_float(x), to_float(y)),
    [(3, 9), (9,)],
    dtypes=[(*INTS, *FLOATS)] * 2,
    grad=[1],
    domain=[with_zeros, (-2, 2)],
)
row(
    "heaviside",
    lambda chx, x: chx.heaviside(x, 0.5),
    lambda x: np.heaviside(x, x.dtype.type(0.5)),
    [(40,)],
    domain=special,
    name="heaviside-special",
)
binary("logaddexp2", lambda x, y: np.logaddexp2(to_float(x), to_float(y)), domain=(-3, 3))
for name, swap in (("array-scalar", False), ("scalar-array", True)):
    row(
        "logaddexp2",
        lambda chx, x, s=swap: chx.logaddexp2(2.5, x) if s else chx.logaddexp2(x, 2.5),
        lambda x: np.logaddexp2(x, x.dtype.type(2.5)),
        [(5,)],
        grad=[0],
        name=f"logaddexp2-{name}",
    )
unary("signbit", np.signbit, dtypes=NUMBERS, grad=False)
row(
    "signbit",
    lambda chx, x: chx.signbit(x),
    np.signbit,
    [(40,)],
    domain=special,
    name="signbit-special",
)
row(
    "nan_to_num",
    lambda chx, x: chx.nan_to_num(x),
    np.nan_to_num,
    [(30,)],
    dtypes=[("float64",)],
    domain=special,
    exact=True,
    name="nan_to_num-special",
)
row("nan_to_num", lambda chx, x: chx.nan_to_num(x, 2.5), lambda x: x, [(3, 4)], grad=[0])
for keywords in ({"posinf": 7.5}, {"nan": -1.0, "posinf": 2.0, "neginf": -3.0}):
    row(
        "nan_to_num",
        lambda chx, x, k=keywords: chx.nan_to_num(x, **k),
        lambda x, k=keywords: np.nan_to_num(x, **k),
        [(30,)],
        dtypes=[("float64",)],
        domain=special,
        exact=True,
        name=f"nan_to_num-{len(keywords)}",
    )
