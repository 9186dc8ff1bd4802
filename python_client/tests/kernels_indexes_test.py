"""Kernels with loops, indexes, preambles and functions, against NumPy written by C's rules.

Each test runs twice: what depends on positions alone is known to this process, or only to the daemon.
"""

import chx
import numpy as np
import pytest
from chx import kernels

pytestmark = pytest.mark.usefixtures("kernel_positions")


def run(kernel, *args, **kwargs):
    results = kernel(*[chx.array(a) if isinstance(a, np.ndarray) else a for a in args], **kwargs)
    if isinstance(results, tuple):
        return [chx.to_numpy(y) for y in results]
    return chx.to_numpy(results)


def test_raw_parameters_of_the_manual(rng):
    add_reverse = kernels.ElementwiseKernel(
        "T x, raw T y", "T z", "z = x + y[_ind.size() - i - 1]", "add_reverse"
    )
    x, y = rng.normal(size=(2, 7))
    np.testing.assert_array_equal(run(add_reverse, x, y), x + y[::-1])
    wide = rng.normal(size=(4, 6))
    np.testing.assert_array_equal(run(add_reverse, wide, wide), wide + wide[::-1, ::-1])
    remote = chx.array(np.stack([y, x]))[:, ::-1]  # not contiguous
    np.testing.assert_array_equal(
        chx.to_numpy(add_reverse(remote, remote)),
        np.stack([y, x])[:, ::-1] + np.stack([y, x])[:, ::-1][::-1, ::-1],
    )
    assert run(add_reverse, np.zeros((0,)), np.zeros((0,))).shape == (0,)
    assert run(add_reverse, np.array(3.0), np.array(4.0)) == 7


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64", "uint8"])
def test_gathers_of_every_dtype(rng, dtype):
    x = rng.integers(0, 100, (5, 4)).astype(dtype)
    k = rng.integers(0, 20, (3, 2))
    gather = kernels.elementwise("raw T x, int64 k", "T y", "y = x[k]", "gather")
    got = run(gather, x, k)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, x.ravel()[k])


