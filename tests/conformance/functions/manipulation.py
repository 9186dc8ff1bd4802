import numpy as np

from .table import case

for k in (-1, 0, 1, 2, 3, 5):
    for axes in ((0, 1), (2, 0), (-1, 1)):
        case(
            lambda xp, a, k=k, axes=axes: xp.rot90(a, k, axes),
            (2, 3, 4),
            name=f"rot90 {k} {axes}",
        )
case(lambda xp, a, b: xp.column_stack([a, b]), (3,), (3, 2), name="column_stack")
case(lambda xp, a, b: xp.row_stack([a, b]), (3,), (2, 3), name="row_stack")
case(
    lambda xp, a, b: xp.block([[a, xp.ones((2, 1), dtype="float64")], [b]]),
    (2, 3),
    (1, 4),
    name="block nested",
    ints=False,
)
case(lambda xp, a, b: xp.block([a, b]), (3,), (2,), name="block row")
case(lambda xp, a, b: xp.block([[a], [b]]), (3,), (3,), name="block column")
case(lambda xp, a: xp.block([[[a], [a]]]), (2, 1), name="block deep")
case(lambda xp, a, b: xp.append(a, b), (2, 3), (4,), name="append flat")
case(lambda xp, a, b: xp.append(a, b, 1), (2, 3), (2, 1), name="append axis")
case(lambda xp, a: xp.append(a, [[7, 8, 9]], axis=0), (2, 3), name="append list")
INDICES = {
    "number": 1,
    "negative": -2,
    "slice": slice(None, None, 2),
    "list": [0, 2],
    "repeated": [1, 1],
    "mask": np.array([True, False, True]),
    "none": [],
}
for name, index in INDICES.items():
    for axis in (0, 1, None):
        shape = (3, 3) if axis is not None else (3,)
        case(
            lambda xp, a, i=index, axis=axis: xp.delete(a, i, axis),
            shape,
            name=f"delete {name} {axis}",
        )
        if name == "mask":
            continue  # numbers to this version of NumPy
        case(
            lambda xp, a, i=index, axis=axis: xp.insert(a, i, 7, axis),
            shape,
            name=f"insert {name} {axis}",
        )
case(lambda xp, a, v: xp.insert(a, [0, 3], v, 1), (2, 3), (2, 2), name="insert values")
case(lambda xp, a, v: xp.insert(a, 1, v, 1), (2, 3), (4, 2), name="insert several at a number")
case(lambda xp, a, v: xp.insert(a, [1], v, 1), (2, 3), (2, 4), name="insert several at a list")
case(lambda xp, a, v: xp.insert(a, 3, v), (4,), (3,), name="insert flat")
for sections in (2, 3, 7, [1, 3], [2, 1, 9]):
    case(
        lambda xp, a, s=sections: xp.array_split(a, s, axis=1),
        (2, 5),
        name=f"array_split {sections}",
        grad=[] if sections in (7, [2, 1, 9]) else None,
    )
for shape in ((2, 2), (3, 4), 7, (0, 3)):
    case(
        lambda xp, a, s=shape: xp.resize(a, s),
        (2, 3),
        name=f"resize {shape}",
        grad=[] if shape == (0, 3) else None,
    )
for trim in ("fb", "f", "b"):
    case(
        lambda xp, a, t=trim: xp.trim_zeros(a, t),
        (6,),
        name=f"trim_zeros {trim}",
        grad=[],
        domain=lambda rng, shape: np.array([0, 0, 1, 0, 2, 0]),
    )
for k, m in ((0, None), (1, 4), (-1, 2), (9, 3)):
    case(lambda xp, k=k, m=m: xp.tril_indices(3, k, m), name=f"tril_indices {k} {m}")
    case(lambda xp, k=k, m=m: xp.triu_indices(3, k, m), name=f"triu_indices {k} {m}")
case(lambda xp, a: xp.tril_indices_from(a, 1), (2, 3), name="tril_indices_from", grad=[])
case(lambda xp, a: xp.triu_indices_from(a, -1), (2, 3), name="triu_indices_from", grad=[])
case(lambda xp: xp.diag_indices(3, 3), name="diag_indices")
case(lambda xp, a: xp.diag_indices_from(a), (3, 3), name="diag_indices_from", grad=[])
case(lambda xp: xp.indices((2, 3)), name="indices")
case(lambda xp: xp.indices((2, 3), sparse=True), name="indices sparse")
case(lambda xp, a, b: xp.meshgrid(a, b, sparse=True), (2,), (3,), name="meshgrid sparse", grad=[])
case(lambda xp, a, b: xp.meshgrid(a, b, copy=False), (2,), (3,), name="meshgrid no copy", grad=[])
for n, increasing in ((None, False), (3, True), (5, False), (1, True), (0, False)):
    case(
        lambda xp, a, n=n, i=increasing: xp.vander(a, n, i),
        (4,),
        name=f"vander {n}",
        grad=[] if n in (0, 1) else None,
        domain=(0.5, 2.0),
    )


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
