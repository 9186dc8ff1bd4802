import itertools

import numpy as np

from ..table import FLOATS, row


def adaptive(x, sizes, reduce):
    y = np.empty((*x.shape[:2], *sizes), "float64")
    for place in itertools.product(*map(range, sizes)):
        window = tuple(
            slice(i * n // out, -(-(i + 1) * n // out))
            for i, n, out in zip(place, x.shape[2:], sizes, strict=True)
        )
        axes = tuple(range(2, x.ndim))
        y[(..., *place)] = reduce(x[(..., *window)].astype("float64"), axis=axes)
    return y.astype(x.dtype)


def distinct(rng, shape):
    return rng.permutation(int(np.prod(shape))).reshape(shape) * 0.25


for op, reduce in (("adaptive_average_pool", np.mean), ("adaptive_max_pool", np.max)):
    for shape, sizes in (
        ((2, 2, 8), (4,)),
        ((2, 2, 7), (3,)),
        ((1, 2, 5, 6), (3, 2)),
        ((1, 2, 5, 6), (1, 1)),
        ((1, 2, 3, 4), (5, 7)),
        ((0, 2, 3, 4), (2, 2)),
        ((1, 1, 4, 3, 5), (2, 2, 3)),
    ):
        row(
            op,
            lambda chx, x, o=op, s=sizes: getattr(chx, o)(x, s),
            lambda x, s=sizes, r=reduce: adaptive(x, s, r),
            [shape],
            dtypes=[FLOATS],
            grad=[0],
            domain=distinct if op == "adaptive_max_pool" else (-2, 2),
            name=f"{op}-{shape}-{sizes}",
        )
row(
    "adaptive_average_pool",
    lambda chx, x: chx.adaptive_average_pool(x, 2),
    lambda x: adaptive(x, (2, 2), np.mean),
    [(1, 2, 5, 4)],
    name="adaptive_average_pool-one-number",
)
