import numpy as np

from .table import case

for name, keywords in {
    "plain": {},
    "range": {"bins": 5, "range": (-1, 1.5)},
    "edges": {"bins": np.array([-2.0, -1, 0.5, 3])},
    "density": {"bins": 4, "density": True},
}.items():
    case(lambda xp, a, k=keywords: xp.histogram(a, **k), (5, 6), name=f"histogram {name}", grad=[])
case(
    lambda xp, a, w: xp.histogram(a, 4, (-2, 2), weights=w)[0],
    (5, 6),
    (5, 6),
    name="histogram weights",
    grad=[1],
    ints=False,
)
case(
    lambda xp, a, w: xp.histogram(a, [-2, 0, 1, 3], density=True, weights=w)[0],
    (9,),
    (9,),
    name="histogram weights density",
    grad=[1],
    ints=False,
    domain=(0.5, 2.0),
)
for right in (False, True):
    for bins in ([-1, 0, 1], [1, 0, -1], [0]):
        case(
            lambda xp, a, b=bins, r=right: xp.digitize(a, b, r),
            (4, 5),
            name=f"digitize {bins} {right}",
            grad=[],
        )
case(
    lambda xp, a: xp.digitize(a, xp.array([1.5, 0.5, -0.5])),
    (3, 4),
    name="digitize falling",
    grad=[],
)