def test_loops_over_numbers_and_over_elements(rng):
    x, n = rng.normal(size=(3, 8)), rng.integers(0, 9, (3, 1))
    sums = kernels.elementwise(
        "raw T x, int64 n, int32 width",
        "T head, T even",
        """
        int row = i;
        head = 0; even = 0;
        for (int k = 0; k < n; ++k) head += x[row * width + k];
        int k = -1;
        while (true) {
            if (++k >= width) break;
            if (k % 2 != 0) continue;
            even += x[row * width + k];
        }
        """,
        "sums",
    )
    head, even = run(sums, x, n[:, 0], 8)
    want = [row[:count].sum() for row, count in zip(x, n[:, 0])]
    np.testing.assert_allclose(head, want, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(even, x[:, ::2].sum(1), rtol=1e-12)


def test_loops_that_end_when_each_element_says_so(rng):
    start = rng.integers(1, 500, 40)
    steps = kernels.elementwise(
        "int64 x",
        "int32 steps, int64 top",
        """
        int64 n = x;
        steps = 0; top = x;
        do {
            if (n == 1) break;
            n = n % 2 == 0 ? n / 2 : 3 * n + 1;
            top = max(top, n);
            steps++;
        } while (n != 1);
        """,
        "collatz",
    )
    got, top = run(steps, start)
    for x, count, highest in zip(start, got, top):
        n, k, most = int(x), 0, int(x)
        while n != 1:
            n, k = (n // 2 if n % 2 == 0 else 3 * n + 1), k + 1
            most = max(most, n)
        assert (count, highest) == (k, most)


def test_preambles(rng):
    x = rng.normal(size=30).astype("f")
    kernel = kernels.elementwise(
        "T x, T limit",
        "T y, int32 inside",
        "T low, high; inside = bounds(x, limit, low, high); TWICE(low) y = clip<T>(x, low, high) * SCALE",
        "clipped",
        """
        #define SCALE 3
        #define TWICE(v) \\
            v = v * 2;
        #include <cmath>
        const float half = 0.5f;
        __device__ bool bounds(T x, const T limit, T &low, T &high) {
            low = -limit * half;
            high = limit;
            if (x < low) return false;
            return x <= high;
        }
        template <typename U> __device__ inline U clip(U x, U low, U high) {
            if (x < low) return low;
            else if (x > high) return high;
            return x;
        }
        """,
    )
    y, inside = run(kernel, x, 0.75)
    np.testing.assert_allclose(y, np.clip(x, np.float32(-0.75), np.float32(0.75)) * 3, rtol=1e-6)
    np.testing.assert_array_equal(inside, (x >= -0.375) & (x <= 0.75))


def test_references_of_threads_that_return(rng):
    x = rng.normal(size=20)
    kernel = kernels.elementwise(
        "T x",
        "T y, T z",
        "T a = x; T b[2]; b[1] = x; change(a, b[1]); y = a; z = b[1];",
        "changed",
        """
        __device__ void change(T &a, T &b) {
            if (a < 0) return;
            a = 7;
            if (b > 1) { b = 8; return; }
            b += 1; a--;
        }
        """,
    )
    y, z = run(kernel, x)
    np.testing.assert_array_equal(y, np.where(x < 0, x, np.where(x > 1, 7, 6)))
    np.testing.assert_array_equal(z, np.where(x < 0, x, np.where(x > 1, 8, x + 1)))


def test_scatters_and_atomics(rng):
    x, k = rng.normal(size=50), rng.integers(0, 8, 50)
    scatter = kernels.elementwise(
        "T x, int64 k", "raw T last, raw T total, raw T top",
        "if (x > -1) { last[k] = x; atomicAdd(&total[k], x); atomicMax(top + k, x); }", "scatter",
    )  # fmt: skip
    start = rng.normal(size=(3, 2, 4))
    last, total, top = (chx.array(a) for a in start)
    assert scatter(chx.array(x), chx.array(k), last, total, top)[0] is last
    want = start.reshape(3, 8).copy()
    for value, place in zip(x, k):
        if value > -1:
            want[0, place] = value
            want[1, place] += value
            want[2, place] = max(want[2, place], value)
    for got, expected in zip((last, total, top), want):
        np.testing.assert_allclose(chx.to_numpy(got).ravel(), expected, rtol=1e-12)


def test_indexes_of_several_dimensions_and_local_arrays(rng):
    x = rng.normal(size=(4, 5))
    kernel = kernels.elementwise(
        "raw T x",
        "T y, T z, int64 n",
        """
        int at[] = {(int)_ind.get()[1], (int)_ind.get()[0]};
        y = x[at];
        T row[2][3] = {{1, 2, 3}, {4, 5, 6}};
        row[at[0] % 2][at[1] % 3] = -1;
        z = 0;
        for (int a = 0; a < 2; ++a) for (int b = 0; b < 3; ++b) z += row[a][b];
        n = x.size() * 10 + x.shape()[1] + x.ndim;
        """,
        "transposed",
    )
    y, z, n = chx.zeros((5, 4), "d"), chx.zeros((5, 4), "d"), chx.zeros((5, 4), "int64")
    kernel(chx.array(x), y, z, n)
    np.testing.assert_array_equal(chx.to_numpy(y), x.T)
    b, a = np.indices((5, 4))
    np.testing.assert_array_equal(chx.to_numpy(z), 20 - np.arange(1, 7).reshape(2, 3)[a % 2, b % 3])
    assert (chx.to_numpy(n) == 207).all()


def test_unsigned_integers_wrap(rng):
    x = rng.integers(0, 2**31, 200)
    kernel = kernels.elementwise(
        "int64 x",
        "int64 hash, int64 wide, int64 less, int64 quotient",
        """
        unsigned int h = x;
        for (int k = 0; k < 4; ++k) { h ^= h << 13; h ^= h >> 17; h ^= h << 5; h *= 2654435769u; }
        hash = h;
        unsigned long long w = (unsigned long long)x * 6364136223846793005ULL + 1442695040888963407ULL;
        w ^= w >> 29;
        wide = w >> 1; quotient = w / 1000003u % 977; less = w < 9223372036854775808ULL;
        """,
        "hashes",
    )
    got = run(kernel, x)
    with np.errstate(over="ignore"):
        h = x.astype("uint32")
        for _ in range(4):
            h ^= h << np.uint32(13)
            h ^= h >> np.uint32(17)
            h ^= h << np.uint32(5)
            h *= np.uint32(2654435769)
        w = x.astype("uint64") * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        w ^= w >> np.uint64(29)
    want = h, w >> np.uint64(1), w < np.uint64(2**63), w // np.uint64(1000003) % np.uint64(977)
    for ours, theirs in zip(got, want):
        np.testing.assert_array_equal(ours, theirs.astype("int64"))


def test_sides_that_are_not_taken_do_nothing(rng):
    x = rng.normal(size=5)
    kernel = kernels.elementwise(
        "raw T x, int64 n",
        "T y",
        "int k = i - 2; y = k >= 0 && x[k] > 0 ? x[k] : n > 100 ? x[n] : 0.5; "
        "if (k < 0 || x[k] < 0) y = -1;",
        "guarded",
    )
    shifted = np.concatenate([[-1, -1], x[:3]])
    want = np.where(shifted > 0, shifted, -1.0)
    y = chx.zeros((5,), "d")
    kernel(chx.array(x), chx.array(np.full(5, 7)), y)
    np.testing.assert_array_equal(chx.to_numpy(y), want)


def test_reductions_with_raw_parameters_and_several_results(rng):
    t, begins = rng.integers(0, 4, 6), np.array([0, 3, 4, 9, 11])
    longest = kernels.reduce(
        "T t, raw T begins", "T out", "begins[t + 1] - begins[t]", "max(a, b)", "out = a", "0", "longest"
    )  # fmt: skip
    assert run(longest, t, begins) == np.diff(begins)[t].max()
    x, weight = rng.normal(size=(3, 4)), rng.normal(size=12)
    both = kernels.reduce(
        "T x, raw T w, T scale", "T y, T z",
        "times(x, w[_j])", "a + b", "y = a / scale; z += a * w[0]", 0, "both",
        preamble="__device__ T times(T a, T b) { return a * b; }",
    )  # fmt: skip
    y, z = chx.zeros((3,), "d"), chx.ones((3,), "d")
    both(chx.array(x), chx.array(weight), 2.0, y, z, axis=1)
    total = (x * weight.reshape(3, 4)).sum(1)
    np.testing.assert_allclose(chx.to_numpy(y), total / 2, rtol=1e-12)
    np.testing.assert_allclose(chx.to_numpy(z), 1 + total * weight[0], rtol=1e-12)


def test_gradients_through_indexes_and_loops(rng):
    kernel = kernels.elementwise(
        "raw T x, int64 n",
        "T y",
        "y = 1; for (int k = 0; k < n; ++k) y *= x[(i + k) % x.size()];",
        "products",
    )
    x, n = rng.uniform(1, 2, 4), np.array([0, 1, 2, 3])
    remote = chx.array(x).require_grad()
    chx.sum(kernel(remote, chx.array(n))).backward()
    want, eps = np.zeros(4), 1e-6

    def value(x):
        return sum(np.prod([x[(i + k) % 4] for k in range(n[i])]) for i in range(4))

    for j in range(4):
        step = eps * np.eye(4)[j]
        want[j] = (value(x + step) - value(x - step)) / (2 * eps)
    np.testing.assert_allclose(chx.to_numpy(remote.grad), want, rtol=1e-6)


def test_arrays_that_are_written_have_no_gradients():
    kernel = kernels.elementwise("T x", "raw T r", "r[i] = x * x", "squares")
    x, r = chx.ones((3,), "d").require_grad(), chx.zeros((3,), "d")
    with pytest.raises(chx.ChainerxError, match="In-place assignment"):
        kernel(x, r)
    kernel(x.as_grad_stopped(), r)
    np.testing.assert_array_equal(chx.to_numpy(r), np.ones(3))


def test_a_size_for_raw_arrays_alone(rng):
    x = rng.normal(size=6)
    kernel = kernels.elementwise("raw T x", "T y", "y = x[i * 2]", "halved")
    np.testing.assert_array_equal(run(kernel, x, size=3), x[::2])
    with pytest.raises(ValueError, match="expects size"):
        run(kernel, x)
    both = kernels.elementwise("raw T x", "raw T y", "y[i] = x[i]", "copied")
    y = chx.zeros((6,), "d")
    both(chx.array(x), y, size=4)
    np.testing.assert_array_equal(chx.to_numpy(y), [*x[:4], 0, 0])
    with pytest.raises(TypeError, match="expects 2 arguments"):
        both(chx.array(x), size=4)
