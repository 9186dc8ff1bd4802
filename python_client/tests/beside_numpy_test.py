"""NumPy arrays, numbers and lists beside arrays of chx: operators, functions, NumPy's ufuncs."""

import operator

import chx
import numpy as np
import pytest


@pytest.fixture(scope="module", autouse=True)
def session():
    with chx.connect(devices="native:0,native:1") as session:
        yield session


ARITHMETIC = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
]
COMPARISONS = [
    operator.lt,
    operator.le,
    operator.eq,
    operator.ne,
    operator.gt,
    operator.ge,
]
SHAPES = [
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),
    ((3, 1), (1, 4)),
    ((), (2,)),
    ((2,), ()),
    ((0, 3), (3,)),
]
DTYPES = ["float32", "float64", "float16", "int32", "int64"]


def same(got, want):
    """The same array, bit by bit."""
    assert type(got) is chx.ndarray
    assert (got.dtype, got.shape, got.device) == (want.dtype, want.shape, want.device)
    np.testing.assert_array_equal(chx.to_numpy(got), chx.to_numpy(want))


def values(rng, shape, dtype):
    drawn = rng.uniform(1, 5, shape)
    if np.dtype(dtype).kind == "f" and drawn.size > 1:
        drawn[rng.random(shape) < 0.2] = np.nan
    return np.asarray(drawn).astype(dtype)


