import numpy as np

from ..table import FLOATS, row
from .indexing import indices_for

NUMBERS = ("int8", "int16", "int32", "int64", "uint8", *FLOATS)
INTEGERS = ("int64", "int32", "int8", "uint8")
UFUNCS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def least(dtype):
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def greatest(dtype):
    return np.inf if dtype.kind == "f" else np.iinfo(dtype).max


def identity(reduce, dtype):
    return {"sum": 0, "prod": 1, "max": least(dtype), "min": greatest(dtype)}[reduce]


def segments(x, ids, count, reduce):
    if reduce == "mean":
        wide = x if x.dtype.kind == "f" else x.astype("float32")
        counts = np.bincount(ids, minlength=count).reshape(-1, *[1] * (x.ndim - 1))
        with np.errstate(all="ignore"):
            return (segments(wide, ids, count, "sum") / counts).astype(wide.dtype)
    y = np.full((count, *x.shape[1:]), identity(reduce, x.dtype), x.dtype)
    with np.errstate(all="ignore"):
        UFUNCS[reduce].at(y, ids, x)
    return y


def distinct(rng, shape):
    """Equal elements share gradients, which have no differences."""
    values = rng.permutation(int(np.prod(shape))).reshape(shape)
    return values * 0.5 - np.prod(shape) / 8


def in_segments(rng, shape):
    return rng.integers(0, 5, shape)


def in_all_segments(rng, shape):
    """Of 5, if there are so many rows: means of nothing have no differences."""
    return rng.permutation(shape[0]) % 5


for reduce in ("sum", "prod", "mean", "max", "min"):
    op = f"segment_{reduce}"
    ordered = reduce in ("max", "min")
    for shape, count in (((9, 3), 5), ((9,), 7), ((1, 2), 5), ((0, 2), 3), ((17, 2, 2), 5)):
        row(
            op,
            lambda chx, x, i, o=op, n=count: getattr(chx, o)(x, i, n),
            lambda x, i, r=reduce, n=count: segments(x, i.astype(int), n, r),
            [shape, shape[:1]],
            dtypes=[NUMBERS if reduce != "mean" else FLOATS, INTEGERS],
            grad=[0] if reduce != "mean" or (count == 5 and shape[0] > 5) else [],
            domain=[
                distinct if ordered else (-1.5, 1.5),
                in_all_segments if reduce == "mean" else in_segments,
            ],
            same_dtypes=False,
            name=f"{op}-{shape}",
        )


def with_nan(rng, shape):
    return np.where(rng.random(shape) < 0.1, np.nan, rng.integers(-4, 5, shape))


def signs(rng, shape):
    """Whose product is exact."""
    return rng.choice([-1.0, 1.0], shape)


# Rows long enough for vectors, and enough of them for several threads; NaNs and equal elements.
for reduce in ("prod", "max", "min"):
    for shape, count in (((40, 2, 13), 6), ((2200, 64), 37), ((135_000,), 11)):
        row(
            f"segment_{reduce}",
            lambda chx, x, i, r=reduce, n=count: getattr(chx, f"segment_{r}")(x, i, n),
            lambda x, i, r=reduce, n=count: segments(x, i.astype(int), n, r),
            [shape, shape[:1]],
            dtypes=[("float32",), ("int32",)],
            domain=[
                signs if reduce == "prod" else with_nan,
                lambda rng, shape, n=count: rng.integers(0, n, shape),
            ],
            same_dtypes=False,
            name=f"segment_{reduce}-long-{shape}",
        )


def scatter(x, index, source, axis, reduce, include):
    wide = x.dtype if x.dtype.kind != "f" else np.dtype("float64")
    y = x.astype(wide)
    moved = np.moveaxis(y, axis, 0)
    index, source = np.moveaxis(index, axis, 0), np.moveaxis(source, axis, 0)
    counts = np.zeros(moved.shape) + include
    for place in np.ndindex(index.shape):
        to = (int(index[place]), *place[1:])
        if counts[to] == 0:
            moved[to] = source[place]
        else:
            with np.errstate(all="ignore"):
                by = UFUNCS["sum" if reduce == "mean" else reduce]
                moved[to] = by(moved[to], source[place].astype(wide))
        counts[to] += 1
    if reduce == "mean":
        moved /= np.maximum(counts, 1)
    return y.astype(x.dtype)


def scatter_row(reduce, include, axis, shape, index, name, **more):
    row(
        "scatter_reduce",
        lambda chx, x, i, s: chx.scatter_reduce(x, i, s.astype(x.dtype), axis, reduce, include),
        lambda x, i, s: scatter(x, i, s.astype(x.dtype), axis, reduce, include),
        [shape, index, index],
        name=f"scatter_reduce-{reduce}-{include}-{name}{shape}",
        same_dtypes=False,
        **more,
    )


for reduce in ("sum", "prod", "mean", "max", "min"):
    for include in (True, False):
        for axis, shape, index in (
            (0, (4, 3), (6, 2)),
            (-1, (4, 3), (3, 5)),
            (1, (2, 3, 2), (2, 7, 2)),
        ):
            scatter_row(
                *(reduce, include, axis, shape, index, ""),
                dtypes=[FLOATS, ("int64", "int64", "int64"), FLOATS],
                grad=[0, 2],
                domain=[
                    lambda rng, shape: distinct(rng, shape) + 0.25,
                    indices_for(3),
                    distinct if reduce in ("max", "min") else (-1.5, 1.5),
                ],
            )
        # Columns in several pieces, a smaller source, integers, NaNs.
        nan = include and reduce in ("max", "min")
        for axis, shape, index in (
            (0, (3, 150), (7, 130)),
            (1, (3, 4, 70), (2, 9, 70)),
            (2, (2, 3, 4), (2, 2, 300)),
            (0, (5,), (0,)),
        ):
            scatter_row(
                *(reduce, include, axis, shape, index, "long-"),
                dtypes=[
                    FLOATS[1:] if reduce == "mean" or nan else ("float32", *NUMBERS[:5]),
                    ("int64", "int32"),
                    ("float64",),
                ],
                domain=[
                    (1, 3),
                    lambda rng, shape, n=shape[axis]: rng.integers(0, n, shape),
                    with_nan if nan else (0.9, 1.1),
                ],
            )
for axis, shape, count in ((0, (4, 3), 6), (-1, (4, 3), 5), (1, (2, 3, 2), 0)):
    source = list(shape)
    source[axis] = count

    def added(x, i, s, axis=axis):
        y = x.copy()
        np.add.at(np.moveaxis(y, axis, 0), i.astype(int), np.moveaxis(s, axis, 0))
        return y

    row(
        "index_add",
        lambda chx, x, i, s, a=axis: chx.index_add(x, i, s.astype(x.dtype), a),
        added,
        [shape, (count,), tuple(source)],
        dtypes=[("float32", "float64"), ("int64", "int64"), ("float32", "float64")],
        grad=[0, 2],
        domain=[(-2, 2), indices_for(3), (-2, 2)],
        same_dtypes=False,
        name=f"index_add-{axis}-{shape}",
    )
