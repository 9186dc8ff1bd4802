from .table import case

for mode in ("full", "same", "valid"):
    for n, m in ((5, 3), (3, 5), (4, 4), (6, 2), (2, 6), (5, 1)):
        case(
            lambda xp, a, v, mode=mode: xp.convolve(a, v, mode),
            (n,),
            (m,),
            name=f"convolve {mode} {n} {m}",
        )
        case(
            lambda xp, a, v, mode=mode: xp.correlate(a, v, mode),
            (n,),
            (m,),
            name=f"correlate {mode} {n} {m}",
        )
