from .table import case

for a, b in (((3,), (3,)), ((2,), (3,)), ((4, 3), (2,)), ((2,), (2,)), ((4, 3), (5, 1, 3))):
    case(lambda xp, a, b: xp.cross(a, b), a, b, name=f"cross {a} {b}")
case(lambda xp, a, b: xp.cross(a, b, axis=0), (3, 4), (3, 4), name="cross axis")
case(
    lambda xp, a, b: xp.cross(a, b, axisa=0, axisb=1, axisc=0),
    (3, 4),
    (4, 3),
    name="cross axes",
)
case(lambda xp, a: xp.trace(a, 1, 0, 2, dtype="float64"), (3, 2, 4), name="trace dtype")
