import numpy as np

from .table import case, distinct

for axis in (None, 0, 1, (0, 2), -1):
    for q in (0.3, [0.0, 0.5, 1.0], [[0.1, 0.9]]):
        case(
            lambda xp, a, q=q, axis=axis: xp.quantile(a, q, axis=axis),
            (3, 4, 2),
            name=f"quantile {axis} {np.ndim(q)}",
            domain=distinct,
        )


def with_nan(rng, shape):
    values = distinct(rng, shape)
    values[rng.random(shape) < 0.3] = np.nan
    values[..., 0] = 0.5  # never all of a row
    return values


for method in ("lower", "higher", "nearest", "midpoint"):
    case(
        lambda xp, a, m=method: xp.quantile(a, [0.2, 0.5, 0.77], axis=1, method=m),
        (3, 6),
        name=f"quantile {method}",
        ints=False,
        domain=distinct,
    )
    case(
        lambda xp, a, m=method: xp.nanpercentile(a, [20, 50, 77], axis=1, method=m),
        (3, 6),
        name=f"nanpercentile {method}",
        grad=[],
        ints=False,
        domain=with_nan,
    )
case(
    lambda xp, a: xp.percentile(a, [10, 60], axis=1, keepdims=True),
    (3, 4),
    name="percentile keepdims",
    domain=distinct,
)
case(
    lambda xp, a: xp.quantile(a, 0.5, 1),
    (4, 6),
    name="quantile nan",
    grad=[],
    ints=False,
    domain=with_nan,
)
for axis in (0, 1, (0, 1), None):
    case(
        lambda xp, a, axis=axis: xp.nanquantile(a, [0.25, 0.6], axis=axis, keepdims=True),
        (5, 6),
        name=f"nanquantile {axis}",
        grad=[],
        ints=False,
        domain=with_nan,
    )
    case(
        lambda xp, a, axis=axis: xp.nanmedian(a, axis=axis),
        (5, 6),
        name=f"nanmedian {axis}",
        domain=distinct,
    )
case(
    lambda xp, a: xp.nanmedian(a, 1),
    (2, 3),
    name="nanmedian of nothing",
    grad=[],
    ints=False,
    domain=lambda rng, shape: np.array([[np.nan] * 3, [1, np.nan, 2]]),
)
case(lambda xp, a: xp.average(a, 1, keepdims=True), (3, 4), name="average keepdims", ints=False)
case(
    lambda xp, a, w: xp.average(a, 1, w, returned=True),
    (3, 4),
    (4,),
    name="average returned",
    ints=False,
    domain=(0.5, 2.0),
)
case(
    lambda xp, a, w: xp.average(a, (0, 1), w),
    (3, 4),
    (3, 4),
    name="average weighted",
    ints=False,
    domain=(0.5, 2.0),
)
for name, keywords in {
    "plain": {},
    "columns": {"rowvar": False},
    "bias": {"bias": True},
    "ddof": {"ddof": 2},
    "fweights": {"fweights": np.array([1, 2, 1, 3])},
    "aweights": {"aweights": np.array([1.0, 0.5, 2.0, 0.25])},
    "both": {"fweights": np.array([1, 2, 1, 3]), "aweights": np.array([1.0, 0.5, 2.0, 0.25])},
}.items():
    shape = (4, 3) if name == "columns" else (3, 4)
    case(lambda xp, m, k=keywords: xp.cov(m, **k), shape, name=f"cov {name}")
case(lambda xp, m, y: xp.cov(m, y), (2, 4), (4,), name="cov two")
case(lambda xp, m: xp.cov(m), (5,), name="cov vector")
case(lambda xp, m: xp.corrcoef(m), (3, 5), name="corrcoef", domain=distinct)
case(lambda xp, m: xp.corrcoef(m, rowvar=False), (5, 2), name="corrcoef columns", domain=distinct)
for method in ("inverted_cdf", "averaged_inverted_cdf", "hazen", "weibull", "median_unbiased"):
    case(
        lambda xp, a, m=method: xp.quantile(a, [0.1, 0.5, 0.83], 1, method=m),
        (3, 5),
        name=f"quantile {method}",
        domain=distinct,
        ints=False,
    )
case(lambda xp, a: xp.median(a, (0, 2)), (3, 2, 3), name="median axes", ints=False, domain=distinct)
case(lambda xp, a: xp.var(a, 0, ddof=1.5), (4, 3), name="var fraction", ints=False)
case(lambda xp, a: xp.std(a, ddof=0.5), (4, 3), name="std fraction", ints=False)
