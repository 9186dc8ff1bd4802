"""Kernels written as strings of C++, against NumPy written by C's rules."""

import chx
import numpy as np
import pytest
from chx import kernels


@pytest.fixture
def rng():
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    return np.random.default_rng(seed)


def run(kernel, *args, **kwargs):
    results = kernel(*[chx.array(a) if isinstance(a, np.ndarray) else a for a in args], **kwargs)
    if isinstance(results, tuple):
        return [chx.to_numpy(y) for y in results]
    return chx.to_numpy(results)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_one_kernel_for_every_float(rng, dtype):
    muladd = kernels.elementwise("T x, T y, T z", "T w", "w = x * y + z", "muladd")
    x, y, z = (rng.normal(size=s).astype(dtype) for s in [(3, 4), (4,), (3, 1)])
    w = run(muladd, x, y, z)
    wide = "float32" if dtype == "float16" else dtype  # rounded once, as C does
    want = (x.astype(wide) * y.astype(wide) + z.astype(wide)).astype(dtype)
    assert w.dtype == dtype
    np.testing.assert_allclose(w, want, rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).eps)


def test_several_results_and_fixed_types(rng):
    back = kernels.elementwise(
        "float32 x, float32 y, float32 gw", "float32 gx, float32 gy", "gx = y * gw; gy = x * gw"
    )
    x, y, gw = (rng.normal(size=(2, 3)).astype("f") for _ in range(3))
    gx, gy = run(back, x, y, gw)
    np.testing.assert_array_equal(gx, y * gw)
    np.testing.assert_array_equal(gy, x * gw)


def test_the_same_arguments_give_the_same_kernel():
    one = kernels.elementwise("T x", "T y", "y = x", "same")
    assert kernels.elementwise("T x", "T y", "y = x", "same") is one
    assert kernels.elementwise("T x", "T y", "y = -x", "same") is not one
    total = kernels.reduce("T x", "T y", "x", "a + b", "y = a", 0, "total")
    assert kernels.reduce("T x", "T y", "x", "a + b", "y = a", 0, "total") is total


def test_integers_are_c_s(rng):
    x = rng.integers(-50, 50, 300).astype("int32")
    y = rng.integers(1, 9, 300).astype("int32") * rng.choice([-1, 1], 300).astype("int32")
    kernel = kernels.ElementwiseKernel(
        "int32 x, int32 y",
        "int32 q, int32 r, int64 bits, int32 n",
        "q = x / y; r = x % y; bits = (x & 15) | (y ^ 3) << 2; n = ~x;",
    )
    q, r, bits, n = run(kernel, x, y)
    want = np.trunc(x / y).astype("int32")
    np.testing.assert_array_equal(q, want)
    np.testing.assert_array_equal(r, x - want * y)
    np.testing.assert_array_equal(bits, (x & 15) | ((y ^ 3) << 2))
    np.testing.assert_array_equal(n, ~x)


def test_small_integers_and_bools_are_computed_as_int(rng):
    x = rng.integers(-128, 128, 100).astype("int8")
    y = rng.integers(-128, 128, 100).astype("int8")
    kernel = kernels.ElementwiseKernel(
        "int8 x, int8 y",
        "int32 sum, int8 low, int32 count",
        "sum = x + y; low = sum; " "count = (x > 0) + (y > 0)",
    )
    total, low, count = run(kernel, x, y)
    np.testing.assert_array_equal(total, x.astype("int32") + y)
    np.testing.assert_array_equal(low, (x.astype("int32") + y).astype("int8"))
    np.testing.assert_array_equal(count, (x > 0).astype("int32") + (y > 0))


def test_integers_near_the_limits_of_their_dtypes(rng):
    for dtype in ("int32", "int64"):
        info = np.iinfo(dtype)
        edges = [info.max, info.max - 1, info.min + 1, 16777217, -16777217, 7, -7, 0]
        x = np.array(edges, dtype).repeat(4)
        y = np.tile(np.array([1, -3, 10, info.max], dtype), len(edges))
        kernel = kernels.ElementwiseKernel("T x, T y", "T q, T r", "q = x / y; r = x % y")
        q, r = run(kernel, x, y)
        for i in range(len(x)):
            a, b = int(x[i]), int(y[i])
            want = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            assert (q[i], r[i]) == (want, a - want * b)
    one = np.array([1])
    assert run(kernels.ElementwiseKernel("T x", "T y", "y = x * (9007199254740993 % 10)"), one) == 3
    assert (
        run(kernels.ElementwiseKernel("T x", "T y", "y = x * (-7 / 2 * 10 + -7 % 2)"), one) == -31
    )


