import numpy as np

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
