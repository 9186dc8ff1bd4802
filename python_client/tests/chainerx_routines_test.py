"""Routines that work on the client, and ndarray's manners with Python and NumPy."""

import io
import operator

import chx
import numpy as np
import pytest
from chx import chainerx

DTYPES = [t.__name__ for t in chx.all_dtypes]


@pytest.fixture(scope="module", autouse=True)
def two_devices():
    session = chx.connect(devices="native:0,native:1")
    yield session
    session.close()


@pytest.fixture(params=[None, "native:1"], ids=["default", "native:1"])
def device(request):
    return request.param


def check(actual, expected, device=None):
    """The same values, shape and dtype, on a device."""
    expected = np.asarray(expected)
    assert type(actual) is chx.ndarray
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    assert actual.device is chx.get_device(device)
    np.testing.assert_array_equal(chx.to_numpy(actual), expected)


def leaf(values):
    return chx.array(values).require_grad()


@pytest.mark.parametrize("make", [chx.array, chx.asarray, chx.asanyarray])
@chainerx.testing.parametrize_dtype_specifier("dtype")
def test_array_with_dtype(make, dtype):
    check(make([[0, 1]], dtype), np.array([[0, 1]], dtype))
    check(make(chx.array([[0, 1]]), dtype), np.array([[0, 1]], dtype))
    check(make(np.array([[0, 1]]), dtype=dtype), np.array([[0, 1]], dtype))


@pytest.mark.parametrize("values", [3, 2.5, True, [], [[1, 2]], (1.5, 2), np.float16(1)], ids=repr)
def test_array_on_a_device(values, device):
    for make in (chx.array, chx.asarray, chx.asanyarray):
        check(make(values, device=device), np.array(values), device)
    check(chx.array(chx.array(values), device=device), np.array(values), chx.get_device(device))


def test_array_of_an_array():
    a = chx.array([1, 2])
    there = chx.get_device("native:1")
    for same in (chx.asarray(a), chx.asanyarray(a), chx.array(a, copy=False)):
        assert same is a
    assert chx.array(a, a.dtype, False, a.device) is a and chx.asarray(a, "int64") is a
    for copy in (chx.array(a), chx.array(a, np.int64), chx.array(a, copy=False, device=there)):
        copy.fill(9)
        assert copy.tolist() == [9, 9]
    check(chx.array(a, "int8", device=there), np.array([1, 2], np.int8), there)
    check(a, np.array([1, 2]))
    # Where the array is counts, not the default device.
    b = a.to_device(there)
    assert chx.array(b).device is there and chx.asarray(b) is b


def test_array_of_a_list_of_arrays():
    check(chx.array([chx.array(1.5), chx.array(2.5)]), np.array([1.5, 2.5]))


def test_copies_of_arrays_are_differentiable():
    a = leaf([1.0, 2.0])
    for copy in (chx.array(a), chx.array(a, "float32"), chx.asarray(a, "float32")):
        assert copy.is_backprop_required()


def test_ascontiguousarray():
    a = chx.array([[1.0, 2.0], [3.0, 4.0]])
    assert chx.ascontiguousarray(a) is a and chx.ascontiguousarray(a, "float64") is a
    for transposed in (chx.ascontiguousarray(a.T), chx.ascontiguousarray(a.T, dtype="float64")):
        assert transposed.is_contiguous
        check(transposed, np.array([[1.0, 3.0], [2.0, 4.0]]))
    check(chx.ascontiguousarray(a.T, "int8"), np.array([[1, 3], [2, 4]], np.int8))
    check(chx.ascontiguousarray([1, 2], "float16"), np.array([1, 2], np.float16))
    for scalar in (3, 2.5, np.array(1), chx.array(True)):
        expected = np.ascontiguousarray(np.asarray(scalar))
        check(chx.ascontiguousarray(scalar), expected)
        check(chx.ascontiguousarray(scalar, "int8"), expected.astype("int8"))
    moved = chx.ascontiguousarray(a.T, "float32", device="native:1")
    check(moved, np.array([[1, 3], [2, 4]], np.float32), "native:1")
    assert chx.ascontiguousarray(moved, device="native:1") is moved
    assert chx.ascontiguousarray(moved, device="native:0").device.name == "native:0"
    x = leaf([[1.0, 2.0]])
    chx.ascontiguousarray((x * 2).T).sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0]]


