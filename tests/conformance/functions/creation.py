from .table import case

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