@pytest.mark.parametrize("op", ARITHMETIC + COMPARISONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_operators_take_numpy_arrays(rng, op, shapes):
    for dtype in DTYPES:
        for other in DTYPES:
            x, y = values(rng, shapes[0], dtype), values(rng, shapes[1], other)
            a, b = chx.array(x), chx.array(y)
            want = op(a, b)
            if op in COMPARISONS and () in shapes and dtype != other:
                continue  # as numbers: see below
            same(op(a, y), want)
            if op is not operator.pow or b.ndim or b.dtype.kind == "f":  # NumPy takes its __index__
                same(op(x, b), want)


@pytest.mark.parametrize("op", [operator.and_, operator.or_, operator.xor, operator.lshift])
def test_bits(rng, op):
    x, y = rng.integers(0, 8, (2, 3)), rng.integers(0, 8, 3)
    want = op(chx.array(x), chx.array(y))
    for other in (y, y.tolist(), tuple(y.tolist())):
        same(op(chx.array(x), other), want)
    same(op(x, chx.array(y)), want)
    same(op(x.tolist(), chx.array(y)), want)


def test_matrix_products_and_divmod(rng):
    x, y = rng.standard_normal((2, 3)), rng.standard_normal((3, 4))
    want = chx.array(x) @ chx.array(y)
    for left, right in ((chx.array(x), y), (x, chx.array(y)), (chx.array(x), y.tolist())):
        same(left @ right, want)
    same(x.tolist() @ chx.array(y), want)
    for q, w in zip(divmod(x, chx.array(x[0])), divmod(chx.array(x), chx.array(x[0])), strict=True):
        same(q, w)
    with pytest.raises(chx.DimensionError):
        chx.array(x) @ x


def test_in_place(rng):
    for op in (operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow):
        x, y = rng.uniform(1, 2, (2, 3)), rng.uniform(1, 2, 3)
        for other in (y, y.tolist()):
            a = b = chx.array(x)
            a = op(a, other)
            assert a is b
            np.testing.assert_allclose(chx.to_numpy(b), op(x.copy(), y))
    a = chx.ones(3, "float32")
    a += rng.standard_normal(3)
    assert a.dtype == np.float32


def test_gradients_flow(rng):
    x = rng.standard_normal(3)
    for multiply in (
        lambda w: w * x,
        lambda w: x * w,
        lambda w: w * x.tolist(),
        lambda w: x.tolist() * w,
        lambda w: np.multiply(x, w),
        lambda w: chx.multiply(x, w),
        lambda w: np.dot(x, w),
        lambda w: [w[0], w[1], w[2]] * chx.array(x),
    ):
        w = chx.array(rng.standard_normal(3)).require_grad()
        chx.sum(multiply(w)).backward()
        np.testing.assert_allclose(chx.to_numpy(w.grad), x)


def test_they_go_to_the_other_operands_device(session):
    a = chx.ones(2, device=session.devices[1])
    assert chx.get_default_device() is session.devices[0]
    for result in (
        a + np.ones(2),
        [1, 2] * a,
        chx.concatenate([np.ones(2), a]),
        chx.outer([1, 2], a),
        a == None,  # noqa: E711
    ):
        assert result.device is session.devices[1]


@pytest.mark.parametrize(
    ("dtype", "other", "expected"),
    [
        ("float32", 1.5, "float32"),
        ("float32", np.float64(1.5), "float32"),
        ("float32", np.array(1.5), "float64"),
        ("float32", np.ones(2), "float64"),
        ("float32", [1.5, 2.5], "float32"),
        ("float32", [np.float64(1.5), 2], "float32"),
        ("float32", [np.ones(2), np.ones(2)], "float64"),
        ("float32", [1, 2], "float32"),
        ("float16", [1.5, 2], "float16"),
        ("float64", [[1, 2]], "float64"),
        ("int8", [1, 2], "int8"),
        ("int8", [1, 300], "int64"),
        ("uint8", [1, -1], "int64"),
        ("int8", np.array([1, 2]), "int64"),
        ("int32", [1.5, 2], "float64"),
        ("int32", 1.5, "float32"),
        ("float32", [], "float32"),
    ],
    ids=str,
)
def test_dtypes(dtype, other, expected):
    """The rule of docs/numpy.md."""
    a = chx.ones(1 if np.size(other) == 0 else 2, dtype)
    for result in (a * other, other * a, np.multiply(a, other), chx.multiply(other, a)):
        assert type(result) is chx.ndarray and result.dtype == expected


def test_numbers_of_numpy_compare_as_numbers():
    a = chx.array([0.1], "float32")
    for number in (0.1, np.float64(0.1), np.array(0.1)):
        for equal in (a == number, number == a, np.equal(number, a)):
            assert equal.tolist() == [True]


@pytest.mark.parametrize(
    ("other", "error", "text"),
    [
        (np.ones(2, "complex64"), chx.DtypeError, "unsupported dtype: complex64"),
        (np.array(["a", "b"]), chx.DtypeError, "unsupported dtype"),
        (np.array([object(), None]), chx.DtypeError, "unsupported dtype: object"),
        (np.ma.array([1.0, 2.0]), TypeError, "no masked arrays"),
        (["a", "b"], TypeError, "unsupported operand"),
        ([None, 1], TypeError, "unsupported operand"),
        ([[1, 2], [3]], ValueError, "inhomogeneous"),
        (np.ones(3), ValueError, "broadcast|shapes"),
    ],
    ids=str,
)
def test_refused(other, error, text):
    with pytest.raises(error, match=text):
        chx.ones(2) + other


def test_functions_without_an_array_of_chx_refuse():
    for call in (
        lambda: chx.add(np.ones(2), np.ones(2)),
        lambda: chx.exp(np.ones(2)),
        lambda: chx.outer(np.ones(2), [1.0]),
        lambda: chx.concatenate([np.ones(2), [1.0]]),
        lambda: chx.fill_diagonal(np.ones((2, 2)), 1),
    ):
        with pytest.raises(TypeError, match="ndarray"):
            call()


def test_what_is_written_is_an_array_of_chx():
    """Else a copy would be."""
    a, x = chx.ones(2), np.zeros(2)
    for call in (
        lambda: chx.copyto(x, a),
        lambda: chx.optimizers.sgd_update([x], [a], 0.1),
        lambda: operator.iadd(x, a),
        lambda: chx.put(x, [0], a),
    ):
        with pytest.raises(TypeError, match="ndarray|array of chx"):
            call()
    assert not x.any()
    chx.optimizers.sgd_update([a], [np.ones(2, "float32")], 0.5)
    assert a.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    "call",
    [
        lambda a: chx.linear(np.ones((1, 2), a.dtype), a),
        lambda a: chx.linear(a, np.ones((3, 2), a.dtype), [1.0, 2, 3]),
        lambda a: chx.where([True, False], a, 0),
        lambda a: chx.where(np.array([True, False]), a, [[1.0, 2]]),
        lambda a: chx.concatenate(iter([[[1.0, 2]], a])),
        lambda a: a.dot([1.0, 2.0]),
        lambda a: a.take([0, 1], 0),
        lambda a: chx.clip(a, [0, 1], np.array([1.0, 2.0])),
        lambda a: chx.array_equal([1.0, 1.0], a[0]),
    ],
)
def test_functions(call):
    a = chx.ones((2, 2), "float64")
    assert isinstance(call(a), (chx.ndarray, bool))


UFUNCS = sorted({u.__name__: u for u in vars(np).values() if isinstance(u, np.ufunc)}.items())
MISSING = {"bitwise_count", "frexp", "isnat", "ldexp", "matvec", "spacing", "vecdot", "vecmat"}


