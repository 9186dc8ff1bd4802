"""Operators as Python functions: signatures, arguments, docs."""

import inspect

import chx
import numpy as np
import pytest


def operators():
    return chx._core._operators


@pytest.mark.parametrize("name", operators())
def test_every_operator_has_a_signature_and_a_doc(name):
    function = getattr(chx._core, name)
    signature = inspect.signature(function)
    assert function.__doc__
    assert function.__name__ in operators()
    text = function.__text_signature__.strip("()").replace("'", "")
    names = [part.partition("=")[0] for part in text.split(", ")]
    assert list(signature.parameters) == names
    assert callable(function) and repr(function) == f"<operator chx.{function.__name__}>"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sum", "(a, axis=None, keepdims=False, dtype=None)"),
        ("zeros", "(shape, dtype='float32', device=None)"),
        ("eye", "(N, M=None, k=0, dtype='float64', device=None)"),
        ("full", "(shape, fill_value, dtype=None, device=None)"),
        ("concatenate", "(arrays, axis=0)"),
        ("stack", "(arrays, axis=0)"),
        ("split", "(ary, indices_or_sections, axis=0)"),
        ("linear", "(x, w, b=None, n_batch_axes=1)"),
        ("reshape", "(a, newshape)"),
        ("where", "(condition, x=None, y=None)"),
    ],
)
def test_signature(name, expected):
    found = inspect.signature(getattr(chx, name)).parameters.values()
    plain = [p.replace(annotation=p.empty) for p in found]  # functions in Python have types
    assert str(inspect.Signature(plain)) == expected


def test_aliases_are_the_same_object():
    assert chx.amax is chx.max and chx.amin is chx.min
    assert chx.abs is chx.absolute and chx.mod is chx.remainder and chx.divide is chx.true_divide


def test_internal_operators_are_hidden():
    assert not hasattr(chx, "relu_grad") and not hasattr(chx, "random_uniform")


def test_keywords_in_any_order():
    a = chx.array([[1.0, 2.0], [3.0, 4.0]])
    assert chx.sum(keepdims=True, axis=1, a=a).shape == (2, 1)
    assert chx.eye(2, k=1, dtype="int8", M=3).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert chx.full(fill_value=2, shape=2).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: chx.sum(), "a"),
        (lambda a: chx.sum(a, 0, True, None, 1), "at most"),
        (lambda a: chx.sum(a, dtype="x"), ""),
        (lambda a: chx.sum(a, axes=0), "unexpected keyword"),
        (lambda a: chx.sum(a, a=a), "multiple values"),
        (lambda a: chx.sum(a, axis="x"), ""),
        (lambda a: chx.sum(a, axis=1.0), ""),
        (lambda a: chx.sum([1, 2]), "ndarray"),
        (lambda a: chx.exp(2.0), ""),
        (lambda a: chx.add(1, 2), "at least one array"),
        (lambda a: chx.add(a, "x"), ""),
        (lambda a: chx.add(a, None), ""),
        (lambda a: chx.full(2), "fill_value"),
        (lambda a: chx.zeros(), "shape"),
        (lambda a: chx.zeros("ab"), ""),
        (lambda a: chx.zeros(2, device=3), "device"),
        (lambda a: chx.concatenate(a, a), ""),
        (lambda a: chx.concatenate([a, "x"]), "ndarray"),
        (lambda a: chx.full(2, "x"), "number"),
        (lambda a: a.sum(0, False, None, 3), "at most"),
    ],
)
def test_type_errors(call, message):
    with pytest.raises(TypeError, match=message):
        call(chx.zeros((2, 2)))


def test_value_errors():
    a = chx.zeros(3)
    with pytest.raises(ValueError, match="raise, wrap, clip"):
        chx.take(a, chx.array([0]), 0, mode="no such")
    with pytest.raises(chx.DimensionError):
        chx.concatenate([])
    with pytest.raises(OverflowError):
        chx.zeros(2**70)


