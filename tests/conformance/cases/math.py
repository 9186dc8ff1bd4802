import math
from fractions import Fraction

import numpy as np

from ..table import FLOATS, INTS, row
from .elementwise import away_from_zero, binary, in_place, to_float, unary


def floats(function):
    return lambda x: function(to_float(x))


def erf(x):
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


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
unary("fabs", floats(np.fabs), domain=away_from_zero)
unary("reciprocal", floats(np.reciprocal), domain=(1, 4))
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

SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, 65504.0, -1e-7])


def special(rng, shape):
    return rng.choice(SPECIAL, shape)


for test in ("isnan", "isinf", "isfinite"):
    unary(test, getattr(np, test), dtypes=FLOATS, grad=False, domain=special, exact=True)
    unary(test, getattr(np, test), dtypes=("bool", *INTS), grad=False, exact=True)

binary("arctan2", lambda x, y: np.arctan2(to_float(x), to_float(y)))
binary("fmod", np.fmod, grad=(0,), domain=(1.1, 9.3))
binary("hypot", lambda x, y: np.hypot(to_float(x), to_float(y)))
binary("logaddexp", lambda x, y: np.logaddexp(to_float(x), to_float(y)), domain=(-3, 3))
binary("copysign", lambda x, y: np.copysign(to_float(x), to_float(y)))


def extreme_integers(rng, shape):
    """Zeros, minus ones and the bounds of every integer dtype; what does not fit wraps around."""
    bounds = [sign * 2**bits + d for bits in (7, 15, 31) for sign in (-1, 1) for d in (-1, 0)]
    numbers = [-(2**63), 2**63 - 1, *bounds, 0, -1, 1, 3, -5]
    return rng.choice(np.array(numbers, "int64"), shape)


@np.errstate(divide="ignore")
def fmod(x, y):
    return np.fmod(x, y)


row(
    "fmod",
    lambda chx, x, y: chx.fmod(x, y),
    fmod,
    [(400,), (400,)],
    dtypes=[INTS, INTS],
    domain=extreme_integers,
    exact=True,
    name="fmod-extreme-integers",
)
# Scalars, of which gradients have no dtype to ask for.
for name, fn, numbers in (("arctan2", np.arctan2, (2.5, 2, True)), ("fmod", np.fmod, (2.5, 2))):
    for number in numbers:
        row(
            name,
            lambda chx, x, n=name, s=number: getattr(chx, n)(x, s),
            lambda x, f=fn, s=number: f(x, x.dtype.type(s)),
            [(5,)],
            grad=[0],
            domain=(0.1, 0.9),
            name=f"{name}-scalar-{number}",
        )
for name in ("fmax", "fmin"):
    binary(name, getattr(np, name), dtypes=(*INTS, *FLOATS))
    row(
        name,
        lambda chx, x, y, n=name: getattr(chx, n)(x, y),
        getattr(np, name),
        [(20,), (20,)],
        domain=special,
        name=f"{name}-special",
    )

for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    binary(name, getattr(np, name), dtypes=("bool", *INTS), grad=(), domain=(-90, 90), exact=True)
for name in ("left_shift", "right_shift"):
    binary(name, getattr(np, name), dtypes=INTS, grad=(), domain=(0, 9), exact=True)
    row(
        name,
        lambda chx, x, y, n=name: getattr(chx, n)(x, y),
        lambda x, y, n=name: getattr(np, n)(x.astype("int64"), y.astype("int64")).astype(x.dtype),
        [(9,), (9,)],
        dtypes=[INTS, INTS],
        domain=(0, 7),
        exact=True,
        same_dtypes=False,
        name=f"{name}-of-two-dtypes",
    )
unary("invert", np.invert, dtypes=("bool", *INTS), grad=False, domain=(-90, 90), exact=True)
for name, method in {
    "bitwise_and_": "__iand__",
    "bitwise_or_": "__ior__",
    "bitwise_xor_": "__ixor__",
    "left_shift_": "__ilshift__",
    "right_shift_": "__irshift__",
}.items():
    row(
        name,
        lambda chx, x, y, m=method: in_place(x, y, m),
        lambda x, y, m=method: in_place(x, y, m),
        [(3, 4), (2,)],
        dtypes=[INTS, INTS],
        domain=(1, 5),
    )
row(
    "bitwise_and",
    lambda chx, x: (x & 6, 3 | x, x ^ 1, x << 2, x >> 1, ~x),
    lambda x: (x & 6, 3 | x, x ^ 1, x << 2, x >> 1, ~x),
    [(9,)],
    dtypes=[("int32", "int64")],
    domain=(-90, 90),
    name="bitwise-operators",
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
