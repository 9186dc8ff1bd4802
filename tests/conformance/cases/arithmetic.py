import numpy as np

from ..table import ALL, FLOATS, INTS, row

SHAPES = [(), (4,), (3, 2), (0, 3)]
PAIRS = [((), ()), ((3, 4), (3, 4)), ((3, 1), (1, 4)), ((2, 3), (3,)), ((0, 2), (1, 2))]
NUMBERS = (*INTS, *FLOATS)


def to_float(x):
    """Integers are computed as float32."""
    return x if x.dtype.kind == "f" else x.astype("float32")


def away_from_zero(rng, shape):
    x = rng.uniform(0.3, 2.0, shape)
    return x * np.where(rng.random(shape) < 0.5, -1, 1)


def unary(name, ref, dtypes=NUMBERS, grad=True, domain=(-2, 2), **kwargs):
    for shape in SHAPES:
        row(
            name,
            lambda chx, x: getattr(chx, name)(x),
            ref,
            [shape],
            dtypes=[dtypes],
            grad=[0] if grad else [],
            domain=domain,
            **kwargs,
        )


unary("negative", np.negative, domain=(0, 5))
unary("exp", lambda x: np.exp(to_float(x)))
unary("log", lambda x: np.log(to_float(x)), domain=(1, 5))
unary("sqrt", lambda x: np.sqrt(to_float(x)), domain=(0.2, 5))
unary("square", np.square)
unary("tanh", lambda x: np.tanh(to_float(x)))
unary("sigmoid", lambda x: np.reciprocal(np.exp(-to_float(x)) + to_float(x).dtype.type(1)))
unary("relu", lambda x: np.maximum(to_float(x), to_float(x).dtype.type(0)), domain=away_from_zero)
unary("abs", np.abs, domain=away_from_zero)
unary("sign", np.sign, domain=away_from_zero)
unary("expm1", lambda x: np.expm1(to_float(x)))
unary("logical_not", np.logical_not, dtypes=ALL, grad=False, exact=True)


def binary(name, ref, dtypes=NUMBERS, grad=(0, 1), domain=away_from_zero, **kwargs):
    for a, b in PAIRS:
        row(
            name,
            lambda chx, x, y: getattr(chx, name)(x, y),
            ref,
            [a, b],
            dtypes=[dtypes, dtypes],
            grad=grad,
            domain=domain,
            **kwargs,
        )


binary("add", np.add)
binary("subtract", np.subtract)
binary("multiply", np.multiply, dtypes=ALL)
binary("divide", lambda x, y: np.divide(to_float(x), to_float(y)), domain=(1, 4))
binary("floor_divide", np.floor_divide, grad=(), domain=(1, 9))
binary("remainder", np.remainder, domain=(1.1, 9.3), grad=(0,))
binary("power", np.power, domain=(0.5, 3))
binary("maximum", np.maximum, dtypes=ALL)
binary("minimum", np.minimum, dtypes=ALL)
for comparison in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal"):
    binary(comparison, getattr(np, comparison), dtypes=ALL, grad=(), domain=(0, 2), exact=True)
for logical in ("logical_and", "logical_or", "logical_xor"):
    binary(logical, getattr(np, logical), dtypes=ALL, grad=(), domain=(0, 1), exact=True)

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

row(
    "where",
    lambda chx, c, x, y: chx.where(c, x, y),
    lambda c, x, y: np.where(c, x, y),
    [(3, 1), (3, 4), (4,)],
    dtypes=[("bool",), FLOATS, FLOATS],
    grad=[1, 2],
    same_dtypes=False,
)
row(
    "where",
    lambda chx, c, x: chx.where(c, x, 0),
    lambda c, x: np.where(c, x, x.dtype.type(0)),
    [(3, 4), (3, 4)],
    dtypes=[("bool", "int32"), FLOATS],
    grad=[1],
    same_dtypes=False,
    name="where-scalar",
)


def relu_gradient(chx, x, gy):
    x = x.as_grad_stopped().require_grad()
    return chx.grad([chx.relu(x)], [x], grad_outputs=[gy])[0]


row(
    "relu_grad",
    relu_gradient,
    lambda x, gy: np.where(x > 0, gy, 0),
    [(4, 3), (4, 3)],
    domain=away_from_zero,
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


def in_place(x, y, method):
    z = x.copy()
    part = z[::-1, ::2]
    getattr(part, method)(y)
    return z


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