@pytest.mark.parametrize("dtype", DTYPES)
def test_frombuffer(dtype, device):
    values = np.array([1, 0, 3], dtype)
    for buffer in (values, values.tobytes(), bytearray(values.tobytes()), memoryview(values)):
        check(chx.frombuffer(buffer, dtype, device=device), values, device)
    check(chx.frombuffer(values, dtype, 1, values.itemsize), values[1:2])


def test_frombuffer_defaults_and_errors():
    check(chx.frombuffer(np.arange(3, dtype="f4")), np.arange(3, dtype="f4"))
    for arguments in [(b"abc",), (bytes(8), "float32", 3), (bytes(8), "float32", -1, 9)]:
        with pytest.raises(ValueError):
            chx.frombuffer(*arguments)
    with pytest.raises(TypeError):
        chx.frombuffer([1, 2])
    check(chx.frombuffer(chx.ones(2)), np.ones(2, "f4"))


def test_fromfile(tmp_path, device):
    path = tmp_path / "values"
    np.arange(4, dtype="f4").tofile(path)
    check(chx.fromfile(path, "float32", device=device), np.arange(4, dtype="f4"), device)
    check(chx.fromfile(str(path), np.float32, 2), np.arange(2, dtype="f4"))
    path.write_text("1.5, 2, 3")
    check(chx.fromfile(path, sep=","), np.array([1.5, 2, 3]))
    path.write_text("")  # of text NumPy makes an empty array with a stride
    assert chx.fromfile(path, "int16", sep=",").strides == np.fromfile(path, "i2", sep=",").strides


def test_fromfunction(device):
    check(
        chx.fromfunction(lambda i, j: i * 2 + j, (2, 3), device=device),
        np.arange(6.0).reshape(2, 3) - [[0], [1]],
        device,
    )
    check(chx.fromfunction(lambda i, k: i + k, (2,), dtype=int, k=5), np.array([5, 6]))


def test_fromiter(device):
    check(
        chx.fromiter((i * i for i in range(4)), "int16", device=device),
        np.array([0, 1, 4, 9], np.int16),
        device,
    )
    check(chx.fromiter(iter([1.5, 2.5]), float, 1), np.array([1.5]))
    with pytest.raises(ValueError):
        chx.fromiter([1], int, 2)


def test_fromstring(device, recwarn):
    check(chx.fromstring("1 2.5", sep=" ", device=device), np.array([1, 2.5]), device)
    check(chx.fromstring("1,2,3", "int32", 2, ","), np.array([1, 2], np.int32))
    check(chx.fromstring(b"\x01\x02\xff", np.uint8), np.array([1, 2, 255], np.uint8))
    check(chx.fromstring("\x01\x02\xff", "uint8", 2), np.array([1, 2], np.uint8))
    with pytest.raises(ValueError):
        chx.fromstring("abc")
    assert not recwarn.list


def test_loadtxt(device):
    text = "# head\n1 2 3\n4 5 6\n"
    check(chx.loadtxt(io.StringIO(text), device=device), np.arange(1.0, 7).reshape(2, 3), device)
    check(
        chx.loadtxt(
            io.StringIO("skip\n1;2;x\n3;4;x"),
            int,
            delimiter=";",
            skiprows=1,
            usecols=(0, 1),
            unpack=True,
        ),
        np.array([[1, 3], [2, 4]]),
    )
    check(
        chx.loadtxt(io.StringIO("1"), "float32", ndmin=2, converters={0: lambda s: float(s) + 1}),
        np.array([[2]], np.float32),
    )


def test_like_arrays_are_on_the_default_device():
    a = chx.array([[1.0, 2.0]], device="native:1")
    for make, value in [
        (chainerx.zeros_like, 0),
        (chainerx.ones_like, 1),
        (lambda *args, **kw: chainerx.full_like(args[0], 7, *args[1:], **kw), 7),
    ]:
        check(make(a), np.full((1, 2), value, float))
        check(make(a, "native:1"), np.full((1, 2), value, float), "native:1")
        check(make(a, device=a.device), np.full((1, 2), value, float), "native:1")
        with chx.using_device("native:1"):
            check(make(a), np.full((1, 2), value, float), "native:1")
    b = chainerx.empty_like(a)
    assert (b.shape, b.dtype, b.device) == (a.shape, a.dtype, chx.get_device("native:0"))
    assert chainerx.empty_like(a, a.device).device is a.device


