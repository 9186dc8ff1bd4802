"""Functions of the user's, computed with NumPy here and differentiated from the daemon's graph."""

import threading

import chainer
import chainer.functions as F
import chx
import numpy as np
import pytest
from chainer import gradient_check


@pytest.fixture(autouse=True)
def allow():
    chx.config.fallback = "allow"


class MulAdd(chainer.FunctionNode):
    """x * y + z."""

    def check_type_forward(self, in_types):
        chainer.utils.type_check.expect(in_types.size() == 3)

    def forward_cpu(self, inputs):
        assert all(isinstance(a, np.ndarray) for a in inputs)
        self.retain_inputs((0, 1))
        x, y, z = inputs
        return (x * y + z,)

    def backward(self, indexes, grad_outputs):
        x, y = self.get_retained_inputs()
        (g,) = grad_outputs
        return g * y, g * x, g


class OldMulAdd(chainer.Function):
    """The same in the old style."""

    def forward_cpu(self, inputs):
        x, y, z = inputs
        self.y = y
        return (x * y + z,)

    def backward_cpu(self, inputs, grad_outputs):
        assert all(isinstance(a, np.ndarray) for a in (*inputs, *grad_outputs, self.y))
        x, y, z = inputs
        (g,) = grad_outputs
        return g * self.y, g * x, g


class ExpAdd(chainer.FunctionNode):
    """exp(x) + exp(y), which keeps what its gradients are made of."""

    def forward(self, inputs):
        self.ex, self.ey = (np.exp(a) for a in inputs)
        return (self.ex + self.ey,)

    def backward(self, indexes, grad_outputs):
        (g,) = grad_outputs
        return tuple(g * (self.ex, self.ey)[i] for i in indexes)


class RetainedExp(chainer.FunctionNode):
    """exp of each input, by its retained outputs."""

    def forward(self, inputs):
        self.retain_outputs((0, 1))
        return tuple(np.exp(a) for a in inputs)

    def backward(self, indexes, grad_outputs):
        ys = self.get_retained_outputs()
        return tuple(ys[i] * grad_outputs[i] for i in indexes)


class MyFunc(chainer.FunctionNode):
    """x ** 3, with a gradient that is a function node itself, and ends there."""

    def forward(self, inputs):
        self.retain_inputs((0,))
        return (inputs[0] ** 3,)

    def backward(self, indexes, grad_outputs):
        return MyFuncGrad().apply((*self.get_retained_inputs(), *grad_outputs))


class MyFuncGrad(chainer.FunctionNode):
    def forward(self, inputs):
        x, g = inputs
        return (3 * x**2 * g,)

    def backward(self, indexes, grad_outputs):
        raise NotImplementedError("as it was written")


def variables(rng, device, *shapes):
    return [chainer.Variable(device.send(rng.uniform(0.5, 1.5, shape))) for shape in shapes]


def host(x):
    return chainer.get_device("@numpy").send(x)


@pytest.mark.parametrize("call", [lambda *xs: MulAdd().apply(xs)[0], lambda *xs: OldMulAdd()(*xs)])
def test_mul_add(call, rng, device):
    x, y, z = variables(rng, device, (3, 2), (3, 2), (3, 2))
    w = call(x, y, z)
    np.testing.assert_allclose(host(w.array), host(x.array) * host(y.array) + host(z.array))
    F.sum(w * w).backward()
    g = 2 * host(w.array)
    for v, expected in ((x, g * host(y.array)), (y, g * host(x.array)), (z, g)):
        np.testing.assert_allclose(host(v.grad), expected)