def value(operation, x, dtype="float64", params="T x", *more):
    """The only element of y."""
    kernel = kernels.ElementwiseKernel(params, f"{dtype} y", operation)
    return run(kernel, np.asarray(x), *more).item()


def test_types_of_numbers_and_literals_are_c_s():
    i8, u8, i32 = np.int8(100), np.uint8(200), np.int32(1 << 20)
    assert value("y = x > 100 ? x : -1", np.uint8(3)) == -1
    assert value("y = x > 300 ? 0 : 1000", u8) == 1000
    assert value("y = x > 2 ? x : 1e5f", np.float16(1)) == 1e5
    assert value("y = x > 0 ? x : 0.5", np.int32(2**31 - 1)) == 2**31 - 1
    assert value("y = x * k", i32, "int64", "int32 x, int64 k", 1 << 20) == 1 << 40
    assert value("y = x * k", np.float32(3), "float64", "float32 x, float64 k", 0.1) == 3 * 0.1
    assert value("unsigned char c = -1; y = x + c", i32) == (1 << 20) + 255
    assert value("y = x + (int8)200", i32) == (1 << 20) - 56
    assert value("y = x + k", i32, "int64", "int32 x, uint8 k", 300) == (1 << 20) + 44
    assert value("y = x + 1L", np.int32(2**31 - 1), "int64") == 2**31
    assert value("y = x + 3000000000", np.int32(5), "int64") == 3000000005
    assert value("y = pow(x, 2)", np.int32(100000)) == 1e10
    assert value("y = fabs(x) / 2", np.int32(-3)) == 1.5
    assert value("y = fmin(x, 2) / 4", np.int32(3)) == 0.5
    assert value("y = x * 0.1", np.int32(123456789)) == 123456789 * 0.1
    assert value("y = x == 16777216.0", np.int32(16777217)) == 0
    assert value("y = sqrt(x)", np.int64(3)) == np.sqrt(3.0)
    assert value("int8 n = 127; if (x > 0) n += 1; y = n", i8) == -128
    assert value("y = x + pow(2, -1) + 1 / 0.0", np.float64(1)) == np.inf
    assert value("y = x * 1e-3f", np.float64(1)) == np.float32(1e-3)
    assert value("y = constant + 1", 1.0, "float64", "const T constant") == 2


def test_nan_is_left_out_of_max_and_min_as_in_cuda():
    x = np.array([np.nan, -1.0, 3.0])
    kernel = kernels.ElementwiseKernel("T x", "T y, T z", "y = max(x, T(0)); z = min(x, T(0))")
    y, z = run(kernel, x)
    np.testing.assert_array_equal(y, [0, 0, 3])
    np.testing.assert_array_equal(z, [0, -1, 0])
    top = kernels.reduce("T x", "T y", "x", "max(a, b)", "y = a", "-10.0f", "top")
    assert run(top, x) == 3
    assert run(top, np.array([-20.0, -30.0])) == -10  # the identity takes part


def test_results_that_are_given_are_read_and_written(rng):
    update = kernels.elementwise("T grad, T lr", "T param", "param -= lr * grad", "sgd")
    grad, param = rng.normal(size=(2, 3, 4))
    remote = chx.array(param)
    assert update(chx.array(grad), 0.5, remote) is remote
    np.testing.assert_allclose(chx.to_numpy(remote), param - 0.5 * grad)
    with pytest.raises(chx.DimensionError, match="results of shape"):
        update(chx.array(grad), 0.5, chx.zeros((1, 4), "float64"))
    with pytest.raises(TypeError, match="2 or 3 arguments"):
        update(chx.array(grad))


def test_choices_and_branches(rng):
    x = rng.normal(size=(4, 5))
    want = np.where(x > 1, x, np.where(x > 0, x * x, -0.5 * x))
    for operation in (
        "y = x > 1 ? x : x > 0 ? x * x : -0.5 * x",
        "if (x > 1) y = x; else if (x > 0) { T s = x; s *= x; y = s; } else { y = -0.5 * x; }",
        "y = -0.5 * x; if (x > 0) { y = x * x; } if (x > 1 && !(x <= 0)) y = x;",
    ):
        kernel = kernels.ElementwiseKernel("T x", "T y", operation)
        np.testing.assert_allclose(run(kernel, x), want, rtol=1e-15)


