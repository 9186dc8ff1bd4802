"""ndarray against NumPy: construction, metadata, values, methods."""

import chx
import numpy as np
import pytest

DTYPES = [np.dtype(t) for t in chx.all_dtypes]


def check(actual, expected, dtype=None, rtol=1e-6):
    """The same values, shape and dtype."""
    expected = np.asarray(expected)
    assert type(actual) is chx.ndarray
    assert actual.shape == expected.shape
    assert actual.dtype == (expected.dtype if dtype is None else np.dtype(dtype))
    np.testing.assert_allclose(chx.to_numpy(actual), expected, rtol=rtol)


@pytest.mark.parametrize(
    "part",
    [np.s_[:, ::2], np.s_[::-1], np.s_[::-3, 4:1:-2], np.s_[:, 1], np.s_[:1, ::-1]],
    ids=repr,
)
def test_asarray_keeps_strides(part):
    values = np.arange(60, dtype=np.int16).reshape(10, 6)[part]
    for a in (chx.asarray(values), chx.array(values, copy=False)):
        assert (a.strides, a.shape, a.dtype) == (values.strides, values.shape, values.dtype)
        np.testing.assert_array_equal(chx.to_numpy(a), values)
        np.testing.assert_array_equal(chx.to_numpy(a + a), values + values)
        a += 1  # a copy all the same
        np.testing.assert_array_equal(chx.to_numpy(a), values + 1)
    assert chx.array(values).is_contiguous
    assert chx.asarray(values, "float32").is_contiguous


@pytest.mark.parametrize("shape, strides", [((1, 3), (7, 1)), ((0,), (2,)), ((2, 0, 3), (9, 4, 1))])
def test_asarray_keeps_strides_that_are_not_used(shape, strides):
    memory = np.arange(3.0)
    strides = tuple(8 * s for s in strides)
    values = np.lib.stride_tricks.as_strided(memory, shape, strides)
    a = chx.asarray(values)
    assert a.strides == strides and a.is_contiguous
    assert a.T.strides == strides[::-1]
    np.testing.assert_array_equal(chx.to_numpy(a), values)
    np.testing.assert_array_equal(chx.to_numpy(a + 1), values + 1)


def test_asarray_of_few_elements_of_many():
    table = np.arange(100000, dtype=np.float64).reshape(1000, 100)
    column = chx.asarray(table[:, 3])
    assert column.strides == (8,) and column.data_size == 8000
    np.testing.assert_array_equal(chx.to_numpy(column), table[:, 3])
    assert chx.asarray(table[:, ::2]).strides == (800, 16)
    # Strides that are no multiples of the element's size.
    fields = np.zeros(3, np.dtype([("a", "i4"), ("b", "i1")]))
    fields["a"] = [1, 2, 3]
    a = chx.asarray(fields["a"])
    assert a.strides == (4,) and a.tolist() == [1, 2, 3]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numpy_round_trip(dtype):
    values = np.arange(-3, 3).reshape(2, 3).astype(dtype)
    check(chx.array(values), values)
    back = chx.to_numpy(chx.array(values))
    assert back.dtype == dtype and back.flags.c_contiguous and back.flags.writeable


@pytest.mark.parametrize(
    "values",
    [
        np.arange(24.0).reshape(2, 3, 4)[:, ::-2, 1:],
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.float32(2.5),
        np.array(7),
        np.zeros((0, 3)),
        np.zeros((2, 0), np.int8),
        np.broadcast_to(np.arange(3), (2, 3)),
        np.arange(4, dtype=">f4"),
        np.arange(4, dtype=">i8")[::2],
        memoryview(bytearray(b"\x01\x02\x03")),
        [[1, 2], [3, 4]],
        [1.5, 2],
        [True, False],
        (1, (2)),
        3,
        2.0,
        True,
        [],
        range(5),
    ],
    ids=repr,
)
def test_array_has_numpys_dtype_and_shape(values):
    check(chx.array(values), np.asarray(values).astype(np.asarray(values).dtype.newbyteorder("=")))


def test_array_copies_at_the_call():
    small, large = np.ones(3), np.ones(1 << 20)
    arrays = chx.array(small), chx.array(large), chx.array(large, copy=False)
    small[:] = 2
    large[:] = 2
    for array in arrays:
        assert (chx.to_numpy(array) == 1).all()