def test_mul_add_s_second_derivatives(rng, device):
    arrays = [v.array for v in variables(rng, device, *[(2, 2)] * 7)]

    def run(x, y, z):
        return MulAdd().apply((x, y, z))

    gradient_check.check_backward(run, arrays[:3], arrays[3], dtype="d", rtol=1e-4, atol=1e-4)
    gradient_check.check_double_backward(
        run, arrays[:3], arrays[3], arrays[4:], dtype="d", rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("function", [ExpAdd, RetainedExp])
@pytest.mark.parametrize("place", ["native:0", "native:2"])
def test_what_a_function_keeps(function, place, rng):
    device = chainer.get_device(place)
    arrays = [device.send(rng.uniform(-1, 1, (2, 3))) for _ in range(2)]
    outputs = function().apply(tuple(arrays))
    grads = [device.send(rng.uniform(-1, 1, (2, 3))) for _ in outputs]
    with device.create_context():
        gradient_check.check_backward(
            lambda *xs: function().apply(xs), arrays, tuple(grads), dtype="d", rtol=1e-4, atol=1e-4
        )


def test_my_func(rng, device):
    (x,) = variables(rng, device, (3,))
    (y,) = MyFunc().apply((x,))
    y.grad = device.send(np.ones(3))
    y.backward(enable_double_backprop=True)
    np.testing.assert_allclose(host(x.grad), 3 * host(x.array) ** 2)
    g = x.grad_var
    with pytest.raises(NotImplementedError, match="as it was written") as caught:
        F.sum(g).backward()
    assert any(entry.name == "backward" and "test" in str(entry.path) for entry in caught.traceback)


def test_wrong_results_are_refused(device):
    class NoTuple(chainer.FunctionNode):
        def forward(self, inputs):
            return inputs[0]

    class NoArray(chainer.FunctionNode):
        def forward(self, inputs):
            return (1.5,)

    x = device.send(np.ones(2, "f"))
    with pytest.raises(TypeError, match=r"\[NoTuple\] expects forward\(\) to return a tuple"):
        NoTuple().apply((x,))
    with pytest.raises(TypeError, match=r"\[NoArray\] .* arrays, got \(float\)"):
        NoArray().apply((x,))
    with pytest.raises(TypeError, match="incompatible array types"):
        MulAdd().apply((x, np.ones(2, "f"), x))


def test_gradients_that_are_none(rng, device):
    class First(chainer.FunctionNode):
        def forward(self, inputs):
            return inputs[0] * 2, inputs[1] * 3

        def backward(self, indexes, grad_outputs):
            self.seen = [g is None for g in grad_outputs]
            return grad_outputs[0] * 2, None

    x, y = variables(rng, device, (2,), (2,))
    function = First()
    a, _ = function.apply((x, y))
    F.sum(a).backward()
    assert function.seen == [False, True]
    np.testing.assert_array_equal(host(x.grad), [2, 2])
    assert y.grad is None


def test_forward_chainerx_of_the_user(rng, device):
    """The MatMul of ChainerX's documents: a fallback for what it does not take."""

    class MatMul(chainer.FunctionNode):
        def __init__(self, transposed=False):
            self.transposed = transposed

        def forward_chainerx(self, inputs):
            if self.transposed:
                return chainer.Fallback
            return (chx.dot(*inputs),)

        def forward(self, inputs):
            self.retain_inputs((0, 1))
            a, b = inputs
            return ((a.T if self.transposed else a).dot(b),)

        def backward(self, indexes, grad_outputs):
            a, b = self.get_retained_inputs()
            (g,) = grad_outputs
            if self.transposed:
                return F.matmul(b, g, transb=True), F.matmul(a, g)
            return F.matmul(g, b, transb=True), F.matmul(a, g, transa=True)

    a, b = variables(rng, device, (3, 3), (3, 2))
    results = []
    for function, x in ((MatMul(), a), (MatMul(True), F.transpose(a))):
        a.cleargrad()
        b.cleargrad()
        (y,) = function.apply((x, b))
        F.sum(y * y).backward()
        results.append([host(v) for v in (y.array, a.grad, b.grad)])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other)
    (count,) = (
        n for name, n in chx.chainer.fallbacks().items() if name.endswith("user.<locals>.MatMul")
    )
    assert count == 1


def test_threads(device):
    failures = []

    def work(seed):
        try:
            for _ in range(5):
                x, y, z = variables(np.random.default_rng(seed), device, (2,), (2,), (2,))
                F.sum(MulAdd().apply((x, y, z))[0]).backward()
                np.testing.assert_allclose(host(x.grad), host(y.array))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_accounts(device):
    x = device.send(np.ones(2, "f"))
    chx.config.fallback = "warn"
    with pytest.warns(chx.chainer.FallbackWarning, match="MulAdd is computed with NumPy") as seen:
        for _ in range(3):
            MulAdd().apply((x, x, x))
    assert len(seen) == 1 and seen[0].filename == __file__
    OldMulAdd()(x, x, x)
    counts = chx.chainer.fallbacks()
    assert {name.rpartition(".")[2]: n for name, n in counts.items()} == {
        "MulAdd": 3,
        "OldMulAdd": 1,
    }
    chx.chainer.clear_fallbacks()
    assert chx.chainer.fallbacks() == {}
    chx.config.fallback = "raise"
    with pytest.raises(chx.chainer.FallbackError, match=r"MulAdd\] .* \(float32\[2\], "):
        MulAdd().apply((x, x, x))
    assert chx.chainer.fallbacks() == {}
    with pytest.raises(ValueError, match="expects fallback to be one of"):
        chx.config.fallback = "sometimes"
