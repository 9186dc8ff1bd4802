import numpy as np

from ..elementwise import binary, in_place, special, unary
from ..table import ALL, FLOATS, INTS, row

unary("logical_not", np.logical_not, dtypes=ALL, grad=False, exact=True)
for comparison in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal"):
    binary(comparison, getattr(np, comparison), dtypes=ALL, grad=(), domain=(0, 2), exact=True)
for logical in ("logical_and", "logical_or", "logical_xor"):
    binary(logical, getattr(np, logical), dtypes=ALL, grad=(), domain=(0, 1), exact=True)

for test in ("isnan", "isinf", "isfinite"):
    unary(test, getattr(np, test), dtypes=FLOATS, grad=False, domain=special, exact=True)
    unary(test, getattr(np, test), dtypes=("bool", *INTS), grad=False, exact=True)

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


def nearly(rng, shape):
    return rng.choice(np.array([1.0, 1.0 + 1e-9, 1.1, np.inf, -np.inf, np.nan, 0.0]), shape)


for equal_nan in (False, True):
    row(
        "isclose",
        lambda chx, a, b, e=equal_nan: chx.isclose(a, b, 1e-3, 1e-6, e),
        lambda a, b, e=equal_nan: np.isclose(a, b, 1e-3, 1e-6, e),
        [(60,), (60,)],
        dtypes=[FLOATS, FLOATS],
        domain=nearly,
        name=f"isclose-{equal_nan}",
    )
row(
    "allclose",
    lambda chx, a, b: (chx.allclose(a, a + 1e-9), chx.allclose(a, b)),
    lambda a, b: (np.asarray(True), np.asarray(np.allclose(a, b))),
    [(3, 4), (3, 4)],
    dtypes=[("float64",)] * 2,
    name="allclose",
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
