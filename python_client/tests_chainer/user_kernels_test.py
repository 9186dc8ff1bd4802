"""Row 8 of the specification's examples: kernels of the user, by chainer.backends.cuda."""

import chainer
import chainer.functions as F
import chx
import numpy as np
import pytest
from chainer import gradient_check
from chainer.backends import cuda


class MulAdd(chainer.FunctionNode):
    """The documentation's example, with its kernels of any float type."""

    def forward_cpu(self, inputs):
        x, y, z = inputs
        self.retain_inputs((0, 1))
        return ((x * y + z).astype(x.dtype),)

    def forward_chainerx(self, inputs):
        forward = cuda.elementwise("T x, T y, T z", "T w", "w = x * y + z", "muladd_fwd")
        return (forward(*inputs),)

    def backward(self, indexes, grads):
        x, y = self.get_retained_inputs()
        (gw,) = grads
        return y * gw, x * gw, gw


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_muladd(rng, device, dtype):
    host = [rng.uniform(-1, 1, (3, 4)).astype(dtype) for _ in range(4)]
    results = []
    for place in (chainer.get_device("@numpy"), device):
        x, y, z = (chainer.Variable(place.send(a)) for a in host[:3])
        w = F.sum(MulAdd().apply((x, y, z))[0] * place.send(host[3]))
        w.backward()
        results.append([chainer.backend.CpuDevice().send(v.grad) for v in (x, y, z)])
    for want, got in zip(*results, strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, want, rtol=4 * np.finfo(dtype).eps)


def test_muladds_gradients(rng, device):
    x, y, z, gw, *ggs = (device.send(rng.uniform(-1, 1, (2, 3))) for _ in range(7))

    def muladd(*args):
        return MulAdd().apply(args)[0]

    gradient_check.check_backward(muladd, (x, y, z), gw, dtype="d", atol=1e-4, rtol=1e-4)
    gradient_check.check_double_backward(muladd, (x, y, z), gw, tuple(ggs), atol=1e-4, rtol=1e-4)


def test_a_second_call_parses_nothing_and_costs_no_round_trip(device, monkeypatch):
    args = "float32 x, float32 y, float32 gw", "float32 gx, float32 gy", "gx = y * gw; gy = x * gw"
    kernel = cuda.elementwise(*args, "muladd_bwd")
    monkeypatch.setattr("chx.kernels._kernels.Source", None)
    again = cuda.elementwise(*args, "muladd_bwd")
    assert again is kernel
    x = device.xp.ones((4,), "float32", device=device.device)
    session = chx._core._get_default_session()
    before = session.stats()["round_trips"]
    gx, gy = again(x, x + 1, x + 2)
    assert session.stats()["round_trips"] == before
    np.testing.assert_array_equal(chx.to_numpy(gx), np.full(4, 6, "f"))
    np.testing.assert_array_equal(chx.to_numpy(gy), np.full(4, 3, "f"))


def test_reductions(rng, device):
    x = rng.normal(size=(3, 4)).astype("f")
    norm = cuda.reduce("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm")
    got = chx.to_numpy(norm(device.send(x), axis=1))
    np.testing.assert_allclose(got, np.sqrt((x * x).sum(1)), rtol=1e-6)


def test_raw_kernels(rng, device):
    code = """
    extern "C" __global__
    void add(const float* x, const float* y, float* z, int n) {
        int tid = blockDim.x * blockIdx.x + threadIdx.x;
        if (tid < n) z[tid] = x[tid] + y[tid];
    }
    """
    kernel = cuda.raw(code, "add")
    assert cuda.raw(code, "add") is kernel
    x, y = rng.normal(size=(2, 100)).astype("f")
    z = device.send(np.zeros(100, "f"))
    kernel((4,), (32,), (device.send(x), device.send(y), z, 100))
    np.testing.assert_array_equal(chx.to_numpy(z), x + y)


def test_what_has_no_kernel_is_refused(device):
    with pytest.raises(ValueError, match="threads that are independent .* line 1, column 3"):
        cuda.elementwise("T x", "T y", "  __syncthreads(); y = x", "barrier")
    with pytest.raises(ValueError, match="expects no options but preamble, got loop_prep"):
        cuda.elementwise("T x", "T y", "y = x", "options", loop_prep="int k = 0;")
    with pytest.raises(ValueError, match="__global__ function f"):
        cuda.raw("__device__ void f() {}", "f")
    with pytest.raises(TypeError, match="expects chx.ndarray"):
        cuda.elementwise("T x", "T y", "y = x", "identity")(np.ones(3, "f"))
