import numpy as np

from ..table import FLOATS, INTS, row

NUMBERS = (*INTS, *FLOATS)

for a, b in [
    ((3, 4), (4, 2)),
    ((4,), (4,)),
    ((3, 4), (4,)),
    ((4,), (4, 2)),
    ((2, 3, 4), (4, 5)),
    ((2, 1, 3, 4), (5, 4, 2)),
    ((0, 4), (4, 2)),
    ((3, 0), (0, 2)),
]:
    row(
        "matmul", lambda chx, x, y: x @ y, np.matmul, [a, b], dtypes=[NUMBERS, NUMBERS], grad=[0, 1]
    )
row(
    "matmul",
    lambda chx, x, y: chx.matmul(x.T, y.T),
    lambda x, y: x.T @ y.T,
    [(4, 3), (2, 4)],
    grad=[0, 1],
    name="matmul-transposed",
)
row(
    "matmul",
    lambda chx, x, y: chx.matmul(x[::-1, ::2], y),
    lambda x, y: x[::-1, ::2] @ y,
    [(3, 8), (4, 2)],
    grad=[0, 1],
    name="matmul-strided",
)
for a, b in [
    ((3, 4), (4, 2)),
    ((4,), (4,)),
    ((3, 4), (4,)),
    ((), (3,)),
    ((), ()),
    ((4,), (2, 4, 3)),
    ((3, 4), (2, 4, 3)),
    ((2, 1, 4), (2, 3, 4, 2)),
    ((2, 3), (0, 3, 2)),
    ((2, 0), (3, 0, 2)),
]:
    row(
        "dot",
        lambda chx, x, y: chx.dot(x, y),
        np.dot,
        [a, b],
        dtypes=[NUMBERS, NUMBERS],
        grad=[0, 1],
    )
row(
    "linear",
    lambda chx, x, w, b: chx.linear(x, w, b),
    lambda x, w, b: x @ w.T + b,
    [(5, 3), (4, 3), (4,)],
    grad=[0, 1, 2],
)
row(
    "linear",
    lambda chx, x, w: chx.linear(x, w),
    lambda x, w: x @ w.T,
    [(5, 3), (4, 3)],
    grad=[0, 1],
)
row(
    "linear",
    lambda chx, x, w: chx.linear(x, w, None, 2),
    lambda x, w: x @ w.T,
    [(2, 5, 3), (4, 3)],
    grad=[0, 1],
    name="linear-batch-axes",
)
row(
    "linear",
    lambda chx, x, w: chx.linear(x, w),
    lambda x, w: x.reshape(2, -1) @ w.T,
    [(2, 3, 2), (4, 6)],
    grad=[0, 1],
    name="linear-flattens",
)
