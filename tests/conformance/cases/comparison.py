import numpy as np

from ..table import FLOATS, INTS, row
from .elementwise import NUMBERS, away_from_zero, binary, to_float, unary
from .math import special

binary("gcd", np.gcd, dtypes=INTS, grad=(), domain=(-90, 90), exact=True)
binary("lcm", np.lcm, dtypes=INTS, grad=(), domain=(-90, 90), exact=True)
row(
    "gcd",
    lambda chx, x: (chx.gcd(x, 12), chx.lcm(3, x)),
    lambda x: (np.gcd(x, x.dtype.type(12)), np.lcm(x.dtype.type(3), x)),
    [(20,)],
    dtypes=[INTS],
    domain=(-90, 90),
    name="gcd-and-lcm-scalar",
)
# Exact powers too: glibc's float32 result may be one unit off.
unary("cbrt", lambda x: np.cbrt(to_float(x)), domain=away_from_zero)
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
    row(
        "float_power",
        lambda chx, x, s=swap: chx.float_power(2, x) if s else chx.float_power(x, 2),
        lambda x, s=swap: np.float_power(2, x) if s else np.float_power(x, 2),
        [(5,)],
        dtypes=[("int32", "float64")],
        grad=[0],
        domain=(1, 4),
        name=f"float_power-{name}",
    )
binary(
    "float_power",
    np.float_power,
    dtypes=(*INTS, "float32", "float64"),
    domain=(1, 3),
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
unary("positive", np.positive, dtypes=NUMBERS)