@pytest.mark.parametrize(("name", "ufunc"), UFUNCS, ids=[name for name, _ in UFUNCS])
def test_every_ufunc_is_the_function_of_its_name_or_refuses(rng, name, ufunc):
    integral = "l" in [t[0] for t in ufunc.types if "d" not in t and "g" not in t] and not any(
        t[0] == "d" for t in ufunc.types
    )
    arrays = [
        rng.integers(1, 5, (2, 2)) if integral else rng.uniform(0.1, 0.9, (2, 2))
        for _ in range(ufunc.nin)
    ]
    ours = [chx.array(a) for a in arrays]
    if name in MISSING:
        with pytest.raises(TypeError, match=rf"\[numpy\.{name}\] has no counterpart in chx: use"):
            ufunc(*ours)
        return
    wants = getattr(chx, name)(*ours)
    for i in range(ufunc.nin):
        gots = ufunc(*(ours[j] if j == i else arrays[j] for j in range(ufunc.nin)))
        both = zip(gots, wants, strict=True) if ufunc.nout > 1 else [(gots, wants)]
        for got, want in both:
            same(got, want)


def test_reductions_of_ufuncs(rng):
    x = rng.standard_normal((3, 4))
    a = chx.array(x)
    for ufunc in (np.add, np.multiply, np.maximum, np.minimum):
        for kwargs in ({}, {"axis": 1}, {"axis": None}, {"axis": (0, 1)}, {"keepdims": True}):
            got, want = ufunc.reduce(a, **kwargs), np.asarray(ufunc.reduce(x, **kwargs))
            assert got.shape == want.shape and type(got) is chx.ndarray
            np.testing.assert_allclose(chx.to_numpy(got), want)
    for ufunc in (np.logical_and, np.logical_or):
        np.testing.assert_array_equal(chx.to_numpy(ufunc.reduce(a > 0)), ufunc.reduce(x > 0))
    for ufunc in (np.add, np.multiply):
        for axis in (0, 1):
            got, want = ufunc.accumulate(a, axis), ufunc.accumulate(x, axis)
            np.testing.assert_allclose(chx.to_numpy(got), want)
    for left, right in ((a, x[0]), (x, a[0])):
        got = np.subtract.outer(left, right)
        np.testing.assert_allclose(chx.to_numpy(got), np.subtract.outer(x, x[0]))
    mask = rng.random((3, 4)) < 0.5
    out = chx.zeros(4, "float64")  # where= selects what is reduced, not what is written
    assert np.add.reduce(a, out=out, where=mask, initial=1.0) is out
    np.testing.assert_allclose(chx.to_numpy(out), np.add.reduce(x, where=mask, initial=1.0))
    ones = chx.ones((300,), "int8")
    assert np.add.reduce(ones, dtype="int64").item() == np.add.reduce(np.ones(300, "int8"))
    w = chx.array(x).require_grad()
    np.add.reduce(w * w, axis=None).backward()
    np.testing.assert_allclose(chx.to_numpy(w.grad), 2 * x)


@pytest.mark.parametrize(
    "call",
    [
        lambda a, x: np.subtract.reduce(a),
        lambda a, x: np.maximum.accumulate(a),
        lambda a, x: np.add.reduceat(a, [0, 1]),
        lambda a, x: np.add.at(a, [0], 1.0),
        lambda a, x: np.add(a, x, where=x > 0),
        lambda a, x: np.add(a, x, dtype="float32"),
        lambda a, x: np.add(a, x, casting="unsafe"),
        lambda a, x: np.logical_and.reduce(a, initial=True),
        lambda a, x: np.add(a, x, out=x),
        lambda a, x: np.modf(a, out=(a, a)),
        lambda a, x: np.ldexp(a, 2),
    ],
)
def test_ufuncs_refuse_with_a_type_error_that_names_them(call):
    with pytest.raises(TypeError, match=r"numpy\.(\w+)"):
        call(chx.ones(2), np.ones(2))


def test_out_of_ufuncs(rng):
    x, y = rng.standard_normal(3), rng.standard_normal(3)
    a, out = chx.array(x), chx.zeros(3, "float32")
    assert np.add(a, y, out=out) is out
    np.testing.assert_allclose(chx.to_numpy(out), x + y, rtol=1e-6)
    assert np.negative(a, out=out, where=y > 0) is out
    np.testing.assert_allclose(chx.to_numpy(out), np.where(y > 0, -x, x + y), rtol=1e-6)
    with pytest.raises(TypeError, match=r"\[numpy.add\] cannot cast float64 to int32"):
        np.add(a, y, out=chx.zeros(3, "int32"))


def test_no_array_of_objects_comes_out():
    """Of no path that ChainerX makes one on."""
    a = chx.ones((20, 20))
    for result in (a + np.ones(20), np.ones(20) * a, np.add(a, np.ones(20)), np.float64(2) * a):
        assert type(result) is chx.ndarray
    assert np.asarray(a).dtype == np.float32 and np.array([a, a]).dtype == np.float32


