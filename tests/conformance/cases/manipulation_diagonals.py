import numpy as np

from ..table import ALL, row
from .manipulation import same

for offset, axis1, axis2 in ((0, 0, 1), (1, 0, 1), (-1, 2, 0), (9, 0, 1), (-9, 0, 1)):
    for name in ("diagonal", "trace"):
        row(
            name,
            lambda chx, a, n=name, x=(offset, axis1, axis2): getattr(chx, n)(a, *x),
            lambda a, n=name, x=(offset, axis1, axis2): (
                np.diagonal(a, *x)
                if n == "diagonal"
                else np.diagonal(a, *x).sum(-1, dtype=a.dtype if a.dtype.kind == "f" else "int64")
            ),
            [(3, 4, 2)],
            dtypes=[ALL],
            grad=[0],
            name=f"{name}-{offset}-{axis1}-{axis2}",
        )
for k in (0, 2, -1, 7):
    for shape in ((3,), (3, 4), (0,)):
        same(
            "diag",
            lambda chx, a, k=k: chx.diag(a, k),
            lambda a, k=k: np.diag(a, k),
            [shape],
            f"{shape}-{k}",
        )
    same(
        "diagflat",
        lambda chx, a, k=k: chx.diagflat(a, k),
        lambda a, k=k: np.diagflat(a, k),
        [(2, 2)],
        str(k),
    )
