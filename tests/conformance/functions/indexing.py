import numpy as np

from .table import case

case(
    lambda xp, a, b: xp.select([a > 1, a < 0], [a * 2, b], 7),
    (3, 4),
    (3, 4),
    name="select",
)
case(lambda xp, a, b: xp.select([a > 0], [b]), (3,), (2, 3), name="select broadcast", grad=[1])


def choices(low, high):
    return [lambda rng, shape: rng.integers(low, high, shape), (-2.0, 2.0), (-2.0, 2.0)]


for mode, low, high in (("raise", 0, 2), ("wrap", -5, 5), ("clip", -5, 5)):
    case(
        lambda xp, i, a, b, m=mode: xp.choose(i.astype("int64"), [a, b], mode=m),
        (4, 3),
        (3,),
        (4, 1),
        name=f"choose {mode}",
        grad=[1, 2],
        domain=choices(low, high),
    )
CONDITION = np.array([True, False, True])
for axis in (None, 0, 1):
    case(
        lambda xp, a, axis=axis: xp.compress(xp.array(CONDITION), a, axis),
        (3, 4),
        name=f"compress {axis}",
    )


def written(write):
    """What an array is after it was written to."""

    def call(xp, a, *rest):
        a = a.copy()
        write(xp, a, *rest)
        return a

    return call


def put(mode, index):
    return lambda xp, a, v: xp.put(a, xp.array(index), v, mode=mode)


for mode, index in (("raise", [0, -1, 4]), ("wrap", [20, -30]), ("clip", [20, -30, 1])):
    case(written(put(mode, index)), (3, 4), (2,), name=f"put {mode}", grad=[])
case(written(lambda xp, a: xp.put(a.T, [1, 2], 7)), (3, 4), name="put strided", grad=[])
case(written(lambda xp, a, v: xp.putmask(a, a > 0, v)), (3, 4), (5,), name="putmask", grad=[])
case(written(lambda xp, a, v: xp.place(a, a > 0, v)), (3, 4), (3,), name="place", grad=[])
for shape in ((3, 3), (7, 3), (3, 7), (3, 3, 3)):
    for wrap in (False, True):
        case(
            written(lambda xp, a, w=wrap: xp.fill_diagonal(a, 9, w)),
            shape,
            name=f"fill_diagonal {shape} {wrap}",
            grad=[],
        )
case(
    written(lambda xp, a, v: xp.fill_diagonal(a, v)), (5, 4), (2,), name="fill_diagonal of", grad=[]
)
case(
    lambda xp, a: xp.take_along_axis(a, xp.array([[0, -1, 1]]), 1),
    (3, 4),
    name="take_along_axis broadcast",
)