def test_axis_arguments():
    values = np.arange(24.0).reshape(2, 3, 4)
    a = chx.array(values)
    for axis in [None, 0, -1, np.int64(1), (0, 2), [1, 2], (), (-1, 0)]:
        expected = values.sum(tuple(axis) if isinstance(axis, list) else axis)
        np.testing.assert_allclose(chx.to_numpy(a.sum(axis)), expected)
    for axis in [3, -4, (0, 0), (1, -2)]:
        with pytest.raises(chx.DimensionError):
            a.sum(axis)


def test_shape_arguments():
    for shape in [3, (3,), [3], np.int8(3), (np.int64(3),)]:
        assert chx.zeros(shape).shape == (3,)
    assert chx.zeros(()).shape == ()
    assert chx.zeros((2, 0, 3)).shape == (2, 0, 3)
    with pytest.raises(chx.DimensionError):
        chx.zeros((1,) * 11)


def test_none_means_the_default():
    assert chx.zeros(2, None).dtype == np.float32
    assert chx.full(2, 1, None, None).dtype == np.int32
    assert chx.full(2, 1.0).dtype == np.float32
    assert chx.arange(3).dtype == np.int32


def test_arange():
    for args in [(5,), (2, 7), (1, 10, 3), (5, 0, -2), (0.0, 1.0, 0.25), (3, 3)]:
        np.testing.assert_allclose(chx.to_numpy(chx.arange(*args)), np.arange(*args))
    assert chx.arange(3, dtype="float64").dtype == np.float64


def test_joining_and_splitting():
    x, y = np.arange(6.0).reshape(2, 3), np.arange(6.0, 12.0).reshape(2, 3)
    a, b = chx.array(x), chx.array(y)
    pairs = [
        (chx.concatenate([a, b]), np.concatenate([x, y])),
        (chx.concatenate((a, b), 1), np.concatenate([x, y], 1)),
        (chx.concatenate([a, b], axis=None), np.concatenate([x, y], None)),
        (chx.stack([a, b]), np.stack([x, y])),
        (chx.stack([a, b], axis=-1), np.stack([x, y], -1)),
    ]
    for actual, expected in pairs:
        np.testing.assert_array_equal(chx.to_numpy(actual), expected)
    for where, axis in [
        (3, 1),
        ([1], 1),
        ((1, 2), 1),
        (2, 0),
        (np.array([1, 2]), 1),
        ([], 0),
        (2.0, 0),
    ]:
        parts = chx.split(a, where, axis)
        expected = np.split(x, where, axis)
        assert isinstance(parts, list) and len(parts) == len(expected)
        for part, values in zip(parts, expected, strict=True):
            np.testing.assert_array_equal(chx.to_numpy(part), values)
    assert len(chx.split(a, indices_or_sections=2)) == 2
    with pytest.raises(chx.DimensionError):
        chx.split(a, 2, 1)
    for wrong in (1.5, [1.0], "2"):
        with pytest.raises(TypeError):
            chx.split(a, wrong)


def test_iterators_of_temporary_arrays():
    made = chx.concatenate(chx.full(2, i) for i in range(3))
    assert made.tolist() == [0, 0, 1, 1, 2, 2]
    assert chx.stack(map(chx.array, range(3))).tolist() == [0, 1, 2]
    rows = chx.array([[1, 2], [3, 4]])
    assert chx.concatenate(rows).tolist() == [1, 2, 3, 4]

    class Clears:
        def __init__(self, arrays):
            self.arrays = arrays

        def __index__(self):
            self.arrays.clear()
            return 0

    arrays = [chx.ones(1), chx.zeros(1)]
    assert chx.concatenate(arrays, axis=Clears(arrays)).tolist() == [1.0, 0.0]


def test_take():
    values = np.arange(12.0).reshape(3, 4)
    a = chx.array(values)
    for indices in [np.array([2, 0]), np.array([[0, 1], [2, 2]], np.int32), np.array(1)]:
        for axis in [0, 1]:
            expected = values.take(indices, axis)
            np.testing.assert_array_equal(
                chx.to_numpy(chx.take(a, chx.array(indices), axis)), expected
            )
    for mode in ["wrap", "clip"]:
        np.testing.assert_array_equal(
            chx.to_numpy(a.take(chx.array([-1, 5]), 0, mode)), values.take([-1, 5], 0, mode=mode)
        )


