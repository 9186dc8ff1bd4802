import numpy as np

from .table import case

for axis in (None, 0, (1, 0)):
    for order in (1, 2):
        case(
            lambda xp, a, axis=axis, o=order: xp.gradient(a, 0.5, axis=axis, edge_order=o),
            (4, 5),
            name=f"gradient {axis} {order}",
        )
case(lambda xp, a: xp.gradient(a, 2.0, 3.0), (3, 4), name="gradient distances")
for order in (1, 2):
    case(
        lambda xp, a, o=order: xp.gradient(a, np.array([0.0, 1, 3, 4, 7]), axis=1, edge_order=o),
        (2, 5),
        name=f"gradient coordinates {order}",
    )
case(lambda xp, a, b: xp.diff(a, prepend=b), (2, 3), (2, 2), name="diff prepend")
case(lambda xp, a, b: xp.diff(a, 2, 0, append=b), (2, 3), (1, 3), name="diff append")
case(lambda xp, a: xp.diff(a, prepend=1, append=2), (2, 3), name="diff numbers")
case(lambda xp, a: xp.ediff1d(a), (2, 3), name="ediff1d")
case(lambda xp, a, b: xp.ediff1d(a, b, b * 2), (5,), (2,), name="ediff1d ends")
case(lambda xp, y: xp.trapz(y, dx=0.5), (3, 4), name="trapz")
case(lambda xp, y, x: xp.trapz(y, x, axis=0), (3, 4), (3,), name="trapz at", ints=False)
case(lambda xp, y, x: xp.trapz(y, x), (3, 4), (3, 4), name="trapz at each", ints=False)
for keywords in ({}, {"axis": 0}, {"discont": 5.0}, {"period": 4}):
    case(
        lambda xp, p, k=keywords: xp.unwrap(p, **k),
        (4, 5),
        name=f"unwrap {keywords}",
        domain=(-9.0, 9.0),
    )
POINTS = np.array([-1.5, -0.5, 0.25, 1.0]), np.array([2.0, -1.0, 0.5, 3.0])


def points(xp):
    return [xp.array(p) for p in POINTS]


case(lambda xp, x: xp.interp(x, *points(xp)), (3, 5), name="interp")
case(lambda xp, x: xp.interp(x, *points(xp), left=-7, right=9), (9,), name="interp beyond")
case(lambda xp, x: xp.interp(x, *points(xp), period=3), (9,), name="interp period")
case(
    lambda xp, x, fp: xp.interp(x, points(xp)[0], fp),
    (5,),
    (4,),
    name="interp of values",
    ints=False,
)
