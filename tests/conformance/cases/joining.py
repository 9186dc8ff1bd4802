import numpy as np

from ..table import ALL, row
from .manipulation import same

for name, shapes in {
    "hstack": [[(3,), (2,)], [(2, 3), (2, 1)], [(), (2,)]],
    "vstack": [[(3,), (3,)], [(2, 3), (3,)], [(), ()]],
    "dstack": [[(3,), (3,)], [(2, 3), (2, 3)], [(2, 3, 1), (2, 3, 4)]],
}.items():
    for i, pair in enumerate(shapes):
        same(
            name,
            lambda chx, a, b, n=name: getattr(chx, n)([a, b]),
            lambda a, b, n=name: getattr(np, n)([a, b]),
            pair,
            str(i),
        )
for repeats, axis in ((2, None), (3, 1), (0, 0), ((1, 0, 2), 1), ((2, 1), 0), (1, 0)):
    same(
        "repeat",
        lambda chx, a, r=repeats, x=axis: chx.repeat(a, r, axis=x),
        lambda a, r=repeats, x=axis: np.repeat(a, r, axis=x),
        [(2, 3)],
        f"{repeats}-{axis}",
    )
for reps in (2, (2, 1), (1, 1), (2, 1, 3), (0, 2)):
    same(
        "tile",
        lambda chx, a, r=reps: chx.tile(a, r),
        lambda a, r=reps: np.tile(a, r),
        [(2, 3)],
        str(reps),
    )
for shift, axis in ((1, None), (-7, None), (1, 0), ((1, 2), (0, 1)), (2, (0, 1)), (0, 1)):
    same(
        "roll",
        lambda chx, a, s=shift, x=axis: chx.roll(a, s, x),
        lambda a, s=shift, x=axis: np.roll(a, s, x),
        [(3, 4)],
        f"{shift}-{axis}",
    )
for i, widths in enumerate((((1, 2), (0, 3)), ((0, 0), (0, 0)))):
    same(
        "constant_pad",
        lambda chx, a, w=widths: chx.constant_pad(a, sum(w, ()), 2),
        lambda a, w=widths: np.pad(a, w, constant_values=2),
        [(2, 3)],
        str(i),
    )

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