@pytest.mark.parametrize(
    "dtype",
    [np.float16, "float16", "e", np.dtype("float16")],
    ids=["type", "name", "char", "dtype"],
)
def test_array_with_dtype(dtype):
    check(chx.array([1, 2], dtype), np.array([1, 2], np.float16))
    check(chx.zeros(2, dtype), np.zeros(2, np.float16))


def test_python_types_as_dtype():
    assert chx.zeros((), int).dtype == np.int64
    assert chx.zeros((), float).dtype == np.float64
    assert chx.zeros((), bool).dtype == np.bool_


@pytest.mark.parametrize(
    "values", ["text", [object()], np.zeros(2, np.uint32), np.zeros(2, complex), [1j], b"ab"]
)
def test_unsupported_dtypes(values):
    with pytest.raises(chx.DtypeError, match="unsupported dtype"):
        chx.array(values)


def test_unsupported_dtype_arguments():
    with pytest.raises(chx.DtypeError):
        chx.zeros(2, np.uint16)
    with pytest.raises(TypeError):
        chx.zeros(2, "no such type")


def test_array_of_an_array():
    a = chx.array([1.0, 2.0])
    assert chx.asarray(a) is a
    assert chx.array(a, copy=False) is a
    assert chx.asarray(a, a.dtype) is a
    b = chx.array(a)
    b += 1
    check(a, [1.0, 2.0])
    check(chx.array(a, np.int32), np.array([1, 2], np.int32))
    assert chx.asarray(a, device=a.device) is a


def test_ndarray_constructor():
    a = chx.ndarray((2, 3), np.int16)
    assert (a.shape, a.dtype) == ((2, 3), np.int16)
    assert isinstance(a, chx.ndarray)


def test_array_larger_than_a_message():
    values = np.random.default_rng(0).normal(size=3_000_001)
    np.testing.assert_array_equal(chx.to_numpy(chx.array(values)), values)
    np.testing.assert_array_equal(chx.to_numpy(chx.array(values)[::-3]), values[::-3])


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a,
        lambda a: a[1:, ::-1],
        lambda a: a[:, 1],
        lambda a: a[1, 2],
        lambda a: a[None, ..., None],
        lambda a: a.T,
        lambda a: a[:0],
        lambda a: a[:, ::2, :1],
    ],
)
def test_metadata(view):
    values = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    expected, actual = view(values), view(chx.array(values))
    expected = np.asarray(expected)
    assert actual.shape == expected.shape
    assert type(actual.shape) is tuple
    assert actual.strides == expected.strides
    assert actual.ndim == expected.ndim
    assert actual.size == expected.size
    assert actual.nbytes == expected.nbytes
    assert actual.itemsize == expected.itemsize
    assert actual.dtype is np.dtype(np.int16)
    assert actual.is_contiguous == expected.flags.c_contiguous
    check(actual, expected)


def test_offset():
    a = chx.array(np.arange(12, dtype=np.float32).reshape(3, 4))
    assert a.offset == 0
    assert a[1, 2:].offset == 24
    assert a[::-1].offset == 32


def test_len():
    assert len(chx.zeros((3, 2))) == 3
    assert len(chx.zeros(0)) == 0
    with pytest.raises(TypeError):
        len(chx.zeros(()))


def test_no_attributes_of_its_own():
    a = chx.zeros(2)
    with pytest.raises(AttributeError):
        a.foo = 1
    with pytest.raises(AttributeError):
        a.shape = (1, 2)
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)
    assert not hasattr(a, "__dict__")
    assert a.__array_priority__ == 100.0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_item_and_tolist(dtype):
    values = np.array([[0, 1], [1, 100]]).astype(dtype)
    a = chx.array(values)
    assert a.tolist() == values.tolist()
    item = a[1, 1].item()
    assert item == values[1, 1].item() and type(item) is type(values[1, 1].item())
    assert bool(a[0, 0]) is False and bool(a[1, 1]) is True
    assert int(a[1, 1]) == int(values[1, 1]) and float(a[1:, 1:]) == float(values[1, 1])


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, -0.0, 65504.0, 6e-8, 2.0**-14])
def test_extreme_items(value):
    for dtype in (np.float16, np.float32, np.float64):
        np.testing.assert_array_equal(chx.array(value, dtype).item(), dtype(value).item())