@pytest.mark.parametrize("dtype", DTYPES)
def test_save_and_load(tmp_path, dtype, device):
    values = np.array([[0, 1, 2]], dtype)
    path = tmp_path / "array.npy"
    chx.save(path, chx.array(values).T)
    np.testing.assert_array_equal(np.load(path), values.T)
    check(chx.load(path, device=device), values.T, device)


def test_savez(tmp_path):
    path = tmp_path / "arrays.npz"
    chx.savez(path, chx.array([1, 2]), name=chx.array(3.5), other=[True])
    loaded = chx.load(path, device="native:1")
    assert set(loaded) == {"arr_0", "name", "other"}
    check(loaded["arr_0"], np.array([1, 2]), "native:1")
    check(loaded["name"], np.array(3.5), "native:1")
    check(loaded["other"], np.array([True]), "native:1")


def test_nothing_is_unpickled(tmp_path):
    path = tmp_path / "objects.npy"
    np.save(path, np.array([object()], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError):
        chx.load(path)


@pytest.mark.parametrize("bounds", [(-1, 1), (0, None), (None, 0.5), (np.float32(-2), 0), (1, -1)])
@pytest.mark.parametrize("clip", [chx.clip, chx.ndarray.clip], ids=["function", "method"])
def test_clip(clip, bounds):
    values = np.array([-3, -0.25, 0, 0.75, 4])
    check(clip(chx.array(values), *bounds), np.clip(values, *bounds))
    check(clip(chx.array(values), a_min=bounds[0], a_max=bounds[1]), np.clip(values, *bounds))
    x = leaf(values)
    clip(x, -1, 1).sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 1, 0]


def test_clip_refuses():
    a = chx.array([1.0, 2.0])
    with pytest.raises(ValueError):
        chx.clip(a, None, None)
    with pytest.raises(ValueError):
        a.clip(None, None)
    with pytest.raises(TypeError):
        chx.clip(a, "0", 1)
    with pytest.raises(ValueError):
        chx.clip(a, np.zeros(3), 1)


@pytest.mark.parametrize("clip", [chx.clip, chx.ndarray.clip], ids=["function", "method"])
def test_clip_takes_arrays_as_bounds(rng, clip):
    x = rng.standard_normal((3, 4))
    low, high = rng.uniform(-1, 0, 4), rng.uniform(0, 1, (3, 1))
    a = chx.array(x)
    for bounds in [
        (low, high),
        (chx.array(low), 0.5),
        (-0.5, chx.array(high)),
        (None, high),
        (low.tolist(), None),
    ]:
        given = [chx.to_numpy(b) if isinstance(b, chx.ndarray) else b for b in bounds]
        check(clip(a, *bounds), np.clip(x, *given))
    leaf_low = chx.array(low).require_grad()
    clip(a, leaf_low, None).sum().backward()
    check(leaf_low.grad, (x < low).sum(0).astype(float))


def test_what_numpy_does():
    a = chx.array([[1.5, -2.5]], device="native:1")
    b = chx.array([[-1.0], [2.0]], device="native:1")
    check(chx.fix(a), np.array([[1.0, -2.0]]), "native:1")
    first, second = chx.broadcast_arrays(a, b)
    check(first, np.array([[1.5, -2.5]] * 2), "native:1")
    check(second, np.array([[-1.0, -1.0], [2.0, 2.0]]), "native:1")


@pytest.mark.parametrize("call", [chx.fix, lambda a: chx.broadcast_arrays(chx.ones(1), a)])
def test_what_numpy_does_has_no_gradient(call):
    with pytest.raises(RuntimeError):
        call(leaf([1.0]))
    with chx.no_backprop_mode():
        call(leaf([1.0]))
    with pytest.raises(TypeError):
        chx.fix(np.ones(1))


@pytest.mark.parametrize("name", ["normal", "uniform"])
@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        ((1.0,), {}),
        ((1, 2, (2, 3)), {}),
        ((), {"size": 4}),
        (([0.0, 10.0], 11.0), {}),
        ((0.5,), {"size": (2, 0)}),
    ],
    ids=repr,
)
def test_random_takes_numpys_arguments(name, args, kwargs, device):
    """And NumPy's global generator, so that programs repeat what they did with NumPy."""
    np.random.seed(3)
    expected = np.asarray(getattr(np.random, name)(*args, **kwargs))
    np.random.seed(3)
    actual = getattr(chainerx.random, name)(*args, **kwargs, device=device)
    check(actual, expected, device)
    assert actual.dtype == np.float64


