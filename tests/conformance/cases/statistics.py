import numpy as np

from ..table import ALL, row
from .reduction import AXES, NUMBERS, distinct, reduction
from .sorting import with_nans


def wide(a):
    return None if a.dtype.kind == "f" else "int64"


def mean_dtype(a):
    return a.dtype if a.dtype.kind == "f" else np.dtype("float32")


def moment(function):
    return lambda a, axis, keepdims: np.asarray(
        function(a.astype("float64"), axis=axis, keepdims=keepdims)
    ).astype(mean_dtype(a))


for name in ("all", "any"):
    reduction(name, getattr(np, name), ALL, grad=False, domain=(0, 1))
reduction(
    "prod",
    lambda a, axis, keepdims: np.prod(a, axis=axis, keepdims=keepdims, dtype=wide(a)),
    ALL,
    domain=(0.7, 1.4),
)
reduction(
    "count_nonzero",
    lambda a, axis, keepdims: np.asarray(np.count_nonzero(a, axis=axis, keepdims=keepdims)),
    ALL,
    axes=[a for a in AXES if a != ()],
    grad=False,
    domain=(0, 1),
)
reduction("var", moment(np.var), NUMBERS)
reduction("std", moment(np.std), NUMBERS, axes=[None, 0, -1, (0, 2)])
reduction(
    "ptp",
    lambda a, axis, keepdims: np.amax(a, axis, keepdims=keepdims)
    - np.amin(a, axis, keepdims=keepdims),
    NUMBERS,
    domain=distinct,
)
reduction(
    "nansum",
    lambda a, axis, keepdims: np.nansum(a, axis=axis, keepdims=keepdims, dtype=wide(a)),
    ALL,
)
reduction(
    "nanprod",
    lambda a, axis, keepdims: np.nanprod(a, axis=axis, keepdims=keepdims, dtype=wide(a)),
    ALL,
    domain=(0.7, 1.4),
)
reduction("nanmean", moment(np.nanmean), NUMBERS)
reduction("nanvar", moment(np.nanvar), NUMBERS)
reduction("nanstd", moment(np.nanstd), NUMBERS, axes=[None, 0, -1, (0, 2)])
for name in ("nanvar", "nanstd"):
    row(
        name,
        lambda chx, a, n=name: getattr(chx, n)(a, 1, ddof=3),
        lambda a, n=name: getattr(np, n)(a, 1, ddof=3),
        [(9, 5)],
        domain=with_nans,
        name=f"{name}-ddof",
    )
reduction("nanmax", np.nanmax, NUMBERS, axes=[None, 0, (0, 2)], domain=distinct)
reduction("nanmin", np.nanmin, NUMBERS, axes=[None, 0, (0, 2)], domain=distinct)


def zeros_in_lines(count, axis):
    """`count` zeros in each line along an axis."""

    def make(rng, shape):
        places = rng.random(shape).argsort(axis)
        values = rng.uniform(1, 2, shape) * rng.choice([-1, 1], shape)
        return np.where(places < count, 0, values)

    return make


for zeros in (0, 1, 2, 3):
    for axis in (0, 1, 2):
        row(
            "prod",
            lambda chx, a, x=axis: chx.prod(a, axis=x, keepdims=True),
            lambda a, x=axis: np.prod(a, axis=x, keepdims=True),
            [(5, 3, 4)],
            grad=[0],
            domain=zeros_in_lines(zeros, axis),
            name=f"prod-{zeros}-zeros-{axis}",
        )
    for axis in (None, (0, 2), (2, 0), (1, 2), (0, 1)):
        for keepdims in (False, True):
            row(
                "prod",
                lambda chx, a, x=axis, k=keepdims: chx.prod(a, axis=x, keepdims=k),
                lambda a, x=axis, k=keepdims: np.prod(a, axis=x, keepdims=k),
                [(2, 3, 2)],
                grad=[0],
                domain=lambda rng, shape, z=zeros: np.where(
                    rng.permutation(np.arange(12)).reshape(shape) < z,
                    0,
                    rng.uniform(0.8, 1.3, shape),
                ),
                name=f"prod-{zeros}-zeros-{axis}-{keepdims}",
            )
row("prod", lambda chx, a: chx.prod(a, 0), lambda a: np.prod(a, 0), [(0, 3)], grad=[0])
row("prod", lambda chx, a: chx.prod(a, ()), lambda a: np.prod(a, ()), [(2, 3)], grad=[0])
row("prod", lambda chx, a: chx.prod(a), lambda a: np.prod(a), [()], grad=[0], name="prod-0d")
row("prod", lambda chx, a: a.prod(), lambda a: np.prod(a), [(0, 3)], name="prod-empty")
for name in ("all", "any"):
    row(
        name,
        lambda chx, a, n=name: getattr(a, n)(axis=1),
        lambda a, n=name: getattr(a, n)(axis=1),
        [(3, 0)],
        dtypes=[ALL],
        name=f"{name}-empty",
    )
for name in ("nansum", "nanprod", "nanmean", "nanmax", "nanmin", "nanargmax", "nanargmin"):
    keep = (True,)
    row(
        name,
        lambda chx, a, n=name, k=keep: getattr(chx, n)(a, 1, *k),
        lambda a, n=name, k=keep: np.asarray(
            getattr(np, n)(a, 1, **({"keepdims": True} if k else {}))
        ),
        [(4, 12)],
        domain=lambda rng, shape: np.where(np.arange(shape[1]) == 5, 1.0, with_nans(rng, shape)),
        name=f"{name}-nan",
    )
for name in ("nanargmax", "nanargmin"):
    row(
        name,
        lambda chx, a, n=name: getattr(chx, n)(a),
        lambda a, n=name: np.asarray(getattr(np, n)(a)),
        [(3, 4)],
        dtypes=[NUMBERS],
        domain=distinct,
        name=f"{name}-all",
    )
for name in ("var", "std"):
    row(
        name,
        lambda chx, a, n=name: getattr(chx, n)(a, axis=0, ddof=1),
        lambda a, n=name: getattr(np, n)(a.astype("float64"), axis=0, ddof=1).astype(a.dtype),
        [(5, 2)],
        grad=[0],
        name=f"{name}-ddof",
    )
# Of constants, where numerical gradients are 0 too.
for name in ("std", "nanstd"):
    row(
        name,
        lambda chx, a, n=name: getattr(chx, n)(a, axis=0),
        lambda a, n=name: getattr(np, n)(a.astype("float64"), axis=0).astype(a.dtype),
        [(4, 3)],
        grad=[0],
        double=False,
        domain=lambda rng, shape: np.where(np.arange(3) < 2, [2, 0, 0], rng.uniform(-1, 1, shape)),
        name=f"{name}-of-constants",
    )
for axis in (None, 0, -1, (0, 2)):
    for size in (4, 5):
        row(
            "median",
            lambda chx, a, x=axis: chx.median(a, axis=x),
            lambda a, x=axis: np.asarray(np.median(a.astype("float64"), axis=x)).astype(
                mean_dtype(a)
            ),
            [(size, 3, size)],
            dtypes=[NUMBERS],
            grad=[0],
            domain=distinct,
            name=f"median-{axis}-{size}",
        )
row(
    "median",
    lambda chx, a: chx.median(a, 1, keepdims=True),
    lambda a: np.median(a, 1, keepdims=True),
    [(6, 4)],
    domain=lambda rng, shape: np.where(rng.random(shape) < 0.1, np.nan, rng.random(shape)),
    name="median-nan",
)