def test_where():
    condition, x = np.array([True, False, True]), np.array([1.0, 2.0, 3.0])
    c, a = chx.array(condition), chx.array(x)
    for actual, expected in [
        (chx.where(c, a, 0), np.where(condition, x, 0)),
        (chx.where(c, -1.5, a), np.where(condition, -1.5, x)),
        (chx.where(c, a, a * 2), np.where(condition, x, x * 2)),
        (chx.where(c, 1, 2), np.where(condition, 1, 2)),
    ]:
        np.testing.assert_array_equal(chx.to_numpy(actual), expected)


def test_losses():
    x = np.array([[1.0, 2.0, 0.5], [0.1, -1.0, 3.0]], np.float32)
    t = np.array([1, 2])
    log_p = x - np.log(np.exp(x).sum(1, keepdims=True))
    loss = chx.softmax_cross_entropy(chx.array(x), chx.array(t))
    np.testing.assert_allclose(chx.to_numpy(loss), -log_p[[0, 1], t], rtol=1e-5)
    assert chx.accuracy(chx.array(x), chx.array(t)).item() == 1.0


def test_in_place_functions_give_none():
    a = chx.zeros(3)
    assert chx.copyto(a, 2) is None
    assert a.fill(2.5) is None
    assert a.tolist() == [2.5] * 3


def test_linear_without_bias():
    x, w = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(4, 3)
    a, b = chx.array(x), chx.array(w)
    for actual in [chx.linear(a, b), chx.linear(a, b, None), chx.linear(x=a, w=b)]:
        np.testing.assert_allclose(chx.to_numpy(actual), x @ w.T)


def test_random():
    chx.random.seed(7)
    a = chx.random.normal(2.0, 3.0, (200, 200))
    b = chx.random.uniform(-1.0, 5.0, size=40000, dtype="float32")
    assert (a.shape, a.dtype, b.shape, b.dtype) == ((200, 200), np.float64, (40000,), np.float32)
    values = chx.to_numpy(a)
    assert abs(values.mean() - 2) < 0.1 and abs(values.std() - 3) < 0.1
    values = chx.to_numpy(b)
    assert values.min() >= -1 and values.max() < 5 and abs(values.mean() - 2) < 0.1
    assert chx.random.normal().shape == ()
    chx.random.seed(7)
    np.testing.assert_array_equal(
        chx.to_numpy(a), chx.to_numpy(chx.random.normal(2.0, 3.0, (200, 200)))
    )
    assert (chx.to_numpy(a) != chx.to_numpy(chx.random.normal(2.0, 3.0, (200, 200)))).any()
    with pytest.raises(chx.DtypeError):
        chx.random.normal(size=3, dtype="int32")


def test_constants_are_numpys():
    for name in [
        "pi",
        "e",
        "inf",
        "nan",
        "newaxis",
        "euler_gamma",
    ]:
        assert getattr(chx, name) is getattr(np, name)
    # Names that NumPy 2 has no more.
    assert chx.NaN is np.nan and chx.Inf is chx.Infinity is chx.infty is np.inf
    assert [
        str(x) for x in (chx.PINF, chx.NINF, chx.PZERO, chx.NZERO)
    ] == "inf -inf 0.0 -0.0".split()
    assert chx.float32 is np.float32 and chx.dtype is np.dtype
    assert [np.dtype(t).name for t in chx.all_dtypes] == (
        "bool int8 int16 int32 int64 uint8 float16 float32 float64".split()
    )


def test_exceptions_are_not_each_others():
    names = (
        "ChainerxError ContextError BackendError DeviceError DimensionError DtypeError "
        "NotImplementedError GradientError GradientCheckError"
    ).split()
    builtin = {"DimensionError": ValueError, "DtypeError": TypeError}
    for name in names:
        assert getattr(chx, name).__bases__ == (builtin.get(name, Exception),)
        assert getattr(chx, name).__module__ == "chx"
    assert chx.AuthenticationError.__bases__ == (chx.ChainerxError, PermissionError)
    assert issubclass(chx.OutOfMemoryError, (chx.ChainerxError, MemoryError))
