"""chainerx.testing: what it passes, and what it must not pass."""

import inspect

import chx
import numpy as np
import pytest
from chx import chainerx
from chx.chainerx import testing
from numpy.lib.stride_tricks import as_strided


@pytest.fixture(scope="module", autouse=True)
def two_devices():
    session = chx.connect(devices="native:0,native:1")
    yield session
    session.close()


def both(values):
    values = np.asarray(values)
    return [values, chx.array(values)]


@pytest.mark.parametrize("assertion", [testing.assert_allclose, testing.assert_array_equal])
def test_equal_values(assertion):
    for x in both([1.0, np.nan]):
        for y in both([1.0, np.nan]):
            assertion(x, y)
    assertion(chx.array(3.0), 3)
    assertion([1, 2], chx.array([1, 2]))
    assertion(chx.array([1, 2]), chx.array([1, 2], np.int8))  # dtypes don't count
    for x in both([1.0, 2.0]):
        for y in both([1.0, 2.5]) + both([1.0, 2.0, 3.0]):
            with pytest.raises(AssertionError, match="some words"):
                assertion(x, y, err_msg="some words")


def test_close_values():
    for x in both([1.0, 100.0]):
        for y in both([1.0, 101.0]):
            testing.assert_allclose(x, y, rtol=0.02)
            testing.assert_allclose(x, y, 0, 1)
            for tolerances in ((1e-3,), (0, 0.5)):
                with pytest.raises(AssertionError):
                    testing.assert_allclose(x, y, *tolerances)
            with pytest.raises(AssertionError):
                testing.assert_array_equal(x, y)
    with pytest.raises(AssertionError):
        testing.assert_allclose(chx.array([np.nan]), np.array([np.nan]), equal_nan=False)


ASSERTIONS = [testing.assert_allclose_ex, testing.assert_array_equal_ex]


@pytest.mark.parametrize("assertion", ASSERTIONS)
def test_dtypes_count(assertion):
    for x in both(np.array([1, 2], np.int32)):
        for y in both(np.array([1, 2], np.int64)):
            with pytest.raises(AssertionError, match="dtype"):
                assertion(x, y, strides_check=False)
            assertion(x, y, dtype_check=False)


@pytest.mark.parametrize("assertion", ASSERTIONS)
def test_strides_count(assertion):
    values = np.arange(6).reshape(2, 3)
    for x in both(values):
        for y in (values.T.copy().T, chx.array(values.T).T):
            with pytest.raises(AssertionError, match="strides"):
                assertion(x, y)
            assertion(x, y, strides_check=False)
            assertion(x, y, dtype_check=False)  # strides don't count then
        assertion(x, chx.array(values))
        with pytest.raises(AssertionError):
            assertion(x, chx.array(values + 1))


def test_tolerances_by_dtype():
    for dtype, other in [("float16", "float32"), ("float32", "float64")]:
        x, y = np.array([1.0], dtype), chx.array([1.0 + 2**-8], dtype)
        testing.assert_allclose_ex(x, y, **{f"{dtype}_rtol": 0.1})
        testing.assert_allclose_ex(x, y, **{f"{dtype}_atol": 0.1, f"{dtype}_rtol": 0})
        for tolerances in ({f"{other}_rtol": 0.1}, {}, {"rtol": 0.1, f"{dtype}_rtol": 1e-4}):
            with pytest.raises(AssertionError):
                testing.assert_allclose_ex(x, y, **tolerances)
    with pytest.raises(TypeError):
        testing.assert_allclose_ex(x, y, no_such_option=1)


DECORATORS = [testing.numpy_chainerx_allclose, testing.numpy_chainerx_array_equal]


@pytest.fixture(params=DECORATORS, ids=["allclose", "array_equal"])
def decorator(request):
    return request.param


def outcome(decorator, by_numpy, by_chainerx, **options):
    """Runs a test with functions of the module."""
    modules = []

    @decorator(**options)
    def run(xp):
        modules.append(xp)
        return by_numpy(xp) if xp is np else by_chainerx(xp)

    run()
    assert modules == [np, chainerx]


def test_same_results_pass(decorator):
    for make in [
        lambda xp: xp.array([1.0, 2.0]),
        lambda xp: xp.zeros((2, 3), "int8").T,
        lambda xp: (xp.zeros(2, "float32"), [xp.ones(1, "bool")]),
        lambda xp: float(xp.ones(1, "float32").sum()),
        lambda xp: xp.zeros((2, 0), "float32"),
    ]:
        outcome(decorator, make, make)
    outcome(decorator, lambda xp: np.float64(2), lambda xp: xp.array(2.0))


def raise_(error):
    raise error


