"""Streams of random numbers: each generator has its own; and what numpy.random refuses is refused."""

import copy
import pickle
import threading

import chx
import numpy as np
import pytest

SEED = int(np.random.SeedSequence().entropy % 2**32)
random = chx.random


@pytest.fixture(scope="module", autouse=True)
def session():
    print("seed", SEED)
    with chx.connect() as session:
        yield session


DRAWS = (
    lambda g: g.random(3),
    lambda g: g.normal(size=(2, 2), dtype="float32"),
    lambda g: g.gamma(2.0, size=3),
    lambda g: g.binomial(9, 0.5, 3),
    lambda g: g.poisson(chx.array([1.0, 50.0])),
    lambda g: g.integers(100, size=4),
    lambda g: g.permutation(5),
    lambda g: g.choice(9, 3, replace=False),
    lambda g: g.zipf(3.0, 2),
)


def values(draws):
    return [chx.to_numpy(x).tolist() for x in draws]


def test_equal_seeds_in_any_interleaving():
    rng = np.random.default_rng(SEED)
    want = values(draw(chx.random.default_rng(3)) for draw in DRAWS[:1])
    for _ in range(5):
        drawn = {chx.random.default_rng(3): [], chx.random.default_rng(3): []}
        todo = list(drawn) * len(DRAWS)
        for g in rng.permutation(np.array(todo, object)):
            drawn[g].append(DRAWS[len(drawn[g])](g))
            if rng.integers(2):
                chx.random.seed(int(rng.integers(9)))
                chx.random.default_rng(4).random(2)
                chx.random.normal(size=2)
        first, second = map(values, drawn.values())
        assert first == second and first[0] == want[0]
    assert want[0] != values([chx.random.default_rng(4).random(3)])[0]


def test_generators_leave_the_session_alone(session):
    chx.random.seed(SEED)
    want = values(random.random(2) for _ in range(3))
    session.seed(SEED)
    got = []
    for i in range(3):
        chx.random.default_rng(i).normal(size=4)
        chx.random.RandomState(i).rand(2)
        got.append(chx.random.Generator().random(2))
    assert values(got) == want


def test_copies_and_pickles_go_on_from_the_same_place():
    for g in (chx.random.default_rng(SEED), chx.random.RandomState(SEED)):
        g.random(5)
        twins = [copy.deepcopy(g), pickle.loads(pickle.dumps(g)), copy.deepcopy(g)]
        want = values(draw(g) for draw in DRAWS)
        for twin in twins:
            assert type(twin) is type(g) and values(draw(twin) for draw in DRAWS) == want


def test_streams_are_independent():
    numbers = [chx.to_numpy(chx.random.default_rng(s).random((20, 500))) for s in range(20)]
    together = np.concatenate(numbers).reshape(400, 500)
    correlations = np.corrcoef(together) - np.eye(400)
    assert abs(correlations).max() < 7 / np.sqrt(500)
    assert len(np.unique(together)) == together.size
    first, second = chx.random.default_rng(), chx.random.default_rng()
    assert first.random() != second.random()


def test_seeds():
    def first(seed):
        return values([chx.random.default_rng(seed).random(2)])

    assert first(5) == first(np.int64(5)) != first([5])
    assert first([1, 2]) == first((1, 2)) == first(np.random.SeedSequence([1, 2]))
    assert first(2**70) == first(2**70) != first(2**70 + 2**64)
    g = chx.random.default_rng(5)
    assert chx.random.default_rng(g) is g
    state = chx.random.RandomState(5)
    want = values([state.rand(2)])
    state.seed(5)
    assert values([state.rand(2)]) == want == first(5)
    chx.random.seed()
    one = values([random.rand(2)])
    chx.random.seed()
    assert values([random.rand(2)]) != one
    with pytest.raises(ValueError, match=r"\[default_rng\] expects a seed from 0 on, got -1"):
        chx.random.default_rng(-1)
    with pytest.raises(TypeError):
        chx.random.default_rng(1.5)
    with pytest.raises(TypeError, match=r"\[Generator\] expects a stream, got int"):
        chx.random.Generator(5)


