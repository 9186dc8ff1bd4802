import numpy as np

from .table import case, distinct

for method in ("inverted_cdf", "averaged_inverted_cdf", "hazen", "weibull", "median_unbiased"):
    case(
        lambda xp, a, m=method: xp.quantile(a, [0.1, 0.5, 0.83], 1, method=m),
        (3, 5),
        name=f"quantile {method}",
        domain=distinct,
        ints=False,
    )
case(lambda xp, a: xp.median(a, (0, 2)), (3, 2, 3), name="median axes", domain=distinct)
case(lambda xp, a: xp.var(a, 0, ddof=1.5), (4, 3), name="var fraction", ints=False)
case(lambda xp, a: xp.std(a, ddof=0.5), (4, 3), name="std fraction", ints=False)
case(lambda xp, a: xp.roll(a, (1, -2, 1), (0, 1, 1)), (3, 4), name="roll shifts")
case(lambda xp, a: xp.expand_dims(a, (0, -1)), (3, 4), name="expand_dims axes")
case(lambda xp, a: xp.flip(a, axis=(0, -1)), (3, 4), name="flip axis")
case(lambda xp, a: xp.trace(a, 1, 0, 2, dtype="float64"), (3, 2, 4), name="trace dtype")
case(lambda xp, a: xp.nancumsum(a, 1), (3, 4), name="nancumsum")
case(lambda xp, a: xp.nancumprod(a, 0), (3, 4), name="nancumprod")
case(lambda xp, a: xp.unique(a // 1, axis=0), (6, 2), name="unique rows", grad=[])
case(
    lambda xp, a: xp.take_along_axis(a, xp.array([[0, -1, 1]]), 1),
    (3, 4),
    name="take_along_axis broadcast",
)
case(
    lambda xp, a, b, c: xp.einsum("ij,jk,kl->il", a, b, c, optimize="greedy"),
    (2, 3),
    (3, 4),
    (4, 2),
    name="einsum path",
)
case(
    lambda xp, a, b: xp.einsum(a, [0, 1, ...], b, [1, 2], [..., 2, 0]),
    (2, 3, 2),
    (3, 4),
    name="einsum lists",
)
case(
    lambda xp, a: xp.digitize(a, xp.array([1.5, 0.5, -0.5])),
    (3, 4),
    name="digitize falling",
    grad=[],
)
case(
    lambda xp, a: xp.linalg.pinv(a, xp.array([1e-15, 0.9])),
    (2, 3, 2),
    name="pinv tolerances",
    ints=False,
    domain=lambda rng, shape: np.linalg.qr(rng.standard_normal((2, 3, 2)))[0] * [2.0, 1.0],
)