def test_mathematics_and_comments(rng):
    x = rng.uniform(0.1, 0.9, 50)
    kernel = kernels.ElementwiseKernel(
        "float64 x",
        "float64 y",
        """
        // a comment
        const double t = exp(x) + log1p(x) /* another */ + std::sqrt(x) * rsqrt(x);
        float narrow = static_cast<float>(pow(x, 3.0)), other = 1;
        y = t + tanh(x) + acos(x) + fmin(x, 0.5) + max(x, 0.3) + atan2(x, 2.0) + narrow * other
            + (double)(int)(x * 10) + M_PI + fabs(-x) + (x == x) + 1e-3f + 0x10;
        ++y; y -= 2;
        """,
        "mathematics",
    )
    want = np.exp(x) + np.log1p(x) + 1 + np.tanh(x) + np.arccos(x) + np.minimum(x, 0.5)
    want += np.maximum(x, 0.3) + np.arctan2(x, 2.0) + (x**3).astype("f")
    want += np.trunc(x * 10) + np.pi + x + 1 + 1e-3 + 16 + 1 - 2
    np.testing.assert_allclose(run(kernel, x), want, rtol=1e-7)


def test_positions_numbers_and_shapes(rng):
    kernel = kernels.ElementwiseKernel("T x, int64 k", "T y", "y = x + i * k")
    x = rng.normal(size=(3, 1))
    got = run(kernel, x, 2)
    np.testing.assert_allclose(got, x + 2 * np.arange(3).reshape(3, 1))
    constant = kernels.ElementwiseKernel("T x, T y", "int32 z", "z = 7")
    assert (run(constant, x, np.ones((1, 4))) == np.full((3, 4), 7)).all()
    for shape in [(), (0,), (2, 0, 3)]:
        empty = np.zeros(shape, "f")
        assert run(kernels.ElementwiseKernel("T x", "T y", "y = x + 1"), empty).shape == shape


def test_a_result_is_no_alias():
    x = chx.ones((3,))
    y = kernels.ElementwiseKernel("T x", "T y", "y = x")(x)
    x += 1
    np.testing.assert_array_equal(chx.to_numpy(y), np.ones(3))
    y, z = kernels.ElementwiseKernel("T x", "T y, T z", "y = x + 1; z = y")(x)
    y += 100
    np.testing.assert_array_equal(chx.to_numpy(z), np.full(3, 3))


def test_gradients(rng):
    kernel = kernels.ElementwiseKernel("T x, T y", "T z", "z = x > 0 ? x * x * y : tanh(y)")
    x, y = rng.normal(size=(2, 6))
    a, b = chx.array(x).require_grad(), chx.array(y).require_grad()
    chx.sum(kernel(a, b)).backward()
    np.testing.assert_allclose(chx.to_numpy(a.grad), np.where(x > 0, 2 * x * y, 0))
    np.testing.assert_allclose(
        chx.to_numpy(b.grad), np.where(x > 0, x * x, 1 - np.tanh(y) ** 2), rtol=1e-12
    )


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(rng, axis, keepdims):
    x = rng.normal(size=(3, 5, 7))
    options = {"axis": axis, "keepdims": keepdims}
    norm = kernels.reduce("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")
    np.testing.assert_allclose(run(norm, x, **options), np.sqrt((x * x).sum(**options)))
    top = kernels.reduce("T x", "T y", "fabs(x)", "max(a, b)", "y = a", None, "top")
    np.testing.assert_array_equal(run(top, x, **options), np.abs(x).max(**options))
    # No operator does this: halves.
    both = kernels.reduce("T x", "T y", "1 + x", "a + b + a * b", "y = a", 0, "both")
    want = np.exp(np.log(np.abs(2 + x)).sum(**options)) * np.sign(2 + x).prod(**options) - 1
    np.testing.assert_allclose(run(both, x, **options), want, rtol=1e-9)


def test_a_mapping_has_the_shape_of_all_arguments(rng):
    x, z = rng.normal(size=(3, 1)), rng.normal(size=(1, 4))
    for mapping, want in (("x", np.broadcast_to(x, (3, 4))), ("1", np.ones((3, 4)))):
        total = kernels.reduce("T x, T z", "T y", mapping, "a + b", "y = a", 0, "total")
        np.testing.assert_allclose(run(total, x, z), want.sum())
        np.testing.assert_allclose(run(total, x, z, axis=1), want.sum(1))
    halves = kernels.reduce("int32 x", "float64 y", "0.5", "a + b", "y = a", 0, "halves")
    assert run(halves, np.arange(3, dtype="int32")) == 1.5
    for identity in ("text", "T(0)"):
        with pytest.raises(ValueError, match="a number as identity"):
            kernels.ReductionKernel("T x", "T y", "x", "a + b", "y = a", identity)
    with pytest.raises(ValueError, match="reduce_type"):
        kernels.ReductionKernel("T x", "T y", "x", "a + b", "y = a", 0, reduce_type="tensor")


