"""chx.random.Generator against samples of NumPy's, by the two-sample Kolmogorov-Smirnov test."""

import math

import chx
import numpy as np
import pytest

SEED = np.random.SeedSequence().entropy % 2**32
N = 20000
# The statistic above which samples of one distribution are with p < 1e-7 (and less if discrete).
LIMIT = np.sqrt(-0.5 * np.log(0.5e-7)) * np.sqrt(2 / N)


@pytest.fixture(scope="module", autouse=True)
def session():
    print("seed", SEED)
    with chx.connect() as session:
        session.seed(SEED)
        yield session


def distance(x, y):
    """The greatest difference between the empirical distributions."""
    both = np.sort(np.concatenate([x, y]))
    below = [np.searchsorted(np.sort(s), both, side="right") / len(s) for s in (x, y)]
    return np.max(np.abs(below[0] - below[1]))


CONTINUOUS = [
    ("uniform", (1.0, 3.0)),
    ("normal", (1.0, 2.0)),
    ("lognormal", (0.0, 0.5)),
    ("standard_exponential", ()),
    ("exponential", (2.0,)),
    ("weibull", (1.5,)),
    ("rayleigh", (2.0,)),
    ("pareto", (3.0,)),
    ("power", (0.7,)),
    ("power", (3.0,)),
    ("gumbel", (1.0, 2.0)),
    ("logistic", (1.0, 2.0)),
    ("laplace", (1.0, 2.0)),
    ("standard_cauchy", ()),
    ("triangular", (-1.0, 0.5, 3.0)),
    ("triangular", (0.0, 0.0, 3.0)),
    ("standard_gamma", (0.3,)),
    ("gamma", (2.5, 3.0)),
    ("chisquare", (3.5,)),
    ("noncentral_chisquare", (3.5, 2.0)),
    ("f", (4.0, 7.0)),
    ("noncentral_f", (4.0, 7.0, 2.0)),
    ("standard_t", (3.0,)),
    ("beta", (0.5, 2.0)),
    ("beta", (0.05, 0.1)),
    ("wald", (2.0, 3.0)),
    ("wald", (9.0, 0.2)),
    ("vonmises", (0.5, 4.0)),
    ("vonmises", (-3.0, 0.01)),
    ("vonmises", (1.0, 0.0)),
]
DISCRETE = [
    ("binomial", (10, 0.3)),
    ("binomial", (400, 0.7)),
    ("binomial", (2**40, 1e-12)),
    ("poisson", (3.0,)),
    ("poisson", (1e10,)),
    ("geometric", (0.2,)),
    ("geometric", (1e-9,)),
    ("negative_binomial", (2.5, 0.3)),
    ("hypergeometric", (30, 20, 15)),
    ("hypergeometric", (5, 3000, 2000)),
    ("logseries", (0.9,)),
    ("logseries", (0.1,)),
    ("zipf", (1.7,)),
    ("zipf", (4.0,)),
    ("integers", (3, 9)),
]


def ids(row):
    return f"{row[0]}-{'-'.join(map(str, row[1]))}"


@pytest.mark.parametrize("row", CONTINUOUS, ids=ids)
def test_continuous(row):
    name, parameters = row
    x = getattr(chx.random.Generator(), name)(*parameters, N)
    y = getattr(np.random.default_rng(SEED), name)(*parameters, N)
    assert x.dtype == "float64" and x.shape == (N,)
    assert distance(chx.to_numpy(x), y) < LIMIT
    single = getattr(chx.random.Generator(), name)(*parameters, N, dtype="float32")
    assert single.dtype == "float32"
    assert distance(chx.to_numpy(single), y.astype("float32")) < LIMIT


@pytest.mark.parametrize("row", DISCRETE, ids=ids)
def test_discrete(row):
    name, parameters = row
    x = getattr(chx.random.Generator(), name)(*parameters, N)
    y = getattr(np.random.default_rng(SEED), name)(*parameters, N)
    assert x.dtype == "int64" and x.shape == (N,)
    assert distance(chx.to_numpy(x), y) < LIMIT


# In half of the elements one value of the parameters, and another one in the others.
VARIED = [
    ("normal", ((1.0, -4.0), 2.0)),
    ("uniform", (0.0, (1.0, 9.0))),
    ("gamma", ((0.5, 8.0), (1.0, 2.0))),
    ("beta", ((0.5, 8.0), 2.0)),
    ("exponential", ((1.0, 9.0),)),
    ("triangular", ((0.0, 5.0), 6.0, 8.0)),
    ("wald", ((0.5, 5.0), 1.0)),
    ("poisson", ((1.0, 50.0),)),
    ("binomial", (20, (0.1, 0.8))),
    ("geometric", ((0.1, 0.8),)),
    ("negative_binomial", ((1.0, 6.0), 0.4)),
    ("logseries", ((0.1, 0.9),)),
]


