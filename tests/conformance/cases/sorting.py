import numpy as np

from ..table import ALL, INTS, row
from .reduction import distinct

for axis in (-1, 0, 1, None):
    row(
        "sort",
        lambda chx, a, x=axis: chx.sort(a, axis=x),
        lambda a, x=axis: np.sort(a, axis=x),
        [(4, 5, 3)],
        dtypes=[ALL],
        grad=[0],
        domain=distinct,
        exact=True,
        name=f"sort-{axis}",
    )
    row(
        "argsort",
        lambda chx, a, x=axis: chx.argsort(a, axis=x),
        lambda a, x=axis: np.argsort(a, axis=x, kind="stable"),
        [(4, 5, 3)],
        dtypes=[ALL],
        domain=(0, 3),
        exact=True,
        name=f"argsort-{axis}",
    )


def with_nans(rng, shape):
    return np.where(rng.random(shape) < 0.3, np.nan, rng.integers(-3, 4, shape))


row("sort", lambda chx, a: chx.sort(a), np.sort, [(50,)], domain=with_nans, name="sort-nan")
row(
    "argsort",
    lambda chx, a: chx.argsort(a),
    lambda a: np.argsort(a, kind="stable"),
    [(50,)],
    domain=with_nans,
    name="argsort-nan",
)


def top_reference(a, k, axis, largest):
    """By keys that rise, and equal ones by their places."""
    keys = np.asarray(a, "float64")
    keys = np.where(np.isnan(keys), np.inf, keys)
    order = np.argsort(-keys if largest else keys, axis, kind="stable").take(range(k), axis)
    return np.take_along_axis(a, order, axis), order


for k, axis, shape in (
    (2, -1, (4, 5, 3)),
    (4, 0, (4, 5, 3)),
    (3, 1, (4, 5, 3)),
    (0, 1, (2, 3)),
    (1, -1, (1,)),
    (1, 0, (3, 0)),
    (0, 0, (0, 3)),
):
    for largest in (True, False):
        options = {"k": k, "axis": axis, "largest": largest}
        row(
            "topk",
            lambda chx, a, o=options: chx.topk(a, **o)[0],
            lambda a, o=options: top_reference(a, **o)[0],
            [shape],
            dtypes=[ALL],
            grad=[0],
            domain=distinct,
            exact=True,
            name=f"topk-{k}-{axis}-{largest}-{'x'.join(map(str, shape))}",
        )
row(
    "topk",
    lambda chx, a: chx.topk(a, 40_000)[1],
    lambda a: top_reference(a, 40_000, -1, True)[1],
    [(200_000,)],
    domain=(0, 9),
    exact=True,
    name="topk-long",
)
for k, shape in ((10, (40, 130)), (33, (2, 50)), (100, (300,)), (40, (2, 4000)), (3000, (9000,))):
    row(
        "topk",
        lambda chx, a, k=k: chx.topk(a, k)[1],
        lambda a, k=k: top_reference(a, k, -1, True)[1],
        [shape],
        dtypes=[ALL],
        domain=(0, 9),
        exact=True,
        name=f"topk-indices-{k}-{'x'.join(map(str, shape))}",
    )
    row(
        "topk",
        lambda chx, a, k=k: chx.topk(a, k, largest=False)[1],
        lambda a, k=k: top_reference(a, k, -1, False)[1],
        [shape],
        domain=with_nans,
        name=f"topk-nan-{k}-{'x'.join(map(str, shape))}",
    )
row("sort", lambda chx, a: chx.sort(a), np.sort, [(3000,)], dtypes=[ALL], name="sort-long")
row("sort", lambda chx, a: chx.sort(a), np.sort, [(0, 3)], grad=[0], name="sort-empty")


def running(name, a, axis):
    dtype = a.dtype if a.dtype.kind == "f" else "int64"
    return getattr(np, name)(a, axis=axis, dtype=dtype)


