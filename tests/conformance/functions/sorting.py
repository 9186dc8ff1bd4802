from .table import case, distinct

case(
    lambda xp, a, v: xp.searchsorted(a, v, sorter=xp.argsort(a)),
    (7,),
    (2, 3),
    name="searchsorted sorter",
    grad=[],
)
case(lambda xp, a: xp.extract(a > 0, a), (3, 4), name="extract")
for axis in (None, 0, -1):
    case(
        lambda xp, a, axis=axis: xp.sort(xp.partition(a, 2, axis), axis),
        (3, 5),
        name=f"partition {axis}",
        domain=distinct,
    )
    case(
        lambda xp, a, axis=axis: (xp.partition(a, 2, axis) if axis is not None else a.ravel()).take(
            xp.array([2]), axis or 0
        ),
        (3, 5),
        name=f"partition kth {axis}",
        grad=[],
        domain=distinct,
    )
case(
    lambda xp, a: xp.take_along_axis(a, xp.argpartition(a, 1, axis=-1), -1)[:, 1],
    (3, 5),
    name="argpartition",
    domain=distinct,
)


def few(rng, shape):
    return rng.integers(0, 3, shape)


case(lambda xp, a, b: xp.lexsort((a, b)), (30,), (30,), name="lexsort", grad=[], domain=few)
case(lambda xp, a: xp.lexsort(a), (3, 30), name="lexsort array", grad=[], domain=few)
case(
    lambda xp, a, b: xp.lexsort((a, b), axis=0),
    (9, 4),
    (9, 4),
    name="lexsort axis",
    grad=[],
    domain=few,
)
