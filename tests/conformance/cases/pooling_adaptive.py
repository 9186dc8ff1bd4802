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
        ((2, 1, 4, 6), (2, 3)),
        ((1, 1, 20, 20), (1, 1)),
        ((0, 2, 4, 4), (2, 2)),
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


def first_gets_it(gy, x, sizes):
    """The gradient: of equal elements, and of NaNs, the first is chosen."""
    gx = np.zeros_like(x)
    for place in np.ndindex(gy.shape):
        window = tuple(
            slice(i * n // out, -(-(i + 1) * n // out))
            for i, n, out in zip(place[2:], x.shape[2:], sizes, strict=True)
        )
        part = x[(*place[:2], *window)]
        at = np.unravel_index(np.argmax(part), part.shape)
        gx[(*place[:2], *(w.start + a for w, a in zip(window, at, strict=True)))] += gy[place]
    return gx


def chx_adaptive_gradient(chx, gy, x, sizes):
    x = x.as_grad_stopped().require_grad()
    return chx.grad([chx.adaptive_max_pool(x, sizes)], [x], grad_outputs=[gy])[0]


def few_values(rng, shape):
    return np.where(rng.random(shape) < 0.05, np.nan, rng.integers(-2, 2, shape))


for shape, sizes in (((2, 3, 11), (4,)), ((3, 2, 9, 8), (4, 3)), ((1, 2, 4, 5, 6), (2, 3, 4))):
    row(
        "adaptive_max_index",
        lambda chx, gy, x, s=sizes: chx_adaptive_gradient(chx, gy, x, s),
        lambda gy, x, s=sizes: first_gets_it(gy, x, s),
        [(*shape[:2], *sizes), shape],
        domain=[(-1, 1), few_values],
        name=f"adaptive_max_index-{shape}-{sizes}",
    )
row(
    "adaptive_average_pool",
    lambda chx, x: chx.adaptive_average_pool(x, 2),
    lambda x: adaptive(x, (2, 2), np.mean),
    [(1, 2, 5, 4)],
    name="adaptive_average_pool-one-number",
)