def test_threads_have_their_own_streams():
    want = values(chx.random.default_rng(s).normal(size=3) for s in range(8))
    found = [None] * 8

    def work(s):
        for _ in range(50):
            found[s] = chx.to_numpy(chx.random.default_rng(s).normal(size=3)).tolist()
            assert found[s] == want[s]

    threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == want


@pytest.mark.parametrize(
    "call",
    [
        lambda g: g.integers(0, 300, dtype="uint8"),
        lambda g: g.integers(-1, 3, dtype="uint8"),
        lambda g: g.integers(0, 3, dtype="bool"),
        lambda g: g.integers(128, dtype="int8", endpoint=True),
        lambda g: g.integers(3, 3),
        lambda g: g.integers([0, 5], [3, 5]),
        lambda g: g.integers([0, 5], [3, 300], dtype="uint8"),
        lambda g: g.choice(5, p=[0.5, 0.5]),
        lambda g: g.choice(2, p=[0.9, 0.9]),
        lambda g: g.choice(2, p=[1.5, -0.5]),
        lambda g: g.choice(2, p=[np.nan, 1]),
        lambda g: g.choice(3, 2, replace=False, p=[1, 0, 0]),
        lambda g: g.choice(3, 4, replace=False),
        lambda g: g.choice(0, 1),
        lambda g: g.choice(-1),
        lambda g: g.choice([], 1),
        lambda g: g.multinomial(-1, [0.5, 0.5]),
        lambda g: g.multinomial([3, -1], [0.5, 0.5]),
        lambda g: g.multinomial(3, [1.7]),
        lambda g: g.multinomial(3, [1.2, -0.2]),
        lambda g: g.multinomial(3, [0.9, 0.9, 0.1]),
        lambda g: g.triangular(1, 0, 3),
        lambda g: g.triangular(0, 4, 3),
        lambda g: g.triangular(1, 1, 1),
        lambda g: g.multivariate_normal([0, 1], [[1.0]]),
        lambda g: g.multivariate_normal([[0, 1]], [[1.0, 0], [0, 1]]),
    ],
)
def test_what_numpy_refuses(call):
    with pytest.raises(ValueError, match=r"^\[\w+\] expects"):
        call(chx.random.default_rng(1))
    with pytest.raises(ValueError):
        call(np.random.default_rng(1))


def test_refused_dtypes():
    with pytest.raises(TypeError, match=r"\[integers\] expects a dtype of integers, got float32"):
        chx.random.default_rng(1).integers(5, dtype="float32")


@pytest.mark.parametrize("given", [chx.array, np.asarray, lambda a: a.tolist()])
def test_integers_between_arrays(given):
    low, high = np.array([[-5], [2**60]]), np.array([[-3], [2**60 + 7]])
    x = chx.to_numpy(chx.random.default_rng(SEED).integers(given(low), given(high), (2, 2000)))
    assert x.dtype == "int64" and x.shape == (2, 2000)
    assert set(x[0]) == {-5, -4} and set(x[1]) == set(range(2**60, 2**60 + 7))
    counts = np.bincount(x[1] - 2**60)
    assert abs(counts - 2000 / 7).max() < 6 * np.sqrt(2000 / 7)
    y = chx.random.default_rng(SEED).integers(given(np.array([1, 3])), endpoint=True, dtype="uint8")
    assert y.dtype == "uint8" and y.shape == (2,)
    assert chx.random.default_rng(1).integers(256, size=9, dtype="uint8").dtype == "uint8"
    assert set(chx.random.default_rng(1).integers(2, size=99, dtype="bool").tolist()) == {
        True,
        False,
    }


@pytest.mark.parametrize("given", [chx.array, np.asarray, lambda a: a.tolist()])
def test_choice(given):
    g = chx.random.default_rng(SEED)
    p = np.array([0.0, 0.7, 0.3])
    x = chx.to_numpy(g.choice(3, 4000, p=given(p)))
    assert abs(np.bincount(x, minlength=3) / 4000 - p).max() < 0.05
    assert sorted(chx.to_numpy(g.choice(3, 2, replace=False, p=given(p)))) == [1, 2]
    a = np.arange(12).reshape(3, 4)
    got = chx.to_numpy(g.choice(given(a), 3, axis=1, replace=False, shuffle=False))
    assert got.shape == (3, 3) and len(set(got[0])) == 3 and (got == got[:1] + a[:, :1]).all()
    assert g.choice(given(a), (2, 5)).shape == (2, 5, 4)
    assert g.choice(0, 0).shape == (0,) and g.choice(np.int64(4)).shape == ()
    with pytest.raises(chx.DimensionError, match=r"\[choice\] expects an axis in \[-2, 2\), got 2"):
        g.choice(given(a), axis=2)


