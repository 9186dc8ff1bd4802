"""Kernels that try to leave their arrays, to run for ever, or to be too much for the parser."""

import time

import chx
import numpy as np
import pytest
from chx import kernels
from chx.kernels import _evaluator, _expression_values, _lexer

pytestmark = pytest.mark.usefixtures("kernel_positions")


@pytest.mark.parametrize(
    ("index", "got"),
    [
        ("i + 1", "4"),
        ("i - 1", "-1"),
        ("-1", "-1"),
        ("4", "4"),
        ("k", "9"),
        ("k - 10", "-10"),
        ("i * 2147483647 * 2147483647", ""),
        ("1LL << 62", "4611686018427387904"),
        ("INT_MIN", "-2147483648"),
        ("0u - 1", "4294967295"),
        ("~0ull", "-1"),
        ("(int)x[i]", "7"),
        ("(int)NAN", ""),
    ],
)
@pytest.mark.parametrize(
    "operation", ["y = x[{}]", "r[{}] = 1", "atomicAdd(&r[{}], 1)", "r[{}] += 1"]
)
def test_indexes_outside_are_errors_and_nothing_is_written(operation, index, got):
    kernel = kernels.ElementwiseKernel(
        "T z, raw T x, int64 k", "T y, raw T r", "y = z;" + operation.format(index), "outside"
    )
    x, k = chx.array(np.array([0.0, 1.0, 2.0, 7.0])), chx.array(np.array([0, 9, 1, 2]))
    y, r = chx.array(np.arange(4.0)), chx.array(np.arange(4.0))
    with pytest.raises(IndexError, match=rf"^\[outside\] expects indexes of \w from 0 and below 4, got {got}"):  # fmt: skip
        kernel(chx.ones((4,), "d"), x, k, y, r)
    np.testing.assert_array_equal(chx.to_numpy(r), np.arange(4.0))
    np.testing.assert_array_equal(chx.to_numpy(y), np.arange(4.0))


def test_indexes_of_elements_that_do_not_run_are_no_errors():
    for guard in ("i < 3", "x[i] < 3"):
        kernel = kernels.ElementwiseKernel(
            "T z, raw T x", "T y, raw T r", f"y = z; if ({guard}) {{ y = x[i + 1]; r[i + 1] = 5; }}"
        )
        x, y, r = chx.arange(4, dtype="d"), chx.zeros((4,), "d"), chx.zeros((4,), "d")
        kernel(chx.ones((4,), "d"), x, y, r)
        np.testing.assert_array_equal(chx.to_numpy(y), [1, 2, 3, 1])
        np.testing.assert_array_equal(chx.to_numpy(r), [0, 5, 5, 5])


def test_arrays_without_elements_have_no_index():
    kernel = kernels.ElementwiseKernel("T z, raw T x", "T y", "y = z > 0 ? x[0] : z", "empty")
    none = chx.zeros((0,), "d")
    with pytest.raises(IndexError, match="below 0"):
        kernel(chx.ones((3,), "d"), none)
    np.testing.assert_array_equal(chx.to_numpy(kernel(chx.zeros((3,), "d"), none)), np.zeros(3))
    assert kernel(none, none).shape == (0,)


def test_indexes_of_one_axis_are_not_those_of_the_next():
    kernel = kernels.ElementwiseKernel("T z, raw T x", "T y", "int k[] = {0, 3}; y = x[k]", "axes")
    with pytest.raises(IndexError, match="below 3, got 3"):
        kernel(chx.ones((2,), "d"), chx.ones((2, 3), "d"))
    local = kernels.ElementwiseKernel("T z", "T y", "T a[4]; a[i + 2] = 1; y = a[i]", "local")
    with pytest.raises(
        IndexError, match=r"\[local\] expects indexes of a from 0 and below 4, got 4"
    ):
        local(chx.ones((3,), "d"))


def test_parameters_are_not_written():
    kernel = kernels.ElementwiseKernel("T z, raw T x", "T y", "y = z; x[i] = 1", "wrong")
    x = chx.zeros((3,), "d")
    with pytest.raises(TypeError, match="a result to write to, got the parameter x in line 1"):
        kernel(chx.ones((3,), "d"), x)
    np.testing.assert_array_equal(chx.to_numpy(x), np.zeros(3))


@pytest.mark.parametrize(
    "operation",
    [
        "y = x; while (true) {}",
        "for (;;) y = x;",
        "y = x; for (int k = 0; k < 10; ++k) k--;",
        "y = x; do continue; while (1);",
        "y = x; for (long k = 0; k < 1LL << 40; ++k) {}",
        "y = forever(x)",
        "y = 0; for (int a = 0; a < 60000; ++a) for (int b = 0; b < 60000; ++b) {}",
        "y = x; while (y < 100) y = y * 0.5;",
    ],
)
def test_endless_loops_end(operation, monkeypatch):
    monkeypatch.setattr(_expression_values, "MAX_STEPS", 20_000)
    if "* 0.5" in operation:
        monkeypatch.setattr(_evaluator, "MAX_TURNS", 300)
    kernel = kernels.ElementwiseKernel(
        "T x", "T y", operation, "endless", "__device__ T forever(T x) { while (1); return x; }"
    )
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"^\[endless\] expects at most \d+ (turns|steps) of a"):
        kernel(chx.ones((3,), "d"))
    assert time.monotonic() - start < 60


