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


def frequencies(chx, x, masses):
    """1 if the frequencies of 0, 1, ... are near their probabilities (chi-squared, p < 1e-6)."""
    counts = np.bincount(chx.to_numpy(x), minlength=len(masses))
    assert len(counts) == len(masses)
    expected = np.asarray(masses) * counts.sum()
    # The tail is one class.
    kept = expected >= 10
    classes = [*zip(counts[kept], expected[kept], strict=True)]
    classes.append((counts[~kept].sum(), expected[~kept].sum() + 1e-9))
    chi2 = sum((c - e) ** 2 / e for c, e in classes if e > 1e-6)
    df = len(classes) - 1
    # Wilson and Hilferty's normal approximation.
    z = ((chi2 / df) ** (1 / 3) - (1 - 2 / (9 * df))) / np.sqrt(2 / (9 * df))
    return np.float64(z < 4.9)


def gamma_cdf(a):
    """Of whole a, by the Poisson sum."""

    def cdf(x):
        term = total = np.exp(-x)
        for i in range(1, a):
            term = term * x / i
            total = total + term
        return 1 - total

    return cdf


def log_factorials(n):
    return np.concatenate([[0], np.cumsum(np.log(np.arange(1, n + 1)))])


def poisson_masses(rate, count):
    return np.exp(np.arange(count) * np.log(rate) - rate - log_factorials(count - 1))


def binomial_masses(n, p):
    k = np.arange(n + 1)
    logs = log_factorials(n)
    return np.exp(logs[n] - logs - logs[::-1] + k * np.log(p) + (n - k) * np.log1p(-p))


def check_row(op, name, call):
    row(op, call, lambda: np.float64(1), [], name=f"{op}-{name}")


def full(chx, value, dtype="float64", n=N):
    return chx.full((n,), value, dtype)


for a in (1, 3, 40):
    for dtype in ("float32", "float64"):
        check_row(
            "random_gamma",
            f"{a}-{dtype}",
            lambda chx, a=a, d=dtype: looks(
                chx, chx._core._random_of("random_gamma", full(chx, a, d)), gamma_cdf(a)
            ),
        )
# The square of a normal number is twice a gamma one.
check_row(
    "random_gamma",
    "half",
    lambda chx: looks(
        chx,
        chx._core._random_of("random_gamma", full(chx, 0.5)),
        lambda x: 2 * normal_cdf(np.sqrt(2 * x)) - 1,
    ),
)
for rate, most in ((0.3, 20), (4.0, 60), (9.9, 80), (12.0, 90), (250.0, 600)):
    check_row(
        "random_poisson",
        str(rate),
        lambda chx, r=rate, m=most: frequencies(
            chx, chx._core._random_of("random_poisson", full(chx, r)), poisson_masses(r, m)
        ),
    )
for n, p in ((1, 0.3), (10, 0.5), (30, 0.02), (30, 0.98), (40, 0.5), (500, 0.1), (500, 0.9)):
    check_row(
        "random_binomial",
        f"{n}-{p}",
        lambda chx, n=n, p=p: frequencies(
            chx,
            chx._core._random_of("random_binomial", full(chx, n, "int64"), full(chx, p)),
            binomial_masses(n, p),
        ),
    )


def strange(chx, op, *parameters):
    """As float64, in which -1 says that there is no such number."""
    arrays = [chx.array(np.asarray(p)) for p in parameters]
    return chx._core._random_of(op, *arrays).astype("float64")


nan, inf = np.nan, np.inf
for op, parameters, want in (
    ("random_gamma", [[0.0, -1.0, nan, inf]], [0, nan, nan, inf]),
    ("random_poisson", [[0.0, -1.0, nan, inf]], [0, -1, -1, -1]),
    (
        "random_binomial",
        [[0, 5, 5, 5, 5, -1, 2**62], [0.5, 0.0, 1.0, nan, 1.5, 0.5, 1.0]],
        [0, 0, 5, -1, -1, -1, 2.0**62],
    ),
):
    row(
        op,
        lambda chx, op=op, p=parameters: strange(chx, op, *p),
        lambda w=want: np.array(w, "float64"),
        [],
        name=f"{op}-strange",
    )