@pytest.mark.parametrize("convert", [bool, int, float, chx.ndarray.item])
@pytest.mark.parametrize("shape", [(0,), (2,), (2, 1)])
def test_only_one_element_converts(convert, shape):
    with pytest.raises(chx.DimensionError):
        convert(chx.zeros(shape))


def test_large_integers_are_exact():
    assert chx.array(2**63 - 1).item() == 2**63 - 1
    assert chx.full((), 2**62 + 1, np.int64).item() == 2**62 + 1


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (
            lambda: chx.array([3.0], np.float32),
            "array([3.], shape=(1,), dtype=float32, device='native:0')",
        ),
        (lambda: chx.array([], np.int8), "array([], shape=(0,), dtype=int8, device='native:0')"),
        (lambda: chx.array(True), "array(True, shape=(), dtype=bool, device='native:0')"),
        (
            lambda: chx.array([[1, 2], [3, 4]]),
            "array([[1, 2],\n       [3, 4]], shape=(2, 2), dtype=int64, device='native:0')",
        ),
        (
            lambda: chx.array([3.0], np.float32).require_grad(),
            "array([3.], shape=(1,), dtype=float32, device='native:0', backprop_ids=['<default>'])",
        ),
    ],
)
def test_repr(array, expected):
    assert repr(array()) == expected
    assert str(array()) == expected


def test_astype():
    a = chx.array([1.5, -2.5])
    check(a.astype(np.int32), np.array([1, -2], np.int32))
    assert a.astype("float64", copy=False) is a
    assert a.astype("float64") is not a
    assert a.astype(dtype=np.float16, copy=False).dtype == np.float16


def test_to_numpy_refuses_others():
    with pytest.raises(TypeError):
        chx.to_numpy([1.0])


def test_methods():
    values = np.arange(6.0).reshape(2, 3)
    a = chx.array(values)
    check(a.reshape(3, 2), values.reshape(3, 2))
    check(a.reshape((3, -1)), values.reshape(3, -1))
    check(a.reshape(-1), values.reshape(-1))
    check(a.reshape(3, -7), values.reshape(3, -1))
    check(a.transpose(), values.T)
    check(a.transpose(1, 0), values.T)
    check(a.transpose((1, 0)), values.T)
    check(a.T, values.T)
    check(a.ravel(), values.ravel())
    check(a.sum(), values.sum())
    check(a.sum(axis=0, keepdims=True), values.sum(0, keepdims=True))
    check(a.sum((0, 1)), values.sum())
    check(a.max(1), values.max(1))
    check(a.min(axis=(-1,)), values.min(1))
    check(a.mean(0), values.mean(0))
    check(a.argmax(1), values.argmax(1))
    check(a.argmin(), values.argmin())
    check(a.dot(a.T), values.dot(values.T))
    check(a.copy(), values)
    check(a.view(), values)
    a.fill(3)
    check(a, np.full((2, 3), 3.0))


def test_views_share_and_copies_do_not():
    a = chx.zeros((2, 3))
    views = [
        a.view(),
        a[...],
        a.reshape(6),
        a.ravel(),
        a.T,
        a.as_grad_stopped(),
        a.to_device("native:0"),
    ]
    copies = [a.copy(), a.flatten(), a.astype("float32"), a.as_grad_stopped(copy=True)]
    a.fill(1)
    assert all(float(v.sum()) == 6 and v is not a for v in views)
    assert all(float(c.sum()) == 0 for c in copies)


def test_squeeze():
    a = chx.zeros((1, 2, 1))
    assert a.squeeze().shape == (2,)
    assert a.squeeze(0).shape == (2, 1)
    assert a.squeeze(axis=(0, 2)).shape == (2,)
    b = chx.zeros((2, 3))
    assert b.squeeze() is b and chx.squeeze(b) is b
    with pytest.raises(chx.DimensionError):
        b.squeeze(0)


def test_method_of_another_type():
    with pytest.raises(TypeError):
        chx.ndarray.sum(3)
    with pytest.raises(TypeError):
        chx.ndarray.item(3)
