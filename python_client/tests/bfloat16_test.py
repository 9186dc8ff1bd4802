"""bfloat16: NumPy's through ml_dtypes, promotion as JAX has it, and what passes in and out."""

import copy
import pickle
import subprocess
import sys

import chx
import ml_dtypes
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("seeded_session")

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def values(rng, *shape):
    return rng.normal(size=shape).astype(BFLOAT16)


@pytest.mark.parametrize(
    "dtype", ["bfloat16", chx.bfloat16, BFLOAT16, ml_dtypes.bfloat16], ids=repr
)
def test_names(dtype):
    a = chx.zeros((2, 3), dtype)
    assert a.dtype == BFLOAT16 and a.dtype.name == "bfloat16" and a.itemsize == 2
    assert a.astype("float32").dtype == "float32" and a.astype(dtype).dtype == BFLOAT16


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (5, 7)])
def test_values_pass_in_and_out(rng, shape):
    x = values(rng, *shape)
    a = chx.array(x)
    assert a.dtype == BFLOAT16 and a.shape == shape
    for got in (chx.to_numpy(a), np.asarray(a), chx.to_numpy(a, copy=False)):
        assert got.dtype == BFLOAT16
        np.testing.assert_array_equal(got, x)
    assert a.tolist() == x.astype("float32").tolist()


def test_layouts(rng):
    x = values(rng, 6, 5)
    a = chx.array(x)
    for part in (np.s_[::-1, ::2], np.s_[1:1], np.s_[:, 3], np.s_[..., None]):
        np.testing.assert_array_equal(chx.to_numpy(a[part]), x[part])
    np.testing.assert_array_equal(chx.to_numpy(a.T), x.T)
    np.testing.assert_array_equal(chx.to_numpy(chx.array(x.T)), x.T)
    shared = chx.to_numpy(a, copy=False)
    shared[0, 0] = 3
    assert float(a[0, 0]) == 3
    assert chx.array(shared, copy=False) is not None


def test_scalars_and_text(rng):
    a = chx.array([1.5, float("nan"), -0.0], "bfloat16")
    assert a[0].item() == 1.5 and np.isnan(float(a[1])) and np.signbit(float(a[2]))
    assert "bfloat16" in repr(a) and "1.5" in repr(a)
    assert (a * ml_dtypes.bfloat16(2))[0].item() == 3
    big = chx.array(3.4e38, "float32").astype("bfloat16")
    assert float(big) == np.inf  # past the greatest one, 3.39e38


def test_casts_round_to_the_nearest_even_one(rng):
    x = np.concatenate([rng.normal(size=1000), np.ldexp(rng.normal(size=1000), 100)])
    x = np.append(x, [1 + 2**-8, 1 + 3 * 2**-8, 1e-40, -1e-45, np.inf, -np.inf, np.nan])
    for dtype in ("float32", "float16"):
        with np.errstate(all="ignore"):
            given = x.astype(dtype)
            want = given.astype(BFLOAT16)
        got = chx.to_numpy(chx.array(given).astype("bfloat16"))
        # NumPy knows no NaNs of bfloat16.
        np.testing.assert_array_equal(got.astype("float32"), want.astype("float32"))
    for dtype in ("int8", "int32", "int64", "uint8", "bool"):
        n = rng.integers(0, 100, 50).astype(dtype)
        np.testing.assert_array_equal(
            chx.to_numpy(chx.array(n).astype("bfloat16")), n.astype(BFLOAT16)
        )
        back = chx.array(n.astype(BFLOAT16)).astype(dtype)
        np.testing.assert_array_equal(chx.to_numpy(back), n.astype(BFLOAT16).astype(dtype))


PROMOTED = {
    "bool": "bfloat16",
    "int8": "bfloat16",
    "int16": "bfloat16",
    "int32": "bfloat16",
    "int64": "bfloat16",
    "uint8": "bfloat16",
    "bfloat16": "bfloat16",
    "float16": "float32",
    "float32": "float32",
    "float64": "float64",
}


@pytest.mark.parametrize("other", PROMOTED)
def test_promotion(other):
    a, b = chx.ones(2, "bfloat16"), chx.ones(2, other)
    if other != "bool":  # which ChainerX does not add
        assert (a + b).dtype == PROMOTED[other] and (b * a).dtype == PROMOTED[other]
    assert chx.concatenate([a, b]).dtype == PROMOTED[other]
    assert chx.result_type(a, b) == PROMOTED[other]


