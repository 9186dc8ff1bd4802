"""Rows of elementwise operators: of one array, of two that broadcast, and in place."""

import numpy as np

from .table import FLOATS, INTS, row

SHAPES = [(), (4,), (3, 2), (0, 3)]
PAIRS = [((), ()), ((3, 4), (3, 4)), ((3, 1), (1, 4)), ((2, 3), (3,)), ((0, 2), (1, 2))]
NUMBERS = (*INTS, *FLOATS)


def to_float(x):
    """Integers are computed as float32."""
    return x if x.dtype.kind == "f" else x.astype("float32")


def floats(function):
    return lambda x: function(to_float(x))


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


def in_place(x, y, method):
    z = x.copy()
    part = z[::-1, ::2]
    getattr(part, method)(y)
    return z


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, 65504.0, -1e-7])


def special(rng, shape):
    return rng.choice(SPECIAL, shape)
