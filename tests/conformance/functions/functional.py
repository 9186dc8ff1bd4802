from .table import case

case(
    lambda xp, x: xp.piecewise(x, [x < 0, x > 1], [lambda v: -v, lambda v: v * v, 3]),
    (4, 5),
    name="piecewise",
)
case(
    lambda xp, x: xp.piecewise(x, [x > 0, x > 1], [lambda v, k: v * k, 2], 4),
    (12,),
    name="piecewise overlapping",
)
