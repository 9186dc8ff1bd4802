"""Reductions of arrays without dimensions over axis 0 and -1: those that NumPy accepts."""

import numpy as np

from ..table import ALL, FLOATS, INTS, row

NUMBERS = (*INTS, *FLOATS)
# Operator -> dtypes, whether it has a gradient, and more arguments.
REDUCTIONS = {
    "sum": (FLOATS, True),
    "prod": (FLOATS, True),
    "amax": (ALL, True),
    "amin": (ALL, True),
    "any": (ALL, False),
    "all": (ALL, False),
    "argmax": (ALL, False),
    "argmin": (ALL, False),
    "ptp": (NUMBERS, True),
    "count_nonzero": (ALL, False),
    "nansum": (FLOATS, True),
    "nanprod": (FLOATS, True),
    "nanmean": (FLOATS, True),
    "nanmax": (FLOATS, True),
    "nanmin": (FLOATS, True),
    "nanvar": (FLOATS, False),
    "nanstd": (FLOATS, False),
    "nanargmax": (FLOATS, False),
    "nanargmin": (FLOATS, False),
}
# Those of positions along the axis: the array is flattened.
SCANS = {
    "cumsum": (FLOATS, True),
    "cumprod": (FLOATS, True),
    "argsort": (NUMBERS, False),
}

for axis in (0, -1):
    for name, (dtypes, grad) in {**REDUCTIONS, **SCANS}.items():
        row(
            name,
            lambda chx, a, n=name, x=axis: getattr(chx, n)(a, axis=x),
            lambda a, n=name, x=axis: np.asarray(getattr(np, n)(a, axis=x)),
            [()],
            dtypes=[dtypes],
            grad=[0] if grad else [],
            domain=(0.5, 1.5),
            name=f"{name}-0d-{axis}",
        )
    row(
        "squeeze",
        lambda chx, a, x=axis: chx.squeeze(a, x),
        lambda a, x=axis: np.asarray(np.squeeze(a, x)),
        [()],
        grad=[0],
        name=f"squeeze-0d-{axis}",
    )
    for name in REDUCTIONS:
        row(
            name,
            lambda chx, a, n=name, x=axis: getattr(chx, n)(a, axis=x, keepdims=True),
            lambda a, n=name, x=axis: np.asarray(getattr(np, n)(a, axis=x, keepdims=True)),
            [()],
            dtypes=[("float32",)],
            domain=(0.5, 1.5),
            name=f"{name}-0d-{axis}-keepdims",
        )