@pytest.mark.parametrize("scalar", [True, 2, 2.5])
def test_scalars_do_not_widen(scalar):
    assert (chx.ones(2, "bfloat16") * scalar).dtype == BFLOAT16


def test_sums_and_products_are_of_float32(rng):
    ones = chx.ones(10_000, "bfloat16")
    assert float(chx.sum(ones)) == 9984  # the nearest to 10,000; sums in bfloat16 stop at 256
    assert float(chx.mean(ones)) == 1
    x, y = values(rng, 30, 400), values(rng, 400, 20)
    want = x.astype("float64") @ y.astype("float64")
    got = chx.to_numpy(chx.matmul(chx.array(x), chx.array(y))).astype("float64")
    np.testing.assert_allclose(got, want, rtol=2**-8, atol=1e-4)


def test_gradients_are_of_the_dtypes_of_what_they_belong_to(rng):
    x = chx.array(values(rng, 4, 3)).require_grad()
    w = chx.array(rng.normal(size=(3, 2)).astype("float32")).require_grad()
    y = chx.tanh(x @ w.astype("bfloat16"))
    assert y.dtype == BFLOAT16
    y.sum().backward()
    assert x.grad.dtype == BFLOAT16 and w.grad.dtype == "float32"


@pytest.mark.parametrize("name", ["uniform", "normal"])
def test_random(name):
    chx.random.seed(3)
    a = getattr(chx.random, name)(size=1000).astype("bfloat16")
    assert a.dtype == BFLOAT16
    dropped = chx.to_numpy(chx.dropout(chx.ones(1000, "bfloat16"), 0.5)).astype("float32")
    assert set(dropped.tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("low, high", [(0, 1), (-3, 0.25), (5, 6)])
def test_uniform_numbers_of_its_own(low, high):
    drawn = chx.random.uniform(low, high, size=100_000, dtype="bfloat16")
    assert drawn.dtype == BFLOAT16
    x = chx.to_numpy(drawn).astype("float64")
    assert low <= x.min() and x.max() < high
    last = high - 2**-7 * max(abs(low), abs(high))
    assert x.min() < low + (high - low) / 50 and x.max() > last - (high - low) / 50
    # Six deviations of the mean, and the rounding of a number.
    error = (high - low) * 6 / np.sqrt(12 * x.size) + 2**-9 * max(abs(low), abs(high))
    assert abs(x.mean() - (low + high) / 2) < error


@pytest.mark.parametrize("low, high", [(0, 1), (-3, 0.25), (5, 6), (-2, -1), (-1, 0)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_uniform_numbers_are_below_the_end(low, high, dtype):
    drawn = chx.random.uniform(low, high, size=1_000_000, dtype=dtype)
    assert low <= float(chx.min(drawn)) and float(chx.max(drawn)) < high


def test_uniform_numbers_near_the_end_are_the_last_below_it():
    """Half of those in float32 between 2^24 and 2^24 + 2 are nearer to the end."""
    drawn = chx.random.uniform(2**24, 2**24 + 2, size=1000, dtype="float32")
    assert set(chx.to_numpy(drawn).tolist()) == {2.0**24}
    drawn = chx.random.uniform(-(2**24), -(2**24) + 1, size=1000, dtype="float32")
    assert set(chx.to_numpy(drawn).tolist()) == {-(2.0**24)}


def test_normal_numbers_of_its_own():
    drawn = chx.random.normal(2, 3, size=100_000, dtype="bfloat16")
    assert drawn.dtype == BFLOAT16
    x = (chx.to_numpy(drawn).astype("float64") - 2) / 3
    assert abs(x.mean()) < 0.02 and abs(x.std() - 1) < 0.02
    assert 3.5 < np.abs(x).max() < 7
    assert abs(np.mean(np.abs(x) < 1) - 0.683) < 0.01


def test_dlpack_of_pytorchs_kind(rng):
    a = chx.array(values(rng, 3, 4))
    memory = chx._core._dlpack_import(a.__dlpack__(max_version=(1, 0)))
    assert chx._core._dlpack_is_bfloat16(memory)
    again = chx.from_dlpack(FromCapsule(a))
    assert again.dtype == BFLOAT16
    again[0, 0] = 7  # over the same memory
    assert float(a[0, 0]) == 7
    copied = chx.from_dlpack(FromCapsule(a[::-1]))
    np.testing.assert_array_equal(chx.to_numpy(copied), chx.to_numpy(a)[::-1])


class FromCapsule:
    """As another library's array shows itself."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **kwargs):
        return self._array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def test_files(rng, tmp_path):
    a = chx.array(values(rng, 3, 4))
    chx.safetensors.save_file({"a": a}, tmp_path / "a.safetensors")
    loaded = chx.safetensors.load_file(tmp_path / "a.safetensors")["a"]
    assert loaded.dtype == BFLOAT16
    np.testing.assert_array_equal(chx.to_numpy(loaded), chx.to_numpy(a))
    for save in (chx.save, chx.savez, chx.savez_compressed):
        with pytest.raises(chx.DtypeError, match="expects a dtype of NumPy, got bfloat16"):
            save(tmp_path / "a.npy", a)
    assert not (tmp_path / "a.npy").exists()


def test_pickles_and_copies(rng):
    x = values(rng, 3, 4)
    a = chx.array(x)
    for again in (pickle.loads(pickle.dumps(a)), copy.deepcopy(a), a.copy()):
        assert again.dtype == BFLOAT16 and again.device is a.device
        np.testing.assert_array_equal(chx.to_numpy(again), x)
        again[0, 0] = 7
    np.testing.assert_array_equal(chx.to_numpy(a), x)


def gradients(function, arrays, gy, dtype):
    leaves = [chx.array(a).astype(dtype).require_grad() for a in arrays]
    gy = chx.array(gy).astype(dtype)
    grads = chx.grad([function(*leaves)], leaves, grad_outputs=[gy])
    assert [g.dtype for g in grads] == [dtype] * len(arrays)
    return [chx.to_numpy(g).astype("float32") for g in grads]


@pytest.mark.parametrize(
    "heads, lengths, options",
    [
        ((2, 2), (64, 64), {"is_causal": True}),
        ((4, 2), (70, 90), {"enable_gqa": True}),
        ((1, 1), (3, 300), {"scale": 0.5}),
    ],
    ids=["causal", "grouped", "scaled"],
)
def test_gradients_of_attention_are_those_of_float32(rng, heads, lengths, options):
    """By a few roundings of the greatest element: the result, of which they are made, is rounded too."""
    shapes = [(2, heads[i > 0], lengths[i > 0], 16) for i in range(3)]
    arrays = [values(rng, *shape).astype("float32") for shape in shapes]
    gy = values(rng, *shapes[0]).astype("float32")

    def attention(q, k, v):
        return chx.scaled_dot_product_attention(q, k, v, **options)

    found = gradients(attention, arrays, gy, "bfloat16")
    for got, want in zip(found, gradients(attention, arrays, gy, "float32")):
        assert np.abs(got - want).max() <= 8 * 2**-9 * np.abs(want).max()


@pytest.mark.parametrize("interleaved", [False, True])
def test_gradients_of_rope_are_those_of_float32(rng, interleaved):
    x, gy = (values(rng, 2, 3, 50, 16).astype("float32") for _ in range(2))

    def rope(x):
        return chx.rope(x, interleaved=interleaved)

    (got,), (want,) = (gradients(rope, [x], gy, dtype) for dtype in ("bfloat16", "float32"))
    np.testing.assert_allclose(got, want, rtol=2**-8, atol=1e-6)


def test_optimizers_keep_it(rng):
    for rule in (chx.optimizers.SGD(lr=0.5), chx.optimizers.Adam()):
        p = chx.array(values(rng, 5)).require_grad()
        rule.setup([p])
        (p * p).sum().backward()
        rule.update()
        assert p.dtype == BFLOAT16 and not np.isnan(chx.to_numpy(p).astype("float32")).any()


def test_recorded(rng):
    x = values(rng, 8, 8)
    f = chx.jit(lambda a: chx.tanh(a @ a) * 0.5 + a)
    want = chx.tanh(chx.array(x) @ chx.array(x)) * 0.5 + chx.array(x)
    for _ in range(3):
        np.testing.assert_array_equal(chx.to_numpy(f(chx.array(x))), chx.to_numpy(want))


def test_without_ml_dtypes():
    """All but bfloat16 works, and that says what is missing."""
    program = """
import sys
sys.modules["ml_dtypes"] = None
import chx
chx.connect()
assert chx.ones(2).tolist() == [1, 1] and not hasattr(chx, "bfloat16")
try:
    chx.ones(2, "float32").astype("bfloat16")
except TypeError as error:
    print(error)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert "bfloat16" in result.stdout