def test_reductions_of_nothing_and_of_one():
    total = kernels.reduce("T x", "T y", "x", "a + b", "y = a", 0, "total")
    np.testing.assert_array_equal(run(total, np.zeros((0, 3)), axis=0), np.zeros(3))
    assert run(total, np.array(5.0)) == 5
    top = kernels.reduce("T x", "T y", "x", "max(a, b)", "y = a", None, "top")
    with pytest.raises(ValueError, match="no identity"):
        top(chx.zeros((0, 3)), axis=0)
    assert run(top, np.zeros((0, 3)), axis=1).shape == (0,)


@pytest.mark.parametrize(
    "operation",
    [
        "y = x[i]",
        "y = ",
        "y = (x",
        "y = x @ x",
        "y x",
        "x.size = 3",
        'y = "text"',
        "{ y = x;",
        "y = system(x)",
        "y = exp(x, x)",
        "y = x + 99999999999999999999",
        "y = x + 089",
        "y = x + 1q",
        "T& r = y",
        "int** p = 0",
        "auto t",
        "switch (i) {}",
        "y = sizeof(x)",
        "y = std::vector(x)",
        "y = i.x",
        "1 = x",
        "int a[] ",
        "int a[2] = 3",
        "for (int k = 0; k < 3) y = x",
        "do y = x",
    ],
)
def test_what_is_no_kernel_is_refused(operation):
    with pytest.raises(ValueError, match=r"^\[bad\] expects "):
        kernels.ElementwiseKernel("T x", "T y", operation, "bad")


@pytest.mark.parametrize(
    "params",
    [
        ("raw x", "T y"),
        ("T", "T y"),
        ("uint32 x", "T y"),
        ("tensor x", "T y"),
        ("T x, T x", "T y"),
        ("T x", "T x"),
    ],
)
def test_bad_parameters_are_refused(params):
    with pytest.raises(ValueError, match=r"^\[bad\] expects "):
        kernels.ElementwiseKernel(*params, "y = x", "bad")


def test_bad_calls_are_refused():
    kernel = kernels.ElementwiseKernel("T x, T y", "T z", "z = x + y", "add")
    x = chx.ones((2,))
    for args in [(x,), (x, x.astype("float64")), (x, np.ones(2)), (1.0, 2.0), (x, "1")]:
        with pytest.raises(TypeError, match=r"^\[add\] expects "):
            kernel(*args)
    with pytest.raises(chx.DimensionError, match="broadcast"):
        kernel(x, chx.ones((3,)))
    for operation in ("z = x + unknown", "unknown = x", "x = x", "T z = x", "{T t = x;} T t = x"):
        with pytest.raises(NameError, match=r"^\[bad\] expects "):
            kernels.ElementwiseKernel("T x", "T z", operation, "bad")(x)
    with pytest.raises(TypeError, match="integers for %"):
        kernels.ElementwiseKernel("T x", "T z", "z = x % 2", "bad")(x)
    with pytest.raises(TypeError, match="what U is"):
        kernels.ElementwiseKernel("T x", "U z", "z = x", "bad")(x)
    with pytest.raises(ZeroDivisionError):
        kernels.ElementwiseKernel("T x", "T z", "z = x + 1 / 0", "bad")(x)


def test_numpy_arrays_beside_one_of_ours(rng):
    add = chx.kernels.elementwise("T x, T y", "T z", "z = x + 2 * y", "add_twice")
    x, y = rng.standard_normal((2, 3)), rng.standard_normal(3)
    for a, b in ((chx.array(x), y), (x, chx.array(y)), (chx.array(x), y.tolist())):
        np.testing.assert_allclose(chx.to_numpy(add(a, b)), x + 2 * y)
    with pytest.raises(
        TypeError, match=r"\[add_twice\] expects chx.ndarray or a number, got ndarray"
    ):
        add(x, y)


@pytest.mark.parametrize(
    "operation",
    ["y = " + "(" * 5000 + "x" + ")" * 5000, "y = " + "x + " * 5000 + "x", "{" * 5000],
    ids=["parentheses", "sum", "blocks"],
)
def test_what_is_nested_too_deep_is_refused(operation):
    with pytest.raises(ValueError, match=r"\[deep\] expects operations nested at most 100 deep"):
        kernels.elementwise("T x", "T y", operation, "deep")


def test_what_is_nested_as_deep_as_may_be_is_computed():
    total = kernels.elementwise("T x", "T y", "y = " + "x + " * 90 + "x", "total")
    np.testing.assert_array_equal(run(total, np.ones(3, "float32")), np.full(3, 91, "float32"))