for axis in (None, 0, 1, -1):
    for name, domain in (("cumsum", (-2, 2)), ("cumprod", (0.5, 1.5))):
        row(
            name,
            lambda chx, a, n=name, x=axis: getattr(chx, n)(a, axis=x),
            lambda a, n=name, x=axis: running(n, a, x),
            [(3, 4, 2)],
            dtypes=[ALL],
            grad=[0],
            domain=domain,
            name=f"{name}-{axis}",
        )
for zeros in (1, 2, 4):
    for axis, shape in ((None, (3, 3)), (0, (6, 2)), (1, (2, 7)), (-1, (2, 1, 4)), (1, (3, 1))):
        row(
            "cumprod",
            lambda chx, a, x=axis: chx.cumprod(a, axis=x),
            lambda a, x=axis: running("cumprod", a, x),
            [shape],
            grad=[0],
            domain=lambda rng, shape, z=zeros: np.where(
                rng.permutation(np.arange(np.prod(shape))).reshape(shape) < z,
                0,
                rng.uniform(0.5, 1.5, shape),
            ),
            name=f"cumprod-{zeros}-zeros-{axis}-{'x'.join(map(str, shape))}",
        )
for name in ("cumsum", "cumprod"):
    row(
        name,
        lambda chx, a, n=name: getattr(chx, n)(a, 1),
        lambda a, n=name: running(n, a, 1),
        [(3, 0)],
        grad=[0],
        name=f"{name}-empty",
    )
row(
    "cumsum",
    lambda chx, a: chx.cumsum(a, 0),
    lambda a: running("cumsum", a, 0),
    [(5000, 2)],
    dtypes=[(*INTS, "float64")],
    domain=(0, 3),
    name="cumsum-long",
)


def positions(size):
    return lambda rng, shape: rng.integers(-size, size, shape)


for axis, shape in ((0, (4, 5)), (1, (3, 7)), (-1, (3, 0))):
    row(
        "take_along_axis",
        lambda chx, a, i, x=axis: chx.take_along_axis(a, i, x),
        lambda a, i, x=axis: np.take_along_axis(a, i.astype("int64"), x),
        [(3, 5), shape],
        dtypes=[ALL, ("int64", "int8")],
        grad=[0],
        domain=[(-2, 2), positions(3 if axis == 0 else 5)],
        same_dtypes=False,
        exact=True,
        name=f"take_along_axis-{axis}",
    )


def take_along_gradient(chx, x, i, gy):
    x = x.as_grad_stopped().require_grad()
    return chx.grad([chx.take_along_axis(x, i, 1)], [x], grad_outputs=[gy])[0]


def take_along_gradient_reference(x, i, gy):
    gx = np.zeros_like(x)
    np.add.at(gx, (np.arange(len(x))[:, None], i), gy)
    return gx


row(
    "take_along_axis_grad",
    take_along_gradient,
    take_along_gradient_reference,
    [(3, 5), (3, 9), (3, 9)],
    dtypes=[("float32",), ("int64",), ("float32",)],
    domain=[(-2, 2), positions(5), (-2, 2)],
    same_dtypes=False,
    name="take_along_axis_grad",
)


def put(chx, a, i, v):
    a = a.copy()
    chx.index_put(a, i, v)
    return a


def put_reference(a, i, v):
    a = a.copy()
    a[i.astype("int64")] = v
    return a


for shape, rows in (((4, 3), 2), ((4,), 9), ((3, 2, 2), 0)):
    row(
        "index_put",
        put,
        put_reference,
        [shape, (rows,), (rows, *shape[1:])],
        dtypes=[ALL, ("int64", "int32"), ("float32",)],
        domain=[(-2, 2), positions(shape[0]), (-2, 2)],
        same_dtypes=False,
        exact=True,
        name=f"index_put-{len(shape)}-{rows}",
    )
row(
    "nonzero_positions",
    lambda chx, a: chx.nonzero_positions(a, int(chx.count_nonzero(a))),
    np.flatnonzero,
    [(40, 30)],
    dtypes=[ALL],
    domain=(0, 1.2),
    exact=True,
    name="nonzero_positions",
)