@pytest.mark.parametrize(
    ("by_numpy", "by_chainerx"),
    [
        (lambda xp: xp.array([1.0]), lambda xp: xp.array([2.0])),
        (lambda xp: xp.array([1.0]), lambda xp: xp.array([1.0], "float32")),
        (lambda xp: xp.array([1.0]), lambda xp: xp.array([1.0, 1.0])),
        (lambda xp: xp.array([1.0]), lambda xp: xp.array([[1.0]])),
        (lambda xp: xp.zeros((2, 3)), lambda xp: xp.zeros((3, 2), "float64").T),
        (lambda xp: xp.array([1.0]), lambda xp: xp.array([1.0], device="native:1")),
        (lambda xp: xp.array([1.0]), lambda xp: np.array([1.0])),
        (lambda xp: xp.array([1.0]), lambda xp: 1.0),
        (lambda xp: xp.array(1.0), lambda xp: np.float64(1.0)),
        (lambda xp: 1, lambda xp: 1.0),
        (lambda xp: chx.array([1.0]), lambda xp: chx.array([1.0])),
        (lambda xp: chx.array([1.0]), lambda xp: np.array([1.0])),
        (lambda xp: 1.0, lambda xp: xp.array(1.0)),
        (lambda xp: [xp.array(1.0)], lambda xp: [xp.array(1.0)] * 2),
        (lambda xp: [xp.array(1.0)], lambda xp: (xp.array(1.0),)),
        (lambda xp: [xp.array(1.0)], lambda xp: xp.array([1.0])),
        (lambda xp: (1.0, xp.array(1.0)), lambda xp: (1.0, xp.array(2.0))),
        (lambda xp: None, lambda xp: None),
        (lambda xp: xp.array(1.0), lambda xp: None),
        (lambda xp: testing.ignore(), lambda xp: xp.array(1.0)),
        (lambda xp: xp.array(1.0), lambda xp: testing.ignore()),
    ],
)
def test_other_results_fail(decorator, by_numpy, by_chainerx):
    with pytest.raises(AssertionError):
        outcome(decorator, by_numpy, by_chainerx)


def test_options_of_the_decorators(decorator):
    outcome(decorator, lambda xp: xp.array([1]), lambda xp: xp.array([1.0]), dtype_check=False)
    outcome(
        decorator,
        lambda xp: xp.zeros((2, 3)),
        lambda xp: xp.zeros((3, 2), "float64").T,
        strides_check=False,
    )
    for options in ({"rtol": 0.1}, {"float64_atol": 0.1}):
        call = [
            testing.numpy_chainerx_allclose,
            lambda xp: xp.array([1.0]),
            lambda xp: xp.array([1.01]),
        ]
        outcome(*call, **options)
        with pytest.raises(AssertionError):
            outcome(*call)


def test_ignored_cases(decorator):
    outcome(decorator, lambda xp: testing.ignore(), lambda xp: testing.ignore())


def test_errors(decorator):
    accepted = {"accept_error": (chx.DimensionError, ValueError)}
    outcome(
        decorator,
        lambda xp: raise_(ValueError()),
        lambda xp: raise_(chx.DimensionError()),
        **accepted,
    )
    for by_numpy, by_chainerx, error in [
        (lambda xp: raise_(ValueError()), lambda xp: xp.array(1), AssertionError),
        (lambda xp: xp.array(1), lambda xp: raise_(ValueError()), AssertionError),
        (lambda xp: raise_(KeyError()), lambda xp: raise_(ValueError()), KeyError),
        (lambda xp: raise_(ValueError()), lambda xp: raise_(KeyError()), KeyError),
    ]:
        with pytest.raises(error):
            outcome(decorator, by_numpy, by_chainerx, **accepted)
    with pytest.raises(ValueError):
        outcome(decorator, lambda xp: raise_(ValueError()), lambda xp: raise_(ValueError()))


def test_arguments_of_decorated_tests(decorator):
    @decorator(name="module")
    def test(first, module, second=2, **rest):
        """Text."""
        return module.array([first, second, rest["third"]])

    test(1, second=3, third=4)
    test(first=1, third=4)
    assert list(inspect.signature(test).parameters) == ["first", "second", "rest"]
    assert (test.__name__, test.__doc__) == ("test", "Text.")


@testing.numpy_chainerx_array_equal()
@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_decorated_for_pytest(xp, shape):
    return xp.ones(shape, "float32") + xp.ones(shape, "float32")


