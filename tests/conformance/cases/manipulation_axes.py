import numpy as np

from ..table import row
from .manipulation import same

for axes in ((0, 1), (0, -1), (2, 2)):
    same(
        "swapaxes",
        lambda chx, a, x=axes: chx.swapaxes(a, *x),
        lambda a, x=axes: a.swapaxes(*x),
        [(2, 3, 4)],
        str(axes),
    )
for axis, start in ((2, 0), (0, 3), (1, -1), (-1, 1)):
    same(
        "rollaxis",
        lambda chx, a, x=axis, s=start: chx.rollaxis(a, x, s),
        lambda a, x=axis, s=start: np.rollaxis(a, x, s),
        [(2, 3, 4)],
        f"{axis}-{start}",
    )
for source, destination in ((0, -1), ((0, 1), (2, 0)), ((), ())):
    same(
        "moveaxis",
        lambda chx, a, s=source, d=destination: chx.moveaxis(a, s, d),
        lambda a, s=source, d=destination: np.moveaxis(a, s, d),
        [(2, 3, 4)],
        f"{source}-{destination}",
    )
for axes in (None, 0, (0, -1)):
    same(
        "flip",
        lambda chx, a, x=axes: chx.flip(a, x),
        lambda a, x=axes: np.flip(a, x),
        [(2, 3, 4)],
        str(axes),
    )
same("flip", lambda chx, a: chx.flip(a), np.flip, [(0, 3)], "empty")
same("flipud", lambda chx, a: chx.flipud(a), np.flipud, [(3, 2)], "2d")
same("fliplr", lambda chx, a: chx.fliplr(a), np.fliplr, [(3, 2)], "2d")
for n in (1, 2, 3):
    for shape in ((), (4,), (2, 3), (2, 3, 4), (2, 1, 3, 2)):
        same(
            f"atleast_{n}d",
            lambda chx, a, n=n: getattr(chx, f"atleast_{n}d")(a),
            getattr(np, f"atleast_{n}d"),
            [shape],
            str(len(shape)),
        )


def strided(array):
    s = array.dtype.itemsize
    return (2, 2), (3 * s, 2 * s), s


row(
    "as_strided",
    lambda chx, a: chx._core._as_strided(chx.ascontiguousarray(a), *strided(a)),
    lambda a: np.lib.stride_tricks.as_strided(np.ascontiguousarray(a).ravel()[1:], *strided(a)[:2]),
    [(2, 4)],
    exact=True,
)
