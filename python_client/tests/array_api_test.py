"""The array API standard's namespace against NumPy, and what it says that NumPy doesn't."""

import operator

import chx
import numpy as np
import pytest
from chx import array_api as xp

FLOATS = np.array([[1.5, -2.5, 0.0], [-0.5, 0.25, 3.0]])
INTS = np.array([[3, -7, 2], [0, 5, 1]], np.int64)
BYTES = np.array([[1, 2, 200], [0, 5, 1]], np.uint8)
BOOLS = np.array([[True, False, True], [False, False, True]])
CUBE = np.arange(24.0).reshape(2, 3, 4)


@pytest.fixture(scope="module", autouse=True)
def session():
    with chx.connect():
        yield


def same(result, expected):
    """Equal in shape, dtype and, but for the last digits, in values; tuples one by one."""
    if isinstance(expected, (tuple, list)):
        assert len(result) == len(expected)
        for r, e in zip(result, expected, strict=True):
            same(r, e)
        return
    expected = np.asarray(expected)
    assert isinstance(result, chx.ndarray)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(chx.to_numpy(result), expected, rtol=1e-12, atol=1e-15)


ELEMENTWISE = {
    "abs": np.abs, "asinh": np.arcsinh, "atan": np.arctan, "ceil": np.ceil, "conj": np.conj,
    "cos": np.cos, "cosh": np.cosh, "exp": np.exp, "expm1": np.expm1, "floor": np.floor,
    "imag": np.imag, "isfinite": np.isfinite, "isinf": np.isinf, "isnan": np.isnan,
    "negative": np.negative, "positive": np.positive, "real": np.real, "round": np.round,
    "sign": np.sign, "signbit": np.signbit, "sin": np.sin, "sinh": np.sinh, "square": np.square,
    "tan": np.tan, "tanh": np.tanh, "trunc": np.trunc,
}  # fmt: skip
POSITIVE = {
    "acosh": np.arccosh, "log": np.log, "log10": np.log10, "log1p": np.log1p, "log2": np.log2,
    "reciprocal": np.reciprocal, "sqrt": np.sqrt,
}  # fmt: skip
SMALL = {"acos": np.arccos, "asin": np.arcsin, "atanh": np.arctanh}
BINARY = {
    "add": np.add, "atan2": np.arctan2, "copysign": np.copysign, "divide": np.divide,
    "equal": np.equal, "floor_divide": np.floor_divide, "greater": np.greater,
    "greater_equal": np.greater_equal, "hypot": np.hypot, "less": np.less,
    "less_equal": np.less_equal, "logaddexp": np.logaddexp, "maximum": np.maximum,
    "minimum": np.minimum, "multiply": np.multiply, "not_equal": np.not_equal,
    "remainder": np.remainder, "subtract": np.subtract,
}  # fmt: skip
BITWISE = {
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "bitwise_left_shift": np.left_shift, "bitwise_right_shift": np.right_shift,
}  # fmt: skip
LOGICAL = {
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_unary(name):
    same(getattr(xp, name)(chx.array(FLOATS)), ELEMENTWISE[name](FLOATS))


@pytest.mark.parametrize("name", [*POSITIVE, *SMALL])
def test_unary_in_domain(name):
    values = np.abs(FLOATS) + 1 if name in POSITIVE else FLOATS / 4
    reference = {**POSITIVE, **SMALL}[name]
    same(getattr(xp, name)(chx.array(values)), reference(values))


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    other = np.array([2.0, -3.0, 0.75])
    same(getattr(xp, name)(chx.array(FLOATS), chx.array(other)), BINARY[name](FLOATS, other))
    same(getattr(xp, name)(chx.array(FLOATS), 2.0), BINARY[name](FLOATS, 2.0))


@pytest.mark.parametrize("name", BITWISE)
@pytest.mark.parametrize("values", [INTS, BYTES], ids=["int64", "uint8"])
def test_bitwise(name, values):
    other = np.abs(values) % 7
    same(getattr(xp, name)(chx.array(values), chx.array(other)), BITWISE[name](values, other))


@pytest.mark.parametrize("name", LOGICAL)
def test_logical(name):
    other = ~BOOLS[0]
    same(getattr(xp, name)(chx.array(BOOLS), chx.array(other)), LOGICAL[name](BOOLS, other))


@pytest.mark.parametrize("name", ["ceil", "floor", "round", "trunc"])
def test_rounding_keeps_integers(name):
    same(getattr(xp, name)(chx.array(BYTES)), BYTES)


def test_nextafter():
    target = np.array([np.inf, -np.inf, 0.0])
    result = xp.nextafter(chx.array(FLOATS), chx.array(target))
    np.testing.assert_array_equal(chx.to_numpy(result), np.nextafter(FLOATS, target))


def test_inversions():
    same(xp.bitwise_invert(chx.array(BYTES)), ~BYTES)
    small = chx.array([1, 2], "int8")
    assert xp.bitwise_left_shift(small, chx.array([9, 1])).tolist() == [512, 4]
    assert xp.bitwise_right_shift(small, chx.array([0, 1], "int16")).dtype == xp.int16
    same(xp.bitwise_invert(chx.array(BOOLS)), ~BOOLS)
    same(xp.logical_not(chx.array(BOOLS)), ~BOOLS)
    same(xp.pow(chx.array(INTS), chx.array(np.abs(INTS) % 4)), INTS ** (np.abs(INTS) % 4))
    x = chx.array(FLOATS)
    same(xp.clip(x, -1, chx.array([0.5, 1.0, 2.0])), np.clip(FLOATS, -1, [0.5, 1.0, 2.0]))
    same(xp.clip(x), FLOATS)


# What, of our arrays, and of NumPy's.
CALLS = [
    (lambda x: xp.concat([x, x], axis=None), lambda x: np.concatenate([x, x], None)),
    (lambda x: xp.concat((x, x), axis=1), lambda x: np.concatenate([x, x], 1)),
    (lambda x: xp.expand_dims(x, axis=-1), lambda x: np.expand_dims(x, -1)),
    (lambda x: xp.flip(x, axis=(0, -1)), lambda x: np.flip(x, (0, -1))),
    (lambda x: xp.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, 0, -1)),
    (lambda x: xp.permute_dims(x, (2, 0, 1)), lambda x: np.transpose(x, (2, 0, 1))),
    (lambda x: xp.repeat(x, 2), lambda x: np.repeat(x, 2)),
    (lambda x: xp.repeat(x, xp.asarray([1, 0, 2]), axis=1), lambda x: np.repeat(x, [1, 0, 2], 1)),
    (lambda x: xp.reshape(x, (4, -1)), lambda x: np.reshape(x, (4, -1))),
    (lambda x: xp.roll(x, 2, axis=(0, 1)), lambda x: np.roll(x, 2, (0, 1))),
    (lambda x: xp.squeeze(x[:1], 0), lambda x: np.squeeze(x[:1], 0)),
    (lambda x: xp.stack([x, x], axis=2), lambda x: np.stack([x, x], 2)),
    (lambda x: xp.tile(x, (2, 1, 1)), lambda x: np.tile(x, (2, 1, 1))),
    (lambda x: xp.unstack(x, axis=1), lambda x: [x[:, i] for i in range(3)]),
    (lambda x: xp.take(x, xp.asarray([2, 0]), axis=1), lambda x: np.take(x, [2, 0], 1)),
    (lambda x: xp.broadcast_arrays(x, xp.ones(4)), lambda x: [x, np.ones((2, 3, 4))]),
    (lambda x: xp.diff(x, axis=1, n=2), lambda x: np.diff(x, 2, 1)),
    (
        lambda x: xp.diff(x, prepend=x[..., :1]),
        lambda x: np.diff(x, prepend=x[..., :1]),
    ),
    (lambda x: xp.tril(x, k=1), lambda x: np.tril(x, 1)),
    (lambda x: xp.triu(x, k=-1), lambda x: np.triu(x, -1)),
    (lambda x: xp.sum(x, axis=(0, 2)), lambda x: np.sum(x, (0, 2))),
    (lambda x: xp.sum(x, dtype=xp.float32), lambda x: np.sum(x, dtype=np.float32)),
    (lambda x: xp.prod(x + 1, axis=1), lambda x: np.prod(x + 1, 1)),
    (lambda x: xp.mean(x, keepdims=True), lambda x: np.mean(x, keepdims=True)),
    (lambda x: xp.max(x, axis=0), lambda x: np.max(x, 0)),
    (lambda x: xp.min(x, axis=-1), lambda x: np.min(x, -1)),
    (lambda x: xp.var(x, axis=1, correction=1), lambda x: np.var(x, 1, ddof=1)),
    (lambda x: xp.var(x, axis=1, correction=0.5), lambda x: np.var(x, 1) * 3 / 2.5),
    (lambda x: xp.std(x, axis=(0, 1)), lambda x: np.std(x, (0, 1))),
    (lambda x: xp.all(x, axis=0), lambda x: np.all(x, 0)),
    (lambda x: xp.any(x, axis=(1, 2)), lambda x: np.any(x, (1, 2))),
    (lambda x: xp.argmax(x, axis=1, keepdims=True), lambda x: np.argmax(x, 1, keepdims=True)),
    (lambda x: xp.argmin(x, keepdims=True), lambda x: np.argmin(x, keepdims=True)),
    (lambda x: xp.count_nonzero(x, axis=0), lambda x: np.count_nonzero(x, 0)),
    (lambda x: xp.nonzero(x > 20), lambda x: np.nonzero(x > 20)),
    (lambda x: xp.cumulative_sum(x, axis=1), lambda x: np.cumsum(x, 1)),
    (lambda x: xp.cumulative_prod(x[0, 0] + 1), lambda x: np.cumprod(x[0, 0] + 1)),
    (
        lambda x: xp.cumulative_sum(x, axis=1, include_initial=True),
        lambda x: np.concatenate([np.zeros((2, 1, 4)), np.cumsum(x, 1)], 1),
    ),
    (lambda x: xp.sort(-x, axis=1), lambda x: np.sort(-x, 1)),
    (lambda x: xp.sort(x, descending=True), lambda x: np.sort(x)[..., ::-1]),
    (lambda x: xp.where(x > 3, x, 0.0), lambda x: np.where(x > 3, x, 0.0)),
    (lambda x: xp.matrix_transpose(x), lambda x: np.swapaxes(x, -2, -1)),
    (lambda x: x.mT, lambda x: np.swapaxes(x, -2, -1)),
    (lambda x: xp.matmul(x, x.mT), lambda x: x @ np.swapaxes(x, -2, -1)),
    (lambda x: xp.vecdot(x, x[0], axis=-1), lambda x: np.sum(x * x[0], -1)),
    (lambda x: xp.tensordot(x, x[0], axes=2), lambda x: np.tensordot(x, x[0], 2)),
    (lambda x: xp.searchsorted(x[0, 0], x[0, 0] + 0.5), lambda x: np.searchsorted(x[0, 0], x[0, 0] + 0.5)),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_calls(call):
    ours, reference = call
    same(ours(chx.array(CUBE)), reference(CUBE))


def test_accumulation_dtypes():
    assert xp.sum(chx.array(BYTES)).dtype == xp.int64  # there is no uint64
    assert xp.sum(chx.array([1.0], "float32")).dtype == xp.float32
    assert xp.prod(chx.array(BYTES), dtype=xp.int16).dtype == xp.int16


def test_sorting_is_stable():
    x = chx.array([1, 0, 1, 0, 1])
    assert xp.argsort(x).tolist() == [1, 3, 0, 2, 4]
    assert xp.argsort(x, descending=True).tolist() == [0, 2, 4, 1, 3]


def test_unique():
    x = chx.array([[2.0, np.nan, 1.0], [2.0, np.nan, -0.0]])
    values, indices, inverse, counts = xp.unique_all(x)
    np.testing.assert_array_equal(chx.to_numpy(values), [0.0, 1.0, 2.0, np.nan, np.nan])
    assert indices.tolist() == [5, 2, 0, 1, 4]
    assert inverse.tolist() == [[2, 3, 1], [2, 4, 0]]
    assert counts.tolist() == [1, 1, 2, 1, 1]
    assert xp.unique_values(chx.array([3, 1, 3])).tolist() == [1, 3]
    assert xp.unique_counts(chx.array([3, 1, 3])).counts.tolist() == [1, 2]
    assert xp.unique_inverse(xp.zeros((0,))).inverse_indices.shape == (0,)


def test_creation():
    same(xp.arange(3), np.arange(3))
    same(xp.arange(1, 2, 0.25), np.arange(1, 2, 0.25))
    same(xp.arange(5, 0), np.arange(5, 0))
    same(xp.zeros((2, 0)), np.zeros((2, 0)))
    same(xp.ones(3, dtype=xp.uint8), np.ones(3, np.uint8))
    same(xp.full((2,), True), np.full(2, True))
    same(xp.full((), 7), np.full((), 7))
    same(xp.full_like(chx.array(BYTES), 3), np.full_like(BYTES, 3))
    same(xp.zeros_like(chx.array(BYTES), dtype=xp.float32), np.zeros((2, 3), np.float32))
    same(xp.eye(2, 3, k=10**30), np.zeros((2, 3)))
    same(xp.eye(3, k=-1, dtype=xp.int8), np.eye(3, k=-1, dtype=np.int8))
    same(xp.linspace(0, 1, 5, endpoint=False), np.linspace(0, 1, 5, endpoint=False))
    same(xp.meshgrid(xp.arange(2), xp.arange(3)), np.meshgrid(np.arange(2), np.arange(3)))
    same(xp.asarray([[xp.asarray(1.5), 2.0]]), np.array([[1.5, 2.0]]))
    same(xp.from_dlpack(np.arange(3.0)), np.arange(3.0))
    assert xp.empty((2,)).dtype == xp.float64 and xp.empty_like(chx.array(BOOLS)).dtype == xp.bool


def test_asarray_copies_as_told():
    x = xp.arange(3)
    shared, copied = xp.asarray(x, copy=False), xp.asarray(x, copy=True)
    x[0] = 9
    assert shared[0] == 9 and copied[0] == 0
    with pytest.raises(ValueError, match="copy is False"):
        xp.asarray(x, dtype=xp.int8, copy=False)
    with pytest.raises(ValueError, match="copy is False"):
        xp.asarray([1, 2], copy=False)
    with pytest.raises(chx.DtypeError):
        xp.asarray([1j])


def test_dtypes():
    assert xp.result_type(xp.int8, xp.uint8) == xp.int16
    assert xp.result_type(xp.arange(2), xp.float32) == xp.float32
    assert xp.result_type(xp.uint8, 1) == xp.uint8
    assert xp.result_type(xp.bool, True) == xp.bool
    assert xp.can_cast(xp.int8, xp.int64) and not xp.can_cast(xp.int8, xp.uint8)
    assert xp.can_cast(xp.bool, xp.int8) and not xp.can_cast(xp.float32, xp.int64)
    assert xp.can_cast(xp.int32, xp.float64) and not xp.can_cast(xp.int32, xp.float32)
    assert xp.isdtype(xp.uint8, ("bool", "unsigned integer"))
    assert not xp.isdtype(xp.float32, "integral") and xp.isdtype(xp.float32, xp.float32)
    assert xp.finfo(xp.float32).eps == float(np.finfo(np.float32).eps)
    assert xp.iinfo(xp.arange(1)).max == 2**63 - 1
    same(xp.astype(chx.array(FLOATS), xp.int8), FLOATS.astype(np.int8))
    info = xp.__array_namespace_info__()
    assert info.dtypes(kind="real floating") == {"float32": xp.float32, "float64": xp.float64}
    assert info.default_dtypes()["integral"] == xp.arange(1).dtype
    assert info.default_device() in info.devices() and info.capabilities()["boolean indexing"]


@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_decompositions(mode):
    x = chx.array(CUBE[:, :, :3] + 5 * np.eye(3))
    q, r = xp.linalg.qr(x, mode=mode)
    np.testing.assert_allclose(chx.to_numpy(q @ r), chx.to_numpy(x), rtol=1e-10)
    u, s, vh = xp.linalg.svd(x, full_matrices=mode == "complete")
    np.testing.assert_allclose(chx.to_numpy(u * s[..., None, :] @ vh), chx.to_numpy(x), rtol=1e-10)
    same(xp.linalg.svdvals(x), np.linalg.svd(chx.to_numpy(x), compute_uv=False))


LINALG = [
    ("cholesky", {}, lambda a: np.linalg.cholesky(a)),
    ("cholesky", {"upper": True}, lambda a: np.swapaxes(np.linalg.cholesky(a), -2, -1)),
    ("det", {}, np.linalg.det),
    ("diagonal", {"offset": 1}, lambda a: np.diagonal(a, 1, -2, -1)),
    ("eigvalsh", {}, np.linalg.eigvalsh),
    ("inv", {}, np.linalg.inv),
    ("matrix_rank", {}, np.linalg.matrix_rank),
    ("pinv", {}, np.linalg.pinv),
    ("slogdet", {}, np.linalg.slogdet),
    ("trace", {"offset": -1}, lambda a: np.trace(a, -1, -2, -1)),
    *(
        ("matrix_norm", {"ord": o}, lambda a, o=o: np.linalg.norm(a, o, (-2, -1)))
        for o in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    ),
    *(
        ("vector_norm", {"ord": o, "axis": 1}, lambda a, o=o: np.linalg.norm(a, o, 1))
        for o in (0, 1, 2, 3.5, -2, np.inf, -np.inf)
    ),
]


@pytest.mark.parametrize("name, arguments, reference", LINALG)
def test_linalg(name, arguments, reference):
    a = np.array([[[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]], 2 * np.eye(3)])
    result = getattr(xp.linalg, name)(chx.array(a), **arguments)
    expected = reference(a)
    if isinstance(result, tuple):
        expected = tuple(expected)
    np.testing.assert_allclose(
        [chx.to_numpy(r) for r in result] if isinstance(result, tuple) else chx.to_numpy(result),
        expected,
        rtol=1e-10,
        atol=1e-12,
    )


def test_linalg_of_two():
    a, b = np.eye(3) * 2 + 1, CUBE[:, :, 0].T[:3]
    same(xp.linalg.solve(chx.array(a), chx.array(b)), np.linalg.solve(a, b))
    same(xp.linalg.solve(chx.array(a), chx.array(b[:, 0])), np.linalg.solve(a, b[:, 0]))
    same(xp.linalg.outer(xp.arange(3), xp.arange(2)), np.outer(np.arange(3), np.arange(2)))
    x, y = CUBE[0].T, np.array([1.0, -2.0, 0.5])
    same(xp.linalg.cross(chx.array(x), chx.array(y)), np.cross(x, y))
    same(xp.linalg.matrix_power(chx.array(a), -2), np.linalg.matrix_power(a, -2))
    values, vectors = xp.linalg.eigh(chx.array(a))
    np.testing.assert_allclose(chx.to_numpy(vectors * values @ vectors.mT), a, atol=1e-12)


def test_gradients_go_through():
    x = chx.array(FLOATS).require_grad()
    xp.sum(xp.clip(xp.matmul(x, x.mT), 0.0, 100.0)).backward()
    product = FLOATS @ FLOATS.T
    passed = ((product > 0) & (product < 100)).astype(float)
    np.testing.assert_allclose(chx.to_numpy(x.grad), (passed + passed.T) @ FLOATS)


def test_methods():
    x = xp.asarray(3)
    assert x.__array_namespace__() is xp and x.__array_namespace__(api_version="2022.12") is xp
    with pytest.raises(ValueError, match="2020"):
        x.__array_namespace__(api_version="2020.01")
    assert operator.index(x) == 3 and [10, 20, 30, 40][x] == 40 and complex(x) == 3
    for bad in (xp.asarray(3.0), xp.asarray([3]), xp.asarray(True)):
        with pytest.raises(TypeError, match="integer array"):
            operator.index(bad)
    assert x.to_device(x.device, stream=None).device is x.device
    with pytest.raises(ValueError, match="stream"):
        x.to_device(x.device, stream=1)
    y = alias = chx.array(np.arange(4.0).reshape(2, 2))
    y @= y
    y **= 2
    assert y is alias and y.tolist() == [[4.0, 9.0], [36.0, 121.0]]
    integers = xp.asarray([1, 2])
    with pytest.raises(chx.DtypeError, match="int64, got float64"):
        integers **= xp.asarray([0.5, 0.5])
    with pytest.raises(chx.DimensionError, match="in-place"):
        y @= xp.ones((2, 3))


def test_dlpack():
    x = xp.asarray([1.0, 2.0])
    np.testing.assert_array_equal(np.from_dlpack(x), [1.0, 2.0])
    x.__dlpack__(stream=None, max_version=(1, 0), dl_device=x.__dlpack_device__(), copy=True)
    for refused in ({"stream": 1}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError):
            x.__dlpack__(**refused)
    assert xp.from_dlpack(x).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda x: xp.squeeze(x, 0), ValueError),
        (lambda x: xp.expand_dims(x, axis=4), IndexError),
        (lambda x: xp.take(x, xp.arange(1)), ValueError),
        (lambda x: xp.cumulative_sum(x), ValueError),
        (lambda x: xp.linalg.qr(x, mode="raw"), ValueError),
        (lambda x: xp.linalg.matrix_norm(x, ord=3), ValueError),
        (lambda x: xp.vecdot(x, x, axis=0), chx.DimensionError),
        (lambda x: xp.linalg.cross(x, x), chx.DimensionError),
        (lambda x: xp.isdtype(x.dtype, "float"), ValueError),
        (lambda x: xp.iinfo(x), TypeError),
        (lambda x: xp.finfo(xp.int8), TypeError),
        (lambda x: xp.full((1,), 300, dtype=xp.uint8), OverflowError),
        (lambda x: xp.from_dlpack(np.ones(1), copy=False), ValueError),
        (lambda x: xp.nonzero(xp.asarray(1)), chx.DimensionError),
        (lambda x: xp.clip(xp.arange(2), 0.5), TypeError),
        (lambda x: xp.result_type(1.0), ValueError),
    ],
)  # fmt: skip
def test_errors(call, error):
    with pytest.raises(error):
        call(chx.array(np.ones((2, 4))))
