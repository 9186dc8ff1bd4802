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
case(lambda xp, a: xp.roll(a, (1, -2, 1), (0, 1, 1)), (3, 4), name="roll shifts")
case(lambda xp, a: xp.expand_dims(a, (0, -1)), (3, 4), name="expand_dims axes")
case(lambda xp, a: xp.flip(a, axis=(0, -1)), (3, 4), name="flip axis")
