"""Functions of NumPy that were asked for later: compared with NumPy, or with what defines them."""

import warnings

import chx
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("seeded_session")


def check(got, want, rtol=1e-9, atol=1e-12):
    want = np.asarray(want)
    assert type(got) is chx.ndarray and (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(chx.to_numpy(got), want, rtol=rtol, atol=atol)


def test_spaces():
    for dtype in ("float32", "float64"):
        for args in ((0, 3), (1.5, -2.0, 7), (0, 3, 5, False), (0, 1, 0), (2, 3, 1)):
            check(chx.logspace(*args, dtype=dtype), np.logspace(*args).astype(dtype))
        for args in ((1, 1000, 4), (0.5, 8.0, 9, False), (-1, -1000, 4), (3, 3, 2)):
            check(chx.geomspace(*args, dtype=dtype), np.geomspace(*args).astype(dtype))
    check(chx.logspace(0, 3, 4, base=2.0, dtype="float64"), [1.0, 2.0, 4.0, 8.0])
    assert chx.logspace(0, 1).dtype == chx.geomspace(1, 2).dtype == chx.linspace(0, 1).dtype
    with pytest.raises(ValueError):
        chx.geomspace(0, 1)


DTYPES = ["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64"]


def test_result_type_is_that_of_operators():
    for a in DTYPES:
        x = chx.ones(2, a)
        for b in DTYPES:
            y = chx.ones(2, b)
            want = (x * y).dtype
            for first in (x, x.dtype, a, np.ones(2, a)):
                for second in (y, y.dtype, b, np.ones(2, b)):
                    assert chx.result_type(first, second) == want, (a, b)
        for number in (1, 1.5, True, np.float64(1.5), np.int8(1)):
            assert chx.result_type(x, number) == chx.result_type(number, x) == (x * number).dtype
    for numbers in ((1,), (1.5,), (True,), (1, True), (1, 1.5)):
        assert (
            chx.result_type(*numbers)
            == chx.full(2, sum(numbers) if len(numbers) > 1 else numbers[0]).dtype
        )
    assert np.result_type(chx.ones(2), np.ones(2)) == np.float64
    with pytest.raises(ValueError, match="at least one"):
        chx.result_type()
    with pytest.raises(TypeError):
        chx.result_type("text", 1)


def test_can_cast():
    for a in DTYPES:
        for b in DTYPES:
            for casting in ("no", "safe", "same_kind", "unsafe"):
                want = np.can_cast(a, b, casting)
                assert chx.can_cast(a, b, casting) is want
                assert chx.can_cast(chx.ones(2, a), b, casting) is want
    with pytest.raises(TypeError, match="expects an array or a dtype, got int"):
        chx.can_cast(1, "int8")
    assert chx.finfo(chx.ones(2).dtype).eps == np.finfo("float32").eps
    assert chx.iinfo("int8").max == 127


def test_polyval(rng):
    p, x = rng.standard_normal(4), rng.standard_normal((2, 3))
    for coefficients in (p, chx.array(p), p.tolist()):
        check(chx.polyval(coefficients, chx.array(x)), np.polyval(p, x))
    for points in (x, x.tolist()):
        check(chx.polyval(chx.array(p), points), np.polyval(p, x))
    check(np.polyval(chx.array(p), x), np.polyval(p, x))
    check(chx.polyval(chx.array([1, 2, 3]), chx.array(5)), np.polyval([1, 2, 3], 5))
    check(chx.polyval(chx.zeros((0,), "float64"), chx.array(x)), np.zeros((2, 3)))
    q, y = chx.array(p).require_grad(), chx.array(x).require_grad()
    chx.sum(chx.polyval(q, y)).backward()
    check(q.grad, [(x**k).sum() for k in (3, 2, 1, 0)])
    check(y.grad, np.polyval(np.polyder(p), x))
    with pytest.raises(ValueError, match="one dimension"):
        chx.polyval(chx.ones((2, 2)), 1.0)


@pytest.mark.parametrize("columns", [(), (3,)])
def test_polyfit(rng, columns):
    x, y = rng.uniform(-1, 1, 12), rng.standard_normal((12, *columns))
    w = rng.uniform(0.5, 2, 12)
    for deg in (0, 1, 3):
        for weights in (None, w):
            check(chx.polyfit(chx.array(x), y, deg, w=weights), np.polyfit(x, y, deg, w=weights))
            for cov in (True, "unscaled"):
                want = np.polyfit(x, y, deg, w=weights, cov=cov)
                for g, n in zip(
                    chx.polyfit(x, chx.array(y), deg, w=weights, cov=cov), want, strict=True
                ):
                    check(g, np.broadcast_to(n, g.shape) if cov == "unscaled" else n)
    got, want = chx.polyfit(chx.array(x), y, 2, full=True), np.polyfit(x, y, 2, full=True)
    for g, n in zip(got[:2], want[:2], strict=True):
        check(g, n)
    check(got[3], want[3])
    assert (got[2], got[4]) == (want[2], want[4])
    leaf = chx.array(y).require_grad()
    chx.sum(chx.polyfit(x, leaf, 1)).backward()
    step = np.zeros_like(y)
    step.flat[0] = 1
    np.testing.assert_allclose(float(leaf.grad.flat[0]), np.polyfit(x, step, 1).sum(), rtol=1e-8)


def test_polyfit_refuses_and_warns():
    x = chx.arange(3, dtype="float64")
    for call in (
        lambda: chx.polyfit(x, x, -1),
        lambda: chx.polyfit(x, [1.0, 2.0], 1),
        lambda: chx.polyfit(x, x, 1, w=[1.0]),
        lambda: chx.polyfit(x, x, 2, cov=True),
    ):
        with pytest.raises(ValueError, match="polyfit"):
            call()
    with pytest.warns(UserWarning, match="do not determine"):
        chx.polyfit(chx.ones(3), chx.ones(3), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(chx.polyfit(chx.arange(4), chx.arange(4) * 2, 1), [2.0, 0.0])


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_apply_along_axis(rng, axis):
    a = rng.standard_normal((2, 3, 4))
    x = chx.array(a).require_grad()
    for function in (
        lambda m: lambda v: m.sum(v * v),
        lambda m: lambda v: v[:2] * 2,
        lambda m: lambda v: m.outer(v, v[:2]),
        lambda m: lambda v: 1.5,
    ):
        want = np.apply_along_axis(function(np), axis, a)
        check(chx.apply_along_axis(function(chx), axis, x), want)
        check(np.apply_along_axis(function(chx), axis, x), want)
    check(
        chx.apply_along_axis(lambda v, k, n=0: v[:1] * k + n, axis, x, 2.0, n=1.0).sum(),
        np.apply_along_axis(lambda v: v[:1] * 2 + 1, axis, a).sum(),
    )
    chx.sum(chx.apply_along_axis(lambda v: chx.sum(v * v), axis, x)).backward()
    check(x.grad, 2 * a)
    with pytest.raises(ValueError, match="expects vectors"):
        chx.apply_along_axis(chx.sum, 0, chx.ones((3, 0)))


def test_savez_compressed(tmp_path, rng):
    x = np.zeros(10000)
    path = tmp_path / "arrays.npz"
    chx.savez_compressed(path, chx.array(x), name=chx.array([1, 2]), other=[True])
    assert path.stat().st_size < 5000
    with np.load(path) as found:
        np.testing.assert_array_equal(found["arr_0"], x)
        assert found["name"].tolist() == [1, 2] and found["other"].tolist() == [True]
    assert chx.load(path)["name"].tolist() == [1, 2]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("largest", [True, False])
def test_topk(rng, dtype, axis, largest):
    a = rng.integers(0, 4, (4, 5)).astype(dtype)  # with equal elements
    if dtype == "float64":
        a[1, 2] = np.nan
    for k in range(a.shape[axis] + 1):
        values, indices = chx.topk(chx.array(a), k, axis, largest)
        # Stable: by keys that fall, and equal ones by their places.
        keys = np.where(np.isnan(a), np.inf, a.astype("float64"))
        want = np.argsort(-keys if largest else keys, axis, kind="stable")
        want = want.take(range(k), axis)
        check(indices, want)
        np.testing.assert_array_equal(chx.to_numpy(values), np.take_along_axis(a, want, axis))
        assert values.dtype == a.dtype
    with pytest.raises(ValueError, match=r"\[topk\] expects k in"):
        chx.topk(chx.array(a), a.shape[axis] + 1, axis)


def test_topk_has_a_gradient():
    x = chx.array([1.0, 5.0, 3.0]).require_grad()
    (chx.topk(x, 2)[0] * chx.array([10.0, 1.0])).sum().backward()
    assert x.grad.tolist() == [0.0, 10.0, 1.0]


def test_one_hot(rng):
    for shape in ((), (4,), (2, 3), (0,)):
        labels = np.asarray(rng.integers(0, 5, shape))
        for dtype in ("float32", "int64", "bool"):
            got = chx.one_hot(chx.array(labels), 5, dtype)
            check(got, np.eye(5, dtype=dtype)[labels])
        for axis in range(len(shape) + 1):
            check(
                chx.one_hot(chx.array(labels), 5, axis=axis),
                np.moveaxis(np.eye(5, dtype="f")[labels], -1, axis),
            )
    assert chx.one_hot(chx.array([-1, 5, 1]), 2).tolist() == [[0, 0], [0, 0], [0, 1]]
    with pytest.raises(chx.DtypeError, match="expects integers"):
        chx.one_hot(chx.ones(2), 3)


REDUCTIONS = ["sum", "prod", "amax", "amin", "mean", "all", "any"]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_reductions_of_a_part(rng, name, axis):
    for dtype in ("float64", "int64", "bool"):
        if name == "mean" and dtype != "float64":
            continue  # of a dtype of its own, as in ChainerX
        a = rng.integers(-3, 4, (3, 4)).astype(dtype)
        mask = rng.random((3, 4)) < 0.6
        for where in (mask, mask[0], True):
            for initial in (None, 2):
                for keepdims in (False, True):
                    kwargs = {"axis": axis, "keepdims": keepdims, "where": where}
                    if initial is not None:
                        kwargs["initial"] = initial
                    if name in ("mean", "all", "any") and initial is not None:
                        with pytest.raises(
                            TypeError, match="unexpected keyword argument 'initial'"
                        ):
                            getattr(chx, name)(chx.array(a), **kwargs)
                        continue
                    if name in ("amax", "amin") and (dtype == "bool" or initial is None):
                        if where is not True and initial is None:
                            with pytest.raises(ValueError, match="expects initial beside where"):
                                getattr(chx, name)(chx.array(a), **kwargs)
                        continue
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # means of nothing are NaN
                        want = getattr(np, name)(a, **kwargs)
                    for call in (
                        lambda f, k: getattr(chx, name)(f, **k),
                        lambda f, k: getattr(np, name)(f, **k),
                        lambda f, k: getattr(
                            f, name.removeprefix("a") if name[:2] == "am" else name
                        )(**k),
                    ):
                        check(call(chx.array(a), kwargs), want)
                    if where is not True:
                        kwargs["where"] = chx.array(where)
                        check(getattr(chx, name)(chx.array(a), **kwargs), want)


def test_extrema_of_nothing_are_the_initial_value():
    empty = chx.zeros((0, 3), "float64")
    for name in ("amax", "amin"):
        check(getattr(chx, name)(empty, axis=0, initial=5.0), [5.0, 5.0, 5.0])
        with pytest.raises(ValueError):
            getattr(chx, name)(empty, axis=0)
    check(np.maximum.reduce(chx.array([1.0, 9.0]), initial=3.0, where=[True, False]), 3.0)


def test_parts_have_gradients(rng):
    a, mask = rng.standard_normal((3, 4)), rng.random((3, 4)) < 0.5
    mask[0] = True
    for name, want in (("sum", mask * 1.0), ("mean", mask / mask.sum())):
        x = chx.array(a).require_grad()
        getattr(chx, name)(x, where=mask).backward()
        check(x.grad, want)


def test_out(rng):
    a, b, mask = rng.standard_normal((3, 4)), rng.standard_normal(4), rng.random((3, 4)) < 0.5
    x = chx.array(a)
    out = chx.zeros((3, 4), "float64")
    assert chx.add(x, b, out=out) is out
    check(out, a + b)
    assert chx.exp(x, out=out, where=mask) is out
    check(out, np.where(mask, np.exp(a), a + b))
    assert chx.multiply(2.0, x, out=(out,)) is out
    check(out, 2 * a)
    row = chx.zeros((4,), "float32")
    assert chx.sum(x, 0, out=row) is row and np.sum(x, axis=0, out=row) is row
    check(row, a.sum(0).astype("float32"), rtol=1e-6)
    assert x.sum(0, out=row, where=mask) is row
    check(row, (a * mask).sum(0).astype("float32"), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: chx.exp(x, out=np.zeros(2)), TypeError, "array of chx as out"),
        (
            lambda x: chx.exp(x, out=chx.zeros(2, "int32")),
            TypeError,
            "cannot cast float32 to int32",
        ),
        (lambda x: chx.exp(x, out=chx.zeros(1)), ValueError, r"expects out of \(2,\), got \(1,\)"),
        (lambda x: chx.exp(x, where=[True, False]), TypeError, "where= without out"),
        (lambda x: chx.exp(x, initial=1), TypeError, "unexpected keyword argument 'initial'"),
        (lambda x: chx.argmax(x, where=[True, False]), TypeError, "unexpected keyword argument"),
        (lambda x: chx.sum(x, where=[True] * 3), ValueError, "broadcast"),
        (lambda x: chx.sum(x, axs=0, out=x), TypeError, "axs"),
        (lambda x: chx.exp(x.require_grad(), out=chx.zeros(2)), chx.ChainerxError, "In-place"),
    ],
)
def test_keywords_are_refused(call, error, text):
    with pytest.raises(error, match=text):
        call(chx.ones(2))
