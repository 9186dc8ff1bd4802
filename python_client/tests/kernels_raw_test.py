"""Raw kernels: all threads at once, against NumPy and against threads one after another."""

import chx
import numpy as np
import pytest
from chx import kernels

pytestmark = pytest.mark.usefixtures("kernel_positions")


ADD = r"""
extern "C" __global__
void my_add(const float* x1, const float* x2, float* y) {
    int tid = blockDim.x * blockIdx.x + threadIdx.x;
    y[tid] = x1[tid] + x2[tid];
}
"""


def test_the_example_of_the_manual():
    x1 = chx.arange(25, dtype="float32").reshape((5, 5))
    x2 = chx.arange(25, dtype="float32").reshape((5, 5))
    y = chx.zeros((5, 5), "float32")
    kernel = kernels.RawKernel(ADD, "my_add")
    assert kernel((5,), (5,), (x1, x2, y)) is None
    np.testing.assert_array_equal(chx.to_numpy(y), 2 * np.arange(25, dtype="f").reshape(5, 5))
    assert kernels.raw(ADD, "my_add") is kernels.raw(ADD, "my_add")


def test_bounds_returns_strides_and_pointers(rng):
    kernel = kernels.raw(
        r"""
        #define ROWS_PER_THREAD 1
        typedef double real;
        __device__ real dot(const real* a, const real* b, int n) {
            real total = 0;
            for (int k = 0; k < n; k++) total += a[k] * *(b + k);
            return total;
        }
        extern "C" __global__ __launch_bounds__(64)
        void products(const real* __restrict__ x, const real* w, real* y, int rows, int cols, real scale) {
            unsigned int row = blockIdx.x * blockDim.x + threadIdx.x;
            if (row >= rows) return;
            const real* mine = x + row * cols;
            if (mine[0] < 0) { y[row] = 0; return; }
            y[row] = scale * dot(mine, &w[0], cols);
        }
        """,
        "products",
    )
    x, w = rng.normal(size=(70, 9)), rng.normal(size=9)
    y = chx.array(np.full(70, 5.0))
    kernel(3, 32, (chx.array(x), chx.array(w), y, 70, 9, 0.5))
    want = np.where(x[:, 0] < 0, 0, 0.5 * x @ w)
    np.testing.assert_allclose(chx.to_numpy(y), want, rtol=1e-12, atol=1e-13)


def test_two_dimensions_and_grid_strides(rng):
    transpose = kernels.raw(
        """__global__ void t(const float* x, float* y, int h, int w) {
            int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
            if (r < h && c < w) y[c * h + r] = x[r * w + c];
        }""",
        "t",
    )
    x = rng.normal(size=(10, 7)).astype("f")
    y = chx.zeros((7, 10), "float32")
    transpose((2, 3), (4, 4), (chx.array(x), y, 10, 7))
    np.testing.assert_array_equal(chx.to_numpy(y), x.T)
    fill = kernels.raw(
        """__global__ void f(int* y, int n) {
            for (int k = threadIdx.x + blockIdx.x * blockDim.x; k < n; k += blockDim.x * gridDim.x)
                y[k] = k * k;
        }""",
        "f",
    )
    y = chx.zeros((100,), "int32")
    fill(2, 8, (y, 100))
    np.testing.assert_array_equal(chx.to_numpy(y), np.arange(100) ** 2)


def test_histograms_and_arrays_in_place(rng):
    code = """__global__ void h(const unsigned char* x, int* counts, int n) {
        int k = blockIdx.x * blockDim.x + threadIdx.x;
        if (k < n) atomicAdd(&counts[x[k]], 1);
    }"""
    x = rng.integers(0, 256, 1000).astype("uint8")
    counts = chx.zeros((256,), "int32")
    kernels.raw(code, "h")((32,), (32,), (chx.array(x), counts, 1000))
    np.testing.assert_array_equal(chx.to_numpy(counts), np.bincount(x, minlength=256))
    code = (
        """__global__ void s(double* a, double* b) { int k = threadIdx.x; a[k] += 1; b[k] *= 2; }"""
    )
    a = chx.array(np.arange(6.0))
    kernels.raw(code, "s")(1, 6, (a, a))
    np.testing.assert_array_equal(chx.to_numpy(a), (np.arange(6) + 1) * 2.0)
    flipped = chx.array(np.arange(6.0))[::-1]
    kernels.raw(code, "s")(1, 6, (flipped, chx.ones((6,), "d")))
    np.testing.assert_array_equal(chx.to_numpy(flipped), np.arange(6)[::-1] + 1)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "__shared__ float s[32];",
            "independent of each other, got '__shared__ .* line 2, column 1",
        ),
        ("y[0] = 1; __syncthreads();", "independent of each other, got '__syncthreads"),
        ("y[0] = atomicCAS(y, 0, 1);", "atomicAdd, atomicMax or atomicMin, got 'atomicCAS"),
        ('printf("x");', "a function without output"),
        ("float** p = 0;", "a pointer to numbers"),
        ("goto end;", "assignments, if, for, while, do and return, got 'goto"),
        ("f(y);", "a function of C's mathematics, or of the preamble and above this, got 'f"),
        ("struct S s;", "numbers and arrays"),
        ("y = (float*)malloc(4);", "a type of numbers"),
        ("asm(1);", "assignments, if"),
    ],
)
def test_what_threads_share_is_refused(body, message):
    with pytest.raises(ValueError, match=rf"^\[f\] expects .*{message}"):
        kernels.RawKernel("__global__ void f(float* y) {\n" + body + "\n}", "f")


def test_bad_calls_are_refused():
    kernel = kernels.RawKernel(ADD, "my_add")
    x = chx.ones((4,), "float32")
    for args in [(x, x), (x, x, 1.0), (x, x, chx.ones((4,), "float64")), (1, 2, 3)]:
        with pytest.raises(TypeError, match=r"^\[my_add\] expects "):
            kernel(1, 4, args)
    for grid, block in [(0, 1), (1, 0), (1, 1025), ((1, 1, 1, 1), 1), (2**31, 1024), ((), 1)]:
        with pytest.raises(ValueError, match=r"^\[my_add\] expects "):
            kernel(grid, block, (x, x, x))
    for code in ["", "__device__ void f() {}", "__global__ int f() { return 1; }",
                 "template <typename T> __global__ void f(T* x) {}", "__global__ void f(int& x) {}"]:  # fmt: skip
        with pytest.raises(ValueError, match=r"^\[f\] expects "):
            kernels.RawKernel(code, "f")
    used = "__global__ void f(float* y) { float v = atomicAdd(y, 1.f); y[0] = v; }"
    with pytest.raises(TypeError, match="expects a number, got a function that returns nothing"):
        kernels.raw(used, "f")(1, 1, (x,))
    for body in [
        "p = x;",
        "p = 1;",
        "int k = x;",
        "x + y;",
        "x[1.5] = 0;",
        "int q[x[0] > 5 ? 1 : 2];",
    ]:
        code = "__global__ void f(float* x, int* y) { int* p = y; " + body + " }"
        with pytest.raises((TypeError, ValueError), match=r"^\[f\] expects "):
            kernels.raw(code, "f")(1, 4, (x, chx.zeros((4,), "int32")))