def test_integers_divided_by_zero():
    """0, as NumPy has it; docs/numpy.md says that there is no warning."""
    for dtype in ("int8", "uint8", "int16", "int32", "int64"):
        x, zero = np.array([3, 1, 0], dtype), np.zeros(3, dtype)
        with np.errstate(all="ignore"):
            quotient, rest = x // zero, x % zero
        for other in (0, chx.array(zero), zero):
            assert (chx.array(x) // other).tolist() == quotient.tolist() == [0, 0, 0]
            assert (chx.array(x) % other).tolist() == rest.tolist() == [0, 0, 0]


def test_exceptions_are_pythons_own_too():
    with pytest.raises(ValueError, match="shapes") as shapes:
        chx.ones(2) + chx.ones(3)
    assert type(shapes.value) is chx.DimensionError
    with pytest.raises(TypeError) as dtypes:
        -chx.ones(2, "bool")
    assert type(dtypes.value) is chx.DtypeError
    assert not issubclass(chx.DimensionError, chx.ChainerxError)  # nor is ChainerX's
    assert issubclass(chx.AuthenticationError, PermissionError)


def test_parameters_are_updated_in_no_backprop_mode(rng):
    x = rng.standard_normal(3)
    w = chx.array(x).require_grad()
    chx.sum(w * w).backward()
    with chx.no_backprop_mode():
        p = w
        p -= 0.1 * w.grad
        p *= 2
        p[0] = 7
        p **= 2
    assert p is w and w.is_grad_required()
    want = (x - 0.2 * x) * 2
    want[0] = 7
    np.testing.assert_allclose(chx.to_numpy(w), want**2)
    w.cleargrad()
    chx.sum(w * w).backward()  # of the new values
    np.testing.assert_allclose(chx.to_numpy(w.grad), 2 * want**2)


def test_what_a_mode_records_is_not_written():
    w = chx.ones(3).require_grad()
    y = w * 2
    with pytest.raises(chx.ChainerxError, match="In-place assignment"):
        w -= 1
    with chx.no_backprop_mode(), pytest.raises(chx.ChainerxError, match="In-place assignment"):
        y -= 1  # no leaf: gradients may need its values
    with chx.backprop_scope("inner") as inner:
        w.require_grad(inner)
        with chx.no_backprop_mode(inner), pytest.raises(chx.ChainerxError, match="In-place"):
            w -= 1
    assert w.tolist() == [1, 1, 1] and y.tolist() == [2, 2, 2]


def test_whoever_ignores_the_shape_gets_no_buffer(rng):
    """As torch.asarray() does, which flattened arrays and took integers for floats."""
    ctypes = pytest.importorskip("ctypes")
    api = ctypes.pythonapi
    api.PyObject_GetBuffer.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
    room = ctypes.create_string_buffer(256)
    for a in (chx.ones((2, 3)), chx.arange(3), chx.ones((2, 2), "uint8")):
        for flags in (0, 1):  # PyBUF_SIMPLE, PyBUF_WRITABLE
            with pytest.raises(BufferError, match="expects a request for the array's shape"):
                api.PyObject_GetBuffer(a, room, flags)
    text = chx.array(list(b"text"), "uint8")
    assert bytes(text) == b"text" and b"".join([text]) == b"text"
    x = rng.standard_normal((2, 3))
    for a in (chx.array(x), chx.array(x).T):
        shown, copied = np.asarray(memoryview(a)), np.from_dlpack(a)
        assert shown.shape == copied.shape == a.shape and shown.strides == a.strides
        np.testing.assert_array_equal(shown, copied)


def test_array_of_a_list_keeps_gradients():
    w = chx.array([1.0, 2.0], device="native:1").require_grad()
    stacked = chx.array([w * w, [3, w[0]]])  # a number and an array without dimensions
    same(stacked, chx.stack([w * w, chx.stack([chx.full((), 3.0, device="native:1"), w[0]])]))
    chx.sum(stacked).backward()
    assert w.grad.tolist() == [3.0, 4.0]
    assert chx.asarray((w, w), "float32", device="native:0").dtype == "float32"
    assert chx.array([chx.ones(2, "float32"), [0.5, 1.5]]).dtype == "float32"


def test_array_of_lists_that_do_not_fit():
    w = chx.ones(2)
    with pytest.raises(chx.DimensionError):
        chx.array([w, chx.ones(3)])
    with pytest.raises(chx.DtypeError, match="numbers and arrays"):
        chx.array([w, "a"])
