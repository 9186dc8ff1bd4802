"""A table of calls that read alike with NumPy and chx: call(np, *arrays) and call(chx, *arrays)."""

from ..table import Row

FUNCTIONS: list[Row] = []


def case(call, *shapes, name, grad=None, ints=True, double=True, domain=(-2.0, 2.0)):
    """One call, of float64 arrays and, unless it is not for them, of int64 ones.

    `grad`: the inputs whose gradients are checked; all by default.
    """
    import numpy as np

    FUNCTIONS.append(
        Row(
            op=name.partition(" ")[0],
            call=call,
            ref=lambda *arrays: call(np, *arrays),
            shapes=shapes,
            dtypes=[("float64", "int64") if ints else ("float64",)] * len(shapes),
            grad=list(range(len(shapes))) if grad is None else grad,
            double=double,
            domain=domain,
            name=name.replace(" ", "-"),
        )
    )


def distinct(rng, shape):
    """Values that are apart, in random order: what sorting and extrema can be differentiated at."""
    size = 1
    for n in shape:
        size *= n
    return (rng.permutation(size) * 0.7 + rng.uniform(-0.2, 0.2, size) - 0.3 * size).reshape(shape)