def test_lists_of_dtypes():
    expected = {
        "all_dtypes": "biuf",
        "float_dtypes": "f",
        "integral_dtypes": "iu",
        "signed_integral_dtypes": "i",
        "nonfloat_dtypes": "biu",
        "numeric_dtypes": "iuf",
        "signed_dtypes": "if",
        "unsigned_dtypes": "u",
    }
    for name, kinds in expected.items():
        dtypes = getattr(testing, name)
        assert type(dtypes) is tuple and len(set(dtypes)) == len(dtypes)
        assert set(dtypes) == {t.__name__ for t in chx.all_dtypes if np.dtype(t).kind in kinds}
        assert all(chx.zeros(1, dtype).dtype == dtype for dtype in dtypes)


def specifiers(*args, **kwargs):
    mark = testing.parametrize_dtype_specifier("dtype", *args, **kwargs).mark
    assert mark.name == "parametrize" and mark.args[0] == "dtype"
    return mark.args[1]


def test_specifiers_of_dtypes():
    for given in specifiers():
        assert np.dtype(given).type in chx.all_dtypes
    found = [s for s in specifiers() if np.dtype(s) == np.int64]
    for wanted in ("int64", "l", np.int64, np.dtype("int64"), int, "int"):
        assert any(type(s) is type(wanted) and s == wanted for s in found), wanted
    assert {np.dtype(s).name for s in specifiers(["float16", "bool_"])} == {"float16", "bool"}
    assert specifiers([], (None, "x")) == [None, "x"] and specifiers(dtypes=[]) == []
    with pytest.raises(TypeError):
        testing.parametrize_dtype_specifier(["dtype"])


def test_device_buffer():
    for shape, dtype in [((2, 3), "int16"), ((6,), np.float32), ((), bool), ((0,), "float64")]:
        data = [1, 0, 3, 4, 5, 6][: int(np.prod(shape))]
        buffer = testing._DeviceBuffer(data, shape, dtype, "native:1")
        expected = np.array(data, dtype).reshape(shape)
        view = memoryview(buffer)
        assert (view.shape, view.format) == (shape, memoryview(expected).format)
        assert view.c_contiguous and view.itemsize == expected.itemsize
        assert view.tolist() == expected.tolist()
        assert buffer.device is chx.get_device("native:1")
        assert chx.frombuffer(buffer, dtype).tolist() == expected.ravel().tolist()
    assert testing._DeviceBuffer([1], (1,), "int8").device is chx.get_default_device()
    for wrong in ([1, 2], (3,), "int8"), ([1], (1,), "complex64"):
        with pytest.raises((ValueError, chx.DtypeError)):
            testing._DeviceBuffer(*wrong)


def ints(n):
    return np.arange(n, dtype=np.int32)


@pytest.mark.parametrize(
    "values",
    [
        ints(24).reshape(2, 3, 4),
        ints(24).reshape(2, 3, 4).transpose(2, 0, 1),
        ints(24).reshape(2, 3, 4).transpose(1, 2, 0)[:, ::-1],
        ints(24)[::-2],
        ints(60).reshape(3, 20)[:, 1:13:3][:, ::-1],
        np.broadcast_to(ints(3), (2, 3)),
        np.broadcast_to(ints(3)[:, None], (2, 3, 4)),
        as_strided(ints(100), (2, 3), (28, 8)),
        as_strided(ints(100), (2, 3, 2), (100, 24, 8)),
        as_strided(ints(100), (3, 2), (4, 36)),
        as_strided(ints(9), (2, 2), (0, 0)),
        as_strided(ints(9), (3, 3), (8, 4)),  # elements in common
        as_strided(ints(9), (1, 1, 1), (16, 12, 8)),
        as_strided(ints(9)[4:], (1, 3), (-400, -4)),
        as_strided(ints(2), (2, 0, 3), (28, 28, 8)),
        as_strided(ints(2), (0,), (8,)),
        ints(1).reshape(()),
        np.asfortranarray(ints(6).reshape(2, 3)).astype(bool, order="K"),
    ],
    ids=lambda v: f"{v.shape} {v.strides}",
)
def test_strides_are_kept(values):
    array = testing._fromnumpy(values, keepstrides=True, device="native:1")
    assert (array.shape, array.dtype, array.strides) == (values.shape, values.dtype, values.strides)
    assert array.device is chx.get_device("native:1")
    np.testing.assert_array_equal(chx.to_numpy(array), values)
    plain = testing._fromnumpy(values)
    assert plain.is_contiguous and plain.device is chx.get_default_device()
    np.testing.assert_array_equal(chx.to_numpy(plain), values)


def test_strides_that_cannot_be_kept():
    with pytest.raises(chx.NotImplementedError):
        testing._fromnumpy(as_strided(ints(9), (2, 2), (16, 6)), keepstrides=True)
    with pytest.raises(chx.DtypeError):
        testing._fromnumpy(np.array([None, 1])[::-1], keepstrides=True)
