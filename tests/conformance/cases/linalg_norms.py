import numpy as np

from ..table import row
from .decompositions import spread

for shape, order, axis, keepdims in [
    ((3, 4), None, None, False),
    ((2, 3, 4), None, (-1, 0), True),
    ((5,), None, 0, False),
    ((5,), 1, None, False),
    ((3, 4), 3, 1, True),
    ((3, 4), np.inf, 0, False),
    ((3, 4), 2, -1, False),
]:
    row(
        "norm",
        lambda chx, x, args_=(order, axis, keepdims): chx.linalg.norm(x, *args_),
        lambda x, args_=(order, axis, keepdims): np.asarray(
            np.linalg.norm(x.reshape(-1) if args_[:2] == (None, None) else x, *args_)
            if not isinstance(args_[1], tuple)
            else np.sqrt((x * x).sum(axis=args_[1], keepdims=args_[2]))
        ).astype(x.dtype),
        [shape],
        grad=[0],
        name=f"norm-{'x'.join(map(str, shape))}-{order}-{axis}",
    )


def are_apart(values, axis):
    return np.diff(np.sort(values, axis), axis=axis).min() > 0.01


def distinct(rng, shape):
    """Magnitudes, and sums of them along each axis, that are apart, so that extrema have gradients."""
    axes = range(len(shape))
    while True:
        x = spread(rng, shape) + rng.uniform(0.1, 0.2, shape)
        sums = [np.abs(x).sum(axis, keepdims=True) for axis in axes]
        if all(are_apart(sums[i], j) for i in axes for j in axes if i != j):
            return x


for order in (1, -1, 2, -2, np.inf, -np.inf):
    for axis, keepdims in (((0, 1), False), ((-1, 0), True), ((2, 1), False)):
        row(
            "norm",
            lambda chx, x, args_=(order, axis, keepdims): chx.linalg.norm(x, *args_),
            lambda x, args_=(order, axis, keepdims): np.asarray(np.linalg.norm(x, *args_)).astype(
                x.dtype
            ),
            [(3, 4, 2)],
            dtypes=[("float32", "float64")],
            grad=[0],
            domain=distinct,
            name=f"norm-matrix-{order}-{axis}",
        )
    row(
        "norm",
        lambda chx, x, o=order: chx.linalg.norm(x, o),
        lambda x, o=order: np.asarray(np.linalg.norm(x, o)).astype(x.dtype),
        [(3, 4)],
        dtypes=[("float32", "float64")],
        grad=[0],
        domain=distinct,
        name=f"norm-matrix-{order}",
    )
for order in (0, -1, -2, -np.inf, 0.5):
    row(
        "norm",
        lambda chx, x, o=order: chx.linalg.norm(x, o, 1),
        lambda x, o=order: np.linalg.norm(x, o, 1).astype(x.dtype),
        [(3, 4)],
        grad=[0],
        domain=(0.5, 2),
        name=f"norm-vector-{order}",
    )


def zeros_among(rng, shape):
    """A column of zeros, and one with a zero: numerical gradients there are 0 too."""
    values = rng.uniform(0.5, 2, shape) * rng.choice([-1, 1], shape)
    values[:, 0] = 0
    values[1, 1] = 0
    return values


for order in (None, 1, 2, 3, 1.5, 0.5, -1, -2.5):
    row(
        "norm",
        lambda chx, x, o=order: chx.linalg.norm(x, o, 0),
        lambda x, o=order: np.linalg.norm(x, o, 0).astype(x.dtype),
        [(3, 4)],
        dtypes=[("float32", "float64")],
        grad=[0],
        double=False,
        domain=zeros_among,
        name=f"norm-zeros-{order}",
    )
row(
    "norm",
    lambda chx, x: chx.linalg.norm(x),
    lambda x: np.asarray(np.linalg.norm(x)),
    [(3, 4)],
    dtypes=[("float32", "float64")],
    grad=[0],
    double=False,
    domain=lambda rng, shape: np.zeros(shape),
    name="norm-zeros",
)
