from .table import case

for k, m in ((0, None), (1, 4), (-1, 2), (9, 3)):
    case(lambda xp, k=k, m=m: xp.tril_indices(3, k, m), name=f"tril_indices {k} {m}")
    case(lambda xp, k=k, m=m: xp.triu_indices(3, k, m), name=f"triu_indices {k} {m}")
case(lambda xp, a: xp.tril_indices_from(a, 1), (2, 3), name="tril_indices_from", grad=[])
case(lambda xp, a: xp.triu_indices_from(a, -1), (2, 3), name="triu_indices_from", grad=[])
case(lambda xp: xp.diag_indices(3, 3), name="diag_indices")
case(lambda xp, a: xp.diag_indices_from(a), (3, 3), name="diag_indices_from", grad=[])
case(lambda xp: xp.indices((2, 3)), name="indices")
case(lambda xp: xp.indices((2, 3), sparse=True), name="indices sparse")


def within(limit):
    return lambda rng, shape: rng.integers(0, limit, shape)


for order in "CF":
    case(
        lambda xp, i, o=order: xp.unravel_index(i.astype("int64"), (2, 3, 4), o),
        (5, 2),
        name=f"unravel_index {order}",
        grad=[],
        domain=within(24),
    )
    case(
        lambda xp, i, j, o=order: xp.ravel_multi_index(
            (i.astype("int64"), j.astype("int64")), (3, 4), order=o
        ),
        (5,),
        (5,),
        name=f"ravel_multi_index {order}",
        grad=[],
        domain=within(3),
    )
for mode in ("wrap", "clip", ("wrap", "clip")):
    case(
        lambda xp, i, j, m=mode: xp.ravel_multi_index(
            (i.astype("int64"), j.astype("int64")), (3, 4), mode=m
        ),
        (5,),
        (5,),
        name=f"ravel_multi_index {mode}",
        grad=[],
        domain=(-9, 9),
    )