def test_multivariate_normal_of_lists():
    cov = [[2.0, 0.6], [0.6, 1.0]]
    for mean in ([1, -1], np.array([1.0, -1]), chx.array([1.0, -1])):
        for matrix in (cov, np.array(cov), chx.array(cov)):
            x = chx.random.default_rng(SEED).multivariate_normal(mean, matrix, 20000)
            assert x.dtype == "float64"
            np.testing.assert_allclose(chx.to_numpy(x).mean(0), [1, -1], atol=0.06)
            np.testing.assert_allclose(np.cov(chx.to_numpy(x).T), cov, atol=0.12)


@pytest.mark.parametrize("given", [chx.array, np.asarray, lambda a: a.tolist()])
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("normal", ([0, 50], 2.0)),
        ("uniform", ([0.0, 3], [[1.0], [9]])),
        ("gamma", ([0.5, 8.0], 3)),
        ("standard_gamma", ([0.5, 8.0],)),
        ("vonmises", ([0.0, 2], 1.0)),
        ("poisson", ([1.0, 50],)),
        ("binomial", ([5, 60], [0.1, 0.8])),
        ("bernoulli", ([0.1, 0.8],)),
    ],
)
def test_parameters_in_lists(given, name, parameters):
    arrays = [given(np.array(p)) if isinstance(p, list) else p for p in parameters]
    want_arrays = [chx.array(p) if isinstance(p, list) else p for p in parameters]
    draw, same = (getattr(chx.random.default_rng(SEED), name) for _ in range(2))
    got, want = draw(*arrays), same(*want_arrays)
    assert got.shape == np.broadcast_shapes(*(np.shape(p) for p in parameters))
    assert got.dtype == want.dtype and got.tolist() == want.tolist()
    shape = (3, *got.shape)
    assert values([draw(*arrays, shape)]) == values([same(*want_arrays, size=shape)])
    names = {"normal": "loc", "poisson": "lam", "bernoulli": "p"}
    if name in names:
        keyword = {names[name]: arrays[0]}
        assert draw(**keyword).shape == (2,) and draw(size=(5, 2), **keyword).shape == (5, 2)


def test_orders_of_lists_and_counts_of_several():
    g = chx.random.default_rng(SEED)
    assert sorted(g.permutation([5, 7, 9]).tolist()) == [5, 7, 9]
    assert sorted(g.permutation(np.int64(4)).tolist()) == list(range(4))
    assert g.permutation(np.zeros((2, 3)), axis=1).shape == (2, 3)
    assert sorted(g.permuted([5, 7, 9]).tolist()) == [5, 7, 9]
    counts = chx.to_numpy(g.multinomial([3, 50], [0.2, 0.8]))
    assert counts.shape == (2, 2) and counts.sum(1).tolist() == [3, 50]
    with pytest.raises(chx.DimensionError, match=r"\[permutation\] expects an axis in"):
        g.permutation([1, 2], axis=1)
    with pytest.raises(TypeError):
        g.permutation(1.5)


def test_a_copy_has_a_stream_of_its_own():
    rng = chx.random.default_rng(7)
    rng.random(3)
    other = copy.copy(rng)
    np.testing.assert_array_equal(chx.to_numpy(rng.random(4)), chx.to_numpy(other.random(4)))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_bounds_of_small_dtypes(dtype):
    low, high = (0, 255) if dtype == "uint8" else (-100, 100)
    bounds = np.array([low], dtype), np.array([high], dtype)
    drawn = chx.to_numpy(chx.random.default_rng(1).integers(*bounds, size=1000, endpoint=True))
    assert low <= drawn.min() < low + 10 and high - 10 < drawn.max() <= high
    assert chx.random.default_rng(1).integers(0, []).shape == (0,)