def test_to_numpy_without_a_copy_is_the_arrays_memory():
    a = chx.array([1.0, 2.0])
    values = chx.to_numpy(a, copy=False)
    values[0] = 5
    assert a.tolist() == [5, 2]
    copied = chx.to_numpy(a)
    copied[0] = 6
    assert a.tolist() == [5, 2] and chx.to_numpy(a, True).flags.writeable


def test_debug_values():
    a = chx.array([[1, 2], [3, 4]])
    assert a.T._debug_flat_data == [1, 3, 2, 4]
    assert chx.zeros(())._debug_flat_data == [0.0]
    with pytest.raises(AttributeError):
        a._debug_flat_data = 1


def test_memory_has_a_number():
    a, b = chx.zeros((2, 3)), chx.zeros((2, 3))
    views = [
        a.view(),
        a[1:],
        a.T,
        a.reshape(6),
        a.ravel(),
        a.squeeze(),
        a[:1].squeeze(0),
        chx.broadcast_to(a, (4, 2, 3)),
        a.as_grad_stopped(),
        a.to_device(a.device),
        *chx.split(a, 3, 1),
    ]
    for view in views:
        assert view.data_ptr == view._debug_data_memory_address == a.data_ptr
    copies = [
        b,
        a.copy(),
        a.T.reshape(6),
        a.T.ravel(),
        a.flatten(),
        a.astype("float32"),
        a + 0,
        a.to_device("native:1"),
        a.as_grad_stopped(copy=True),
        chx.array(a),
    ]
    for copy in copies:
        assert copy.data_ptr == copy._debug_data_memory_address != a.data_ptr
    a += 1
    assert a.view().data_ptr == a.data_ptr


@pytest.mark.parametrize(
    ("index", "size"),
    [
        ((), 24),
        ((0,), 12),
        ((slice(None), 1), 16),
        ((slice(None, None, -1),), 24),
        ((slice(0),), 0),
    ],
)
def test_data_size(index, size):
    assert chx.zeros((2, 3))[index].data_size == size
    assert chx.broadcast_to(chx.zeros(()), (5,)).data_size == 4


def test_numpy_asarray():
    a = chx.array([[1, 2], [3, 4]])
    for values in (np.asarray(a), np.array(a), np.asarray(a, np.float32), np.asarray(a.T).T):
        np.testing.assert_array_equal(values, [[1, 2], [3, 4]])
    assert np.asarray(a).dtype == np.int64 and np.asarray(a, np.float32).dtype == np.float32
    values = np.asarray(a)
    values[:] = 0
    assert a.tolist() == [[0, 0], [0, 0]]  # the same memory, as with any buffer


@pytest.mark.parametrize(
    "scalar", [np.float64(3), np.float32(0.5), np.int8(2), np.float16(2)], ids=repr
)
def test_numpy_scalars(scalar):
    values = np.array([1.0, 2.5], np.float32)
    a = chx.array(values)
    for op in (
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.pow,
        operator.mod,
        operator.floordiv,
        operator.lt,
        operator.eq,
        operator.ge,
    ):
        for result, expected in [
            (op(scalar, a), op(np.float32(scalar), values)),
            (op(a, scalar), op(values, np.float32(scalar))),
        ]:
            assert type(result) is chx.ndarray and result.dtype == expected.dtype
            np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-6)
    x = leaf([2.0])
    (np.float64(3) * x).backward()
    assert x.grad.tolist() == [3.0]


def test_numpy_arrays_are_converted():
    """Not made arrays of objects, as ChainerX has it: docs/chainerx.md."""
    a, values = chx.array([1.0, 2.0]), np.ones(2)
    for op in (operator.add, operator.mul, operator.sub):
        check(op(a, values), op(np.array([1.0, 2.0]), values))
        check(op(values, a), op(values, np.array([1.0, 2.0])))
    check(np.exp(a), np.exp([1.0, 2.0]))
    check(np.multiply.outer(values, a), [[1.0, 2.0], [1.0, 2.0]])
    with pytest.raises(TypeError, match="expects an array of chx as out"):
        values += a
    assert np.add(a, values, out=(a,)) is a
    check(a, [2.0, 3.0])


def test_remainder_methods():
    values = np.array([5.0, -5.0])
    a = chx.array(values)
    check(a.__remainder__(3), values % 3)
    check(a.__rremainder__(7), 7 % values)
    assert a.__iremainder__(3) is a
    check(a, values % 3)
    assert a.__remainder__("x") is NotImplemented
