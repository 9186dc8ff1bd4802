"""Reductions that are told their dtype."""

import numpy as np

from ..table import ALL, row

TO = ("bool", "int8", "int32", "int64", "uint8", "float16", "float32", "float64")


def as_integers_do(function, dtype):
    """NumPy's mean and the like, which compute whole numbers' dtypes in float64."""

    def call(a):
        wide = dtype if dtype in ("float32", "float64") else "float64"
        with np.errstate(all="ignore"):
            return np.asarray(function(a, wide)).astype(dtype)

    return call


def far_from_whole(rng, shape):
    """Whole numbers whose moments are none: the last bit would decide what these are truncated to."""
    while True:
        a = rng.integers(0, 10, shape)
        moments = np.array([a.mean(1), a.var(1), a.std(1)])
        if (np.abs(moments - np.rint(moments)) > 1e-2).all():
            return a


for to in TO:
    for name in ("sum", "prod", "nansum", "nanprod"):
        row(
            name,
            lambda chx, a, n=name, t=to: getattr(chx, n)(a, axis=1, dtype=t),
            lambda a, n=name, t=to: getattr(np, n)(a, axis=1, dtype=t),
            [(3, 5)],
            dtypes=[ALL],
            domain=(1, 3),
            grad=[0] if to == "float64" else [],
            name=f"{name}-as-{to}",
        )
    for name in ("cumsum", "cumprod"):
        row(
            name,
            lambda chx, a, n=name, t=to: getattr(chx, n)(a, 1, dtype=t),
            lambda a, n=name, t=to: getattr(np, n)(a, 1, dtype=t),
            [(3, 5)],
            dtypes=[ALL],
            domain=(1, 3),
            grad=[0] if to == "float64" else [],
            name=f"{name}-as-{to}",
        )
    if to == "bool":
        continue
    for name in ("mean", "var", "std", "nanmean", "nanvar", "nanstd"):
        row(
            name,
            lambda chx, a, n=name, t=to: getattr(chx, n)(a, axis=1, dtype=t),
            as_integers_do(lambda a, t, n=name: getattr(np, n)(a, axis=1, dtype=t), to),
            [(3, 5)],
            dtypes=[("int8", "uint8", "int64", "float16", "float32", "float64")],
            domain=far_from_whole,
            grad=[0] if to == "float64" else [],
            name=f"{name}-as-{to}",
        )
