import numpy as np

from ..elementwise import (
    NUMBERS,
    away_from_zero,
    binary,
    floats,
    in_place,
    special,
    to_float,
    unary,
)
from ..table import ALL, FLOATS, INTS, row

unary("negative", np.negative, domain=(0, 5))
unary("positive", np.positive, dtypes=NUMBERS)
unary("abs", np.abs, domain=away_from_zero)
unary("fabs", floats(np.fabs), domain=away_from_zero)
unary("sign", np.sign, domain=away_from_zero)
unary("square", np.square)
unary("reciprocal", floats(np.reciprocal), domain=(1, 4))
binary("add", np.add)
binary("subtract", np.subtract)
binary("multiply", np.multiply, dtypes=ALL)
binary("divide", lambda x, y: np.divide(to_float(x), to_float(y)), domain=(1, 4))
binary("floor_divide", np.floor_divide, grad=(), domain=(1, 9))
binary("remainder", np.remainder, domain=(1.1, 9.3), grad=(0,))
binary("power", np.power, domain=(0.5, 3))
binary("maximum", np.maximum, dtypes=ALL)
binary("minimum", np.minimum, dtypes=ALL)
# With scalars, on either side. The result keeps the array's dtype unless the scalar is of a higher
# kind.
OPERATORS = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "power": lambda x, y: x**y,
    "floor_divide": lambda x, y: x // y,
    "remainder": lambda x, y: x % y,
}
for name, fn in OPERATORS.items():
    grad = [] if name in ("floor_divide", "remainder") else [0]
    row(
        name,
        lambda chx, x, f=fn: f(x, 2),
        lambda x, f=fn: f(x, x.dtype.type(2)),
        [(3, 2)],
        dtypes=[FLOATS],
        domain=(0.5, 3),
        grad=grad,
        name=f"{name}-array-scalar",
    )
    row(
        name,
        lambda chx, x, f=fn: f(2.5, x),
        lambda x, f=fn: f(x.dtype.type(2.5), x),
        [(3, 2)],
        dtypes=[FLOATS],
        domain=(0.5, 3),
        grad=grad,
        name=f"{name}-scalar-array",
    )
row(
    "add",
    lambda chx, x: x + 1.5,
    lambda x: x.astype("float32") + np.float32(1.5),
    [(3,)],
    dtypes=[INTS],
    name="add-int-float-scalar",
)
row(
    "maximum",
    lambda chx, x: chx.maximum(x, 0),
    lambda x: np.maximum(x, 0),
    [(5,)],
    grad=[0],
    domain=away_from_zero,
    name="maximum-scalar",
)

binary("fmod", np.fmod, grad=(0,), domain=(1.1, 9.3))


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
for number in (2.5, 2):
    row(
        "fmod",
        lambda chx, x, s=number: chx.fmod(x, s),
        lambda x, s=number: np.fmod(x, x.dtype.type(s)),
        [(5,)],
        grad=[0],
        domain=(0.1, 0.9),
        name=f"fmod-scalar-{number}",
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
for name, swap in (("array-scalar", False), ("scalar-array", True)):
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

# In-place forms, on a strided part.
IN_PLACE = {
    "add_": "__iadd__",
    "subtract_": "__isub__",
    "multiply_": "__imul__",
    "divide_": "__itruediv__",
    "floor_divide_": "__ifloordiv__",
    "remainder_": "__imod__",
}


for name, method in IN_PLACE.items():
    dtypes = FLOATS if name == "divide_" else NUMBERS
    row(
        name,
        lambda chx, x, y, m=method: in_place(x, y, m),
        lambda x, y, m=method: in_place(x, y, m),
        [(3, 4), (2,)],
        dtypes=[dtypes, dtypes],
        domain=(1, 5),
    )
