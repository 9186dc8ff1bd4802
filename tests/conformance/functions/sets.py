from .table import case


def few(rng, shape):
    return rng.integers(0, 3, shape)


for name in ("in1d", "isin", "union1d", "intersect1d", "setdiff1d", "setxor1d"):
    case(
        lambda xp, a, b, name=name: getattr(xp, name)(a, b),
        (4, 3),
        (5,),
        name=name,
        grad=[],
        domain=few,
    )
case(
    lambda xp, a, b: xp.isin(a, b, invert=True), (4, 3), (5,), name="isin not", grad=[], domain=few
)
case(
    lambda xp, a, b: xp.intersect1d(a, b, return_indices=True),
    (12,),
    (5,),
    name="intersect1d indices",
    grad=[],
    domain=few,
)
case(lambda xp, a: xp.unique(a // 1, axis=0), (6, 2), name="unique rows", grad=[])
