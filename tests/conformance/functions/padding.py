from .table import case, distinct

WIDTHS = {
    "one": 2,
    "pair": (1, 3),
    "pairs": ((2, 0), (1, 4)),
    "wide": ((5, 7), (0, 9)),
    "none": 0,
}
for mode in (
    "constant",
    "edge",
    "reflect",
    "symmetric",
    "wrap",
    "linear_ramp",
    "maximum",
    "minimum",
    "mean",
    "median",
):
    for name, widths in WIDTHS.items():
        case(
            lambda xp, a, m=mode, w=widths: xp.pad(a, w, m),
            (3, 4),
            name=f"pad {mode} {name}",
            domain=distinct,
        )
    case(lambda xp, a, m=mode: xp.pad(a, 2, m), (1,), name=f"pad {mode} single")
case(lambda xp, a: xp.pad(a, 1, "edge"), (), name="pad 0-d")
case(
    lambda xp, a: xp.pad(a, 2, "constant", constant_values=((1, 2), (3, 4))),
    (2, 3),
    name="pad constants",
)
case(lambda xp, a: xp.pad(a, 2, "constant", constant_values=7), (2, 0), name="pad empty axis")
case(
    lambda xp, a: xp.pad(a, (2, 3), "linear_ramp", end_values=(5, -4)),
    (4,),
    name="pad ramp to ends",
)
for mode in ("reflect", "symmetric"):
    for widths in ((2, 3), (1, 9)):
        case(
            lambda xp, a, m=mode, w=widths: xp.pad(a, w, m, reflect_type="odd"),
            (4,),
            name=f"pad {mode} odd {widths[1]}",
        )
for mode in ("maximum", "minimum", "mean", "median"):
    for length in (2, (1, 3), 9):
        case(
            lambda xp, a, m=mode, n=length: xp.pad(a, (2, 1), m, stat_length=n),
            (4, 3),
            name=f"pad {mode} stat_length {length}",
            domain=distinct,
        )
