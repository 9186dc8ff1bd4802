import numpy as np

from ..table import ALL, FLOATS, INTS, row

for dtype in ALL:
    row(
        "zeros",
        lambda chx, d=dtype: chx.zeros((2, 3), d),
        lambda d=dtype: np.zeros((2, 3), d),
        [],
        exact=True,
        name=f"zeros-{dtype}",
    )
    row(
        "ones",
        lambda chx, d=dtype: chx.ones((3,), d),
        lambda d=dtype: np.ones(3, d),
        [],
        exact=True,
        name=f"ones-{dtype}",
    )
    row(
        "full",
        lambda chx, d=dtype: chx.full((2, 0, 3), 3, d),
        lambda d=dtype: np.full((2, 0, 3), 3, d),
        [],
        exact=True,
        name=f"full-{dtype}",
    )
    row(
        "eye",
        lambda chx, d=dtype: chx.eye(3, 4, 1, d),
        lambda d=dtype: np.eye(3, 4, 1, d),
        [],
        exact=True,
        name=f"eye-{dtype}",
    )
for value, dtype in ((True, "bool"), (3, "int32"), (2.5, "float32")):
    row(
        "full",
        lambda chx, v=value: chx.full((2,), v),
        lambda v=value, d=dtype: np.full(2, v, d),
        [],
        exact=True,
        name=f"full-default-{dtype}",
    )
for axis in (0, 1, -1):
    row(
        "one_hot",
        lambda chx, x, a=axis: chx.one_hot(x, 4, axis=a),
        lambda x, a=axis: np.moveaxis((x[..., None] == np.arange(4)).astype("float32"), -1, a),
        [(2, 3)],
        dtypes=[INTS],
        domain=[lambda rng, shape: rng.integers(0, 6, shape)],
        exact=True,
        name=f"one_hot-{axis}",
    )
row("eye", lambda chx: chx.eye(3, k=-1), lambda: np.eye(3, k=-1), [], exact=True, name="eye-square")
row("identity", lambda chx: chx.identity(4), lambda: np.identity(4, "float32"), [], exact=True)
row(
    "empty",
    lambda chx: chx.empty((3, 2), "int8").astype("float32") * 0,
    lambda: np.zeros((3, 2), "float32"),
    [],
    exact=True,
)
for args in ((5,), (2, 7), (1, 10, 3), (10, 0, -3), (0,)):
    row(
        "arange",
        lambda chx, a=args: chx.arange(*a),
        lambda a=args: np.arange(*a, dtype="int32"),
        [],
        exact=True,
        name=f"arange-{args}",
    )
row(
    "arange",
    lambda chx: chx.arange(0.0, 1.0, 0.25),
    lambda: np.arange(0, 1, 0.25, "float32"),
    [],
    exact=True,
    name="arange-float",
)
row(
    "arange",
    lambda chx: chx.arange(4, dtype="float16"),
    lambda: np.arange(4, dtype="float16"),
    [],
    exact=True,
    name="arange-dtype",
)
for name, fn in (("zeros_like", np.zeros_like), ("ones_like", np.ones_like)):
    row(
        name,
        lambda chx, a, n=name: getattr(chx, n)(a),
        lambda a, f=fn: f(a),
        [(2, 3)],
        dtypes=[ALL],
        exact=True,
    )
row(
    "full_like",
    lambda chx, a: chx.full_like(a, 2),
    lambda a: np.full_like(a, 2),
    [(2, 3)],
    dtypes=[ALL],
    exact=True,
)
row(
    "empty_like",
    lambda chx, a: chx.empty_like(a).astype("float32") * 0,
    lambda a: np.zeros(a.shape, "float32"),
    [(2, 3)],
    exact=True,
    dtypes=[("int32", "uint8", "int64")],
)
for shape in ((), (3,), (2, 3), (0, 2)):
    row(
        "copy",
        lambda chx, a: chx.copy(a),
        lambda a: a.copy(),
        [shape],
        dtypes=[ALL],
        grad=[0],
        exact=True,
    )
    row(
        "view",
        lambda chx, a: a.view(),
        lambda a: a.copy(),
        [shape],
        dtypes=[ALL],
        grad=[0],
        exact=True,
    )
for dtype in ALL:
    row(
        "astype",
        lambda chx, a, d=dtype: a.astype(d),
        lambda a, d=dtype: a.astype(d),
        [(3, 4)],
        dtypes=[ALL],
        domain=(0, 100),
        exact=dtype not in FLOATS,
        name=f"astype-to-{dtype}",
        grad=[0] if dtype == "float64" else [],
    )
row(
    "to_device",
    lambda chx, a: a.to_device(a.device),
    lambda a: a.copy(),
    [(2, 3)],
    dtypes=[ALL],
    grad=[0],
    exact=True,
)


def fill(chx, a):
    b = a.copy()
    b[1:].fill(3)
    return b


def fill_reference(a):
    b = a.copy()
    b[1:].fill(3)
    return b


def copyto(chx, a, b):
    c = a.copy()
    c[:, ::2] = b
    return c


def copyto_reference(a, b):
    c = a.copy()
    c[:, ::2] = b
    return c


row("fill", fill, fill_reference, [(3, 2)], dtypes=[ALL], exact=True)
row(
    "copyto",
    copyto,
    copyto_reference,
    [(3, 4), (2,)],
    dtypes=[ALL, ("float32",)],
    domain=(0, 50),
    exact=True,
    same_dtypes=False,
)
