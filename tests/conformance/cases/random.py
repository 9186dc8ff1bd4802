"""Random operators have no reference values: their distribution is what is checked."""

import numpy as np

from ..table import row

N = 20000


def looks(chx, x, cdf):
    """1 if the Kolmogorov-Smirnov distance to a distribution is small (p < 1e-6 for N values)."""
    values = np.sort(chx.to_numpy(x).astype("float64"))
    steps = np.arange(1, N + 1) / N
    distance = np.max(np.abs(cdf(values) - steps + 0.5 / N))
    return np.float64(distance < 2.7 / np.sqrt(N))


def normal_cdf(x):
    # Abramowitz and Stegun 26.2.17, |error| < 7.5e-8.
    t = 1 / (1 + 0.2316419 * np.abs(x))
    poly = t * (
        0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429)))
    )
    tail = np.exp(-x * x / 2) / np.sqrt(2 * np.pi) * poly
    return np.where(x > 0, 1 - tail, tail)


for dtype in ("float32", "float64"):
    row(
        "random_uniform",
        lambda chx, d=dtype: looks(
            chx, chx.random.uniform(1, 3, (N,), dtype=d), lambda x: (x - 1) / 2
        ),
        lambda: np.float64(1),
        [],
        name=f"random_uniform-{dtype}",
    )
    row(
        "random_normal",
        lambda chx, d=dtype: looks(
            chx, chx.random.normal(1, 2, (N,), dtype=d), lambda x: normal_cdf((x - 1) / 2)
        ),
        lambda: np.float64(1),
        [],
        name=f"random_normal-{dtype}",
    )