def test_the_limit_of_turns(monkeypatch):
    assert (_evaluator.MAX_TURNS, _expression_values.MAX_STEPS) == (65_536, 2_000_000)  # documented
    monkeypatch.setattr(_evaluator, "MAX_TURNS", 500)
    loop = "y = x; for (int k = 0; k < {}; ++k) {{}}"
    one = chx.ones((1,), "d")
    kernels.ElementwiseKernel("T x", "T y", loop.format(500))(one)
    with pytest.raises(RuntimeError, match="at most 500 turns of a loop, got more in line 1"):
        kernels.ElementwiseKernel("T x", "T y", loop.format(501))(one)


def test_functions_do_not_call_themselves():
    for preamble in (
        "__device__ T f(T x) { return f(x); }",
        "__device__ T f(T x); __device__ T g(T x) { return f(x); } __device__ T f(T x) { return g(x); }",
    ):
        with pytest.raises(ValueError, match=r"^\[again\] expects "):
            kernels.ElementwiseKernel("T x", "T y", "y = f(x)", "again", preamble)


def test_functions_that_double_the_work_end(monkeypatch):
    monkeypatch.setattr(_expression_values, "MAX_STEPS", 20_000)
    lines = ["__device__ int f0(int x) { return x; }"]
    lines += [
        f"__device__ int f{k}(int x) {{ return f{k - 1}(x) + f{k - 1}(x); }}" for k in range(1, 40)
    ]
    kernel = kernels.ElementwiseKernel("T x", "T y", "y = f39(1)", "doubled", "\n".join(lines))
    with pytest.raises(RuntimeError, match="steps of a call"):
        kernel(chx.ones((3,), "d"))


def test_functions_in_a_long_chain_are_an_error_at_most():
    lines = ["__device__ int f0(int x) { return x; }"]
    lines += [f"__device__ int f{k}(int x) {{ return f{k - 1}(x) + 1; }}" for k in range(1, 2000)]
    kernel = kernels.ElementwiseKernel("T x", "T y", "y = f1999(1)", "chain", "\n".join(lines))
    with pytest.raises(ValueError, match="nested less deep"):
        kernel(chx.ones((3,), "d"))


@pytest.mark.parametrize(
    "operation",
    [
        "y = x;" * 100_000,
        "#define A B B\n" + "".join(f"#define {a} {b} {b}\n" for a, b in zip("BCDEFGHIJKLMNOPQRS", "CDEFGHIJKLMNOPQRSZ")) + "y = x; A",
        "#define Z\n" + "".join(f"#define {a} {b} {b}\n" for a, b in zip("ABCDEFGHIJKLMNOPQR", "BCDEFGHIJKLMNOPQRZ")) + "y = x; A",
        "#define F(x) x x x x x x x x\ny = x; " + "F(" * 12 + "+" + ")" * 12,
        "y = " + "9" * 100_000,
        "y = " + "-" * 10_000 + "x",
        "y = " + "x ? x : " * 10_000 + "x",
        "y = x" + "[0]" * 10_000,
        "if (x) " * 10_000 + "y = x",
        "for (;;) " * 10_000 + "y = x",
        "int a[3] = {" + "{" * 10_000 + "}",
        "y = x; T a[1000000];",
        "y = x; T a[256][256];",
        "#if 1\ny = x\n#endif",
        "#define F(a) a\ny = F(x",
        "#define F(a) #a\ny = x",
        "y = x \\ x",
        "y = x\0",
        "\u0430 = x",
    ],
    ids=range(19),
)  # fmt: skip
def test_huge_and_broken_programs_are_refused(operation):
    start = time.monotonic()
    with pytest.raises(ValueError, match=r"^\[huge\] expects "):
        kernels.ElementwiseKernel("T x", "T y", operation, "huge")(chx.ones((3,), "d"))
    assert time.monotonic() - start < 30


def test_random_tokens_are_programs_or_errors(rng):
    words = "x y i r [ ] ( ) { } ; , = += ++ * & + - / % < 1 0 2.5f if else for while int T return".split()
    one = chx.ones((3,), "d")
    for _ in range(300):
        text = "y = x; " + " ".join(rng.choice(words, rng.integers(1, 12)))
        try:
            kernels.ElementwiseKernel("T x", "T y, raw T r", text, "random")(
                one, one.copy(), one.copy()
            )
        except (
            ValueError,
            TypeError,
            NameError,
            IndexError,
            RuntimeError,
            ZeroDivisionError,
        ) as error:
            assert str(error).startswith("[random] expects "), text


def test_a_text_of_any_length_is_refused_at_once():
    with pytest.raises(ValueError, match="at most 200000 characters"):
        kernels.ElementwiseKernel("T x", "T y", "y = x;" + " " * _lexer.MAX_CHARACTERS, "long")
