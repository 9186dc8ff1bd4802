"""Functions made of operators, against NumPy."""

import chx
import numpy as np
import pytest

SEED = np.random.SeedSequence().entropy % 2**32


@pytest.fixture(scope="module", autouse=True)
def session():
    print("seed", SEED)
    with chx.connect() as session:
        yield session


@pytest.fixture
def rng():
    return np.random.default_rng(SEED)


def check(got, want, exact=False):
    want = np.asarray(want)
    got = chx.to_numpy(got) if isinstance(got, chx.ndarray) else np.asarray(got)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if exact:
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ii", [(3, 3)]),
        ("ii->i", [(3, 3)]),
        ("ij->ji", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("i,i", [(4,), (4,)]),
        ("bij,bjk->bik", [(5, 2, 3), (5, 3, 4)]),
        ("...ij,...jk->...ik", [(5, 1, 2, 3), (6, 3, 4)]),
        ("...i,i", [(2, 3, 4), (4,)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
        ("iij,jk->ki", [(2, 2, 3), (3, 4)]),
        ("abc,cd,bd->a", [(2, 3, 4), (4, 5), (3, 5)]),
        ("i,->i", [(3,), ()]),
        ("ij,ij->ij", [(2, 3), (2, 3)]),
        ("ij,kj->k", [(0, 3), (2, 3)]),
    ],
)
def test_einsum(rng, subscripts, shapes):
    arrays = [rng.standard_normal(s) for s in shapes]
    leaves = [chx.array(a).require_grad() for a in arrays]
    got = chx.einsum(subscripts, *leaves)
    want = np.einsum(subscripts, *arrays)
    check(got, want)
    # By the directional derivative: einsum is linear in each operand.
    weight = rng.standard_normal(want.shape)
    chx.sum(got * chx.array(weight)).backward()
    for i, (leaf, array) in enumerate(zip(leaves, arrays, strict=True)):
        step = rng.standard_normal(array.shape)
        change = np.einsum(subscripts, *arrays[:i], step, *arrays[i + 1 :])
        gradient = chx.to_numpy(leaf.grad)
        np.testing.assert_allclose((gradient * step).sum(), (weight * change).sum(), atol=1e-10)


@pytest.mark.parametrize("subscripts", ["ij,jk", "ij->ik", "i1->i", "ijk->i", "ij->ii"])
def test_einsum_refuses(subscripts):
    with pytest.raises(ValueError, match="einsum"):
        chx.einsum(subscripts, chx.ones((2, 3)))


def test_products(rng):
    a, b, c = rng.standard_normal((2, 3)), rng.standard_normal((4, 3)), rng.standard_normal((3, 5))
    x, y, z = map(chx.array, (a, b, c))
    check(chx.outer(x, y), np.outer(a, b))
    check(chx.inner(x, y), np.inner(a, b))
    check(chx.kron(x, y), np.kron(a, b))
    check(chx.kron(x[0], y), np.kron(a[0], b))
    check(chx.vdot(x, x), np.vdot(a, a))
    check(chx.tensordot(x, z, 1), np.tensordot(a, c, 1))
    check(chx.tensordot(x, y, ([1], [-1])), np.tensordot(a, b, ([1], [-1])))
    check(chx.tensordot(x, y, 0), np.tensordot(a, b, 0))
    with pytest.raises(chx.DimensionError):
        chx.tensordot(x, y, 1)


def test_differences_and_means(rng):
    a = rng.standard_normal((4, 5))
    w = rng.random((4, 5))
    x = chx.array(a)
    for n, axis in ((1, -1), (2, 0), (0, 1)):
        check(chx.diff(x, n, axis), np.diff(a, n, axis))
    check(chx.diff(chx.array(a > 0)), np.diff(a > 0))
    check(chx.average(x), np.average(a))
    check(chx.average(x, 1, chx.array(w)), np.average(a, 1, w))
    check(chx.average(x, 0, chx.array(w[:, 0])), np.average(a, 0, w[:, 0]))
    check(chx.cov(x), np.cov(a))
    for q in (0.3, [0.0, 0.25, 1.0]):
        for axis in (None, 0, 1):
            check(chx.quantile(x, q, axis), np.quantile(a, q, axis))
    check(chx.percentile(chx.array([3, 1, 2]), 50), np.percentile([3, 1, 2], 50))


def test_searching(rng):
    a = np.sort(rng.integers(0, 9, 20)).astype(float)
    v = rng.integers(-1, 10, (3, 7)).astype(float)
    for side in ("left", "right"):
        check(chx.searchsorted(chx.array(a), chx.array(v), side), np.searchsorted(a, v, side))
    edges = np.array([0.0, 1.0, 2.5, 7.0])
    for right in (False, True):
        check(chx.digitize(chx.array(v), chx.array(edges), right), np.digitize(v, edges, right))
    check(chx.flatnonzero(chx.array(v > 4)), np.flatnonzero(v > 4))
    check(chx.argwhere(chx.array(v > 4)), np.argwhere(v > 4))
    assert chx.array_equal(chx.array(v), chx.array(v))
    assert not chx.array_equal(chx.array(v), chx.array(v + 1))
    assert not chx.array_equal(chx.array(v), chx.array(v[0]))
    assert chx.array_equal(chx.array([np.nan]), chx.array([np.nan]), equal_nan=True)


def test_counting(rng):
    x = rng.integers(0, 6, 50)
    w = rng.random(50)
    check(chx.bincount(chx.array(x)), np.bincount(x))
    check(chx.bincount(chx.array(x), minlength=9), np.bincount(x, minlength=9))
    check(chx.bincount(chx.array(x), chx.array(w)), np.bincount(x, w))
    check(chx.bincount(chx.zeros(0, "int64")), np.bincount(np.zeros(0, int)))
    with pytest.raises(ValueError):
        chx.bincount(chx.array([-1]))
    a = rng.standard_normal(200)
    for kwargs in ({}, {"bins": 7, "range": (-1.0, 0.5)}):
        for got, want in zip(
            chx.histogram(chx.array(a), **kwargs), np.histogram(a, **kwargs), strict=True
        ):
            check(got, want)
    values = rng.integers(0, 5, (4, 6)).astype(float)
    values[0, :3] = np.nan
    got = chx.unique(chx.array(values), True, True, True)
    want = np.unique(values, True, True, True)
    for g, w in zip(got, want, strict=True):
        check(g, np.asarray(w).reshape(g.shape), exact=True)
    check(chx.unique(chx.zeros((0,))), np.unique(np.zeros(0, np.float32)))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_put_along_axis(rng, axis):
    a = rng.standard_normal((3, 4))
    indices = np.argmax(a, axis=axis, keepdims=True)
    x = chx.array(a)
    chx.put_along_axis(x, chx.array(indices), 9.0, axis)
    np.put_along_axis(a, indices, 9.0, axis)
    check(x, a)


def test_numpys_functions_take_our_arrays(rng):
    a = rng.standard_normal((3, 4))
    x = chx.array(a)
    for got in (np.sum(x, axis=0), np.mean(x), np.concatenate([x, x]), np.tanh(a)):
        assert got is not None
    assert isinstance(np.sum(x, axis=0), chx.ndarray)
    check(np.sum(x, axis=0), a.sum(axis=0))
    check(np.transpose(x), a.T)
    check(np.where(x > 0, x, 0.0), np.where(a > 0, a, 0.0))
    with pytest.raises(TypeError):
        np.busday_count(x, x)


def test_dlpack(rng):
    a = rng.standard_normal((3, 4)).astype("float32")
    check(np.from_dlpack(chx.array(a)), a)
    check(chx.from_dlpack(a), a)


def test_generator():
    def draw():
        rng = chx.random.default_rng(SEED)
        return [
            rng.exponential(2.0, 20000),
            rng.gumbel(1.0, 2.0, 20000),
            rng.laplace(1.0, 2.0, 20000),
            rng.logistic(1.0, 2.0, 20000),
            rng.rayleigh(2.0, 20000),
            rng.weibull(1.5, 20000),
            rng.pareto(5.0, 20000),
            rng.lognormal(0.0, 0.5, 20000),
            rng.integers(3, 7, 20000).astype("float64"),
            rng.binomial(10, 0.3, 20000).astype("float64"),
            rng.bernoulli(0.3, 20000).astype("float64"),
        ]

    import math

    moments = [
        (2.0, 2.0),
        (1 + 2 * np.euler_gamma, 2 * np.pi / 6**0.5),
        (1.0, 8**0.5),
        (1.0, 2 * np.pi / 3**0.5),
        (2 * (np.pi / 2) ** 0.5, 2 * (2 - np.pi / 2) ** 0.5),
        (math.gamma(1 + 1 / 1.5), (math.gamma(1 + 2 / 1.5) - math.gamma(1 + 1 / 1.5) ** 2) ** 0.5),
        (0.25, (5 / (16 * 3)) ** 0.5),
        (np.exp(0.125), ((np.exp(0.25) - 1) * np.exp(0.25)) ** 0.5),
        (4.5, (15 / 12) ** 0.5),
        (3.0, 2.1**0.5),
        (0.3, 0.21**0.5),
    ]
    first, second = draw(), draw()
    for x, again, (mean, deviation) in zip(first, second, moments, strict=True):
        assert chx.array_equal(x, again)
        # Seven deviations of the mean's own.
        assert abs(float(x.mean()) - mean) < 7 * deviation / 20000**0.5
        assert abs(float(chx.std(x)) / deviation - 1) < 0.25


def test_generator_orders_and_chooses():
    rng = chx.random.default_rng(SEED)
    assert sorted(rng.permutation(100).tolist()) == list(range(100))
    x = chx.arange(20)
    rng.shuffle(x)
    assert sorted(x.tolist()) == list(range(20)) and x.tolist() != list(range(20))
    chosen = rng.choice(10, 6, replace=False).tolist()
    assert len(set(chosen)) == 6 and set(chosen) <= set(range(10))
    p = chx.array([0.0, 0.7, 0.3])
    for replace, size in ((True, 500), (False, 2)):
        assert 0 not in rng.choice(3, size, replace, p).tolist()
    drawn = rng.choice(chx.array([5.0, 6.0, 7.0]), (200, 3), p=p)
    assert abs(float((drawn == 6.0).astype("float64").mean()) - 0.7) < 0.15
    with pytest.raises(ValueError):
        rng.choice(3, 4, replace=False)
    covariance = chx.array([[2.0, 0.5], [0.5, 1.0]])
    z = rng.multivariate_normal(chx.array([1.0, -1.0]), covariance, 20000)
    np.testing.assert_allclose(chx.to_numpy(chx.cov(z.T)), chx.to_numpy(covariance), atol=0.15)
    np.testing.assert_allclose(chx.to_numpy(z.mean(axis=0)), [1.0, -1.0], atol=0.1)