@pytest.mark.parametrize("row", VARIED, ids=ids)
def test_parameters_are_arrays(row):
    name, parameters = row
    arrays = [np.repeat(p, N // 2) if isinstance(p, tuple) else p for p in parameters]
    device = [chx.array(a) if isinstance(a, np.ndarray) else a for a in arrays]
    x = chx.to_numpy(getattr(chx.random.Generator(), name)(*device))
    y = getattr(np.random.default_rng(SEED), name)(*arrays)
    assert x.shape == (N,)
    for half in (slice(N // 2), slice(N // 2, N)):
        assert distance(x[half], y[half]) < LIMIT * np.sqrt(2)


def test_gradients_flow_to_location_and_scale():
    loc = chx.array([1.0, 2.0]).require_grad()
    scale = chx.array([3.0, 4.0]).require_grad()
    z = chx.random.Generator().normal(loc, scale)
    z.sum().backward()
    np.testing.assert_allclose(chx.to_numpy(loc.grad), [1, 1])
    want = (chx.to_numpy(z) - chx.to_numpy(loc)) / chx.to_numpy(scale)
    np.testing.assert_allclose(chx.to_numpy(scale.grad), want)


def test_vectors():
    rng = chx.random.Generator()
    alpha = np.array([0.5, 2.0, 0.02])
    x = chx.to_numpy(rng.dirichlet(alpha, N))
    y = np.random.default_rng(SEED).dirichlet(alpha, N)
    np.testing.assert_allclose(x.sum(1), 1)
    for i in range(3):
        assert distance(x[:, i], y[:, i]) < LIMIT
    assert rng.dirichlet(chx.array(alpha), (2, 4)).shape == (2, 4, 3)
    p = [0.1, 0.6, 0.0, 0.3]
    counts = chx.to_numpy(rng.multinomial(50, p, N))
    assert (counts.sum(1) == 50).all() and counts.dtype == "int64"
    want = np.random.default_rng(SEED).multinomial(50, p, N)
    for i in range(4):
        assert distance(counts[:, i], want[:, i]) < LIMIT


def test_beta_values_near_0():
    # NumPy 1.24 has too many of them. Below t there are t ** a / (a B(a, b)), but for terms of t.
    a, b = 1e-3, 2e-3
    x = chx.to_numpy(chx.random.Generator().beta(a, b, N))
    scale = math.gamma(a + b) / (a * math.gamma(a) * math.gamma(b))
    for t in (1e-300, 1e-200, 1e-100, 1e-10):
        want = t**a * scale
        assert abs((x <= t).mean() - want) < 6 * np.sqrt(want * (1 - want) / N)


def test_draws_repeat_by_their_seed():
    def draw():
        chx.random.seed(SEED)
        rng = chx.random.Generator()
        return [
            rng.gamma(2.0, 1.0, 9),
            rng.poisson(30.0, 9),
            rng.binomial(90, 0.5, 9),
            rng.random(9),
        ]

    for first, second in zip(draw(), draw(), strict=True):
        assert chx.array_equal(first, second)
    # Neighbours don't share numbers.
    assert len(set(chx.random.gamma(2.0, size=1000).tolist())) == 1000


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("normal", (0.0, -1.0)),
        ("gamma", (-1.0,)),
        ("beta", (0.0, 1.0)),
        ("chisquare", (0.0,)),
        ("poisson", (-1.0,)),
        ("poisson", (np.nan,)),
        ("binomial", (-1, 0.5)),
        ("binomial", (5, 1.5)),
        ("geometric", (0.0,)),
        ("hypergeometric", (3, 4, 8)),
        ("zipf", (1.0,)),
        ("logseries", (1.0,)),
        ("multinomial", (5, [0.9, 0.9, 0.1])),
        ("vonmises", (0.0, -1.0)),
        ("dirichlet", ([1.0, -1.0],)),
    ],
)
def test_parameters_are_checked(name, parameters):
    with pytest.raises(ValueError, match=r"^\["):
        getattr(chx.random.Generator(), name)(*parameters)


def test_extremes():
    rng = chx.random.Generator()
    assert rng.binomial(7, 1.0, 3).tolist() == [7] * 3
    assert rng.binomial(7, chx.array([0.0, 2.0])).tolist() == [0, -1]
    assert rng.poisson(chx.array([0.0, -1.0])).tolist() == [0, -1]
    assert rng.geometric(1.0, 3).tolist() == [1] * 3
    assert rng.hypergeometric(4, 0, 3, 2).tolist() == [3, 3]
    assert rng.gamma(0.0, size=2).tolist() == [0, 0]
    assert rng.multinomial(0, [1.0]).tolist() == [0]
    assert rng.gamma(2.0).shape == () and rng.poisson(2.0, (0, 3)).shape == (0, 3)


def test_order_and_bytes():
    rng = chx.random.Generator()
    x = chx.arange(60).reshape(3, 20)
    y = rng.permuted(x, 1)
    assert chx.to_numpy(chx.sort(y, 1)).tolist() == x.tolist() and y.tolist() != x.tolist()
    assert sorted(chx.ravel(rng.permuted(x)).tolist()) == list(range(60))
    data = rng.bytes(1000)
    assert isinstance(data, bytes) and len(data) == 1000 and len(set(data)) > 200


def test_the_modules_functions_are_those_of_a_random_state():
    chx.random.seed(3)
    first = [chx.random.rand(2, 3), chx.random.randn(4), chx.random.randint(9, size=5)]
    state = chx.random.RandomState(3)
    second = [state.rand(2, 3), state.randn(4), state.randint(9, size=5)]
    for x, y in zip(first, second, strict=True):
        assert x.shape == y.shape and chx.array_equal(x, y)
    assert chx.random.random_sample(3).shape == chx.random.poisson(2.0, 3).shape == (3,)
