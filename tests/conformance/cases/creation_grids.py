import numpy as np

from ..table import ALL, row
from .manipulation import same

for n, m, k in ((3, None, 0), (3, 5, 1), (4, 2, -1), (0, 3, 0), (3, 3, 9)):
    row(
        "tri",
        lambda chx, n=n, m=m, k=k: chx.tri(n, m, k, "int32"),
        lambda n=n, m=m, k=k: np.tri(n, m, k, "int32"),
        [],
        name=f"tri-{n}-{m}-{k}",
    )
row("tri", lambda chx: chx.tri(3), lambda: np.tri(3, dtype="float32"), [], name="tri-default")
for name in ("tril", "triu"):
    for shape, k in (((3, 4), 0), ((2, 4, 3), 1), ((3, 3), -2), ((3,), 0)):
        same(
            name,
            lambda chx, a, n=name, k=k: getattr(chx, n)(a, k),
            lambda a, n=name, k=k: getattr(np, n)(a, k),
            [shape],
            f"{len(shape)}-{k}",
        )
for args in ((0, 1), (2, -3, 7), (1, 5, 4, False), (1, 1, 1), (0, 9, 0)):
    row(
        "linspace",
        lambda chx, a=args: chx.linspace(*a),
        lambda a=args: np.linspace(*a).astype("float32"),
        [],
        name=f"linspace-{args}",
    )
row(
    "linspace",
    lambda chx: chx.linspace(-3.5, 4, 6, dtype="int32"),
    lambda: np.linspace(-3.5, 4, 6, dtype="int32"),
    [],
    name="linspace-int",
)
for indexing in ("xy", "ij"):
    row(
        "meshgrid",
        lambda chx, a, b, c, i=indexing: chx.meshgrid(a, b, c, indexing=i),
        lambda a, b, c, i=indexing: np.meshgrid(a, b, c, indexing=i),
        [(2,), (3,), (4,)],
        dtypes=[ALL] * 3,
        grad=[0, 1, 2],
        exact=True,
        name=f"meshgrid-{indexing}",
    )
for shapes in ([(2, 3)], [(2, 3), (4,)], [(), (2, 1, 2), (3,)]):
    row(
        "meshgrid",
        lambda chx, *arrays: chx.meshgrid(*arrays),
        lambda *arrays: np.meshgrid(*arrays),
        shapes,
        dtypes=[ALL] * len(shapes),
        grad=list(range(len(shapes))),
        exact=True,
        name=f"meshgrid-flattens-{len(shapes)}",
    )
