"""The small programs of Chainer's documentation: what they compute is known in closed form."""

import chainer
import chainer.functions as F
import chainer.links as L
import chx
import numpy as np
import pytest
from chainer import gradient_check


def values(a):
    return chainer.get_device("@numpy").send(a)


def variable(device, a):
    return chainer.Variable(device.send(np.array(a, np.float32)))


def test_an_affine_map_of_arrays(rng):
    """ChainerX's first program: no Chainer in it."""
    x = rng.standard_normal((5, 784)).astype("f")
    w = chx.array(rng.standard_normal((784, 10)).astype("f")).require_grad()
    b = chx.array(np.zeros(10, "f")).require_grad()
    y = chx.array(x).dot(w) + b
    y.backward()
    assert type(w.grad) is chx.ndarray and type(b.grad) is chx.ndarray
    np.testing.assert_allclose(chx.to_numpy(b.grad), np.full(10, 5.0), rtol=1e-6)
    np.testing.assert_allclose(
        chx.to_numpy(w.grad), np.repeat(x.sum(0)[:, None], 10, 1), rtol=1e-4, atol=1e-4
    )


def test_a_polynomial_and_its_gradients(device):
    x = variable(device, [5])
    y = x**2 - 2 * x + 1
    assert values(y.array) == 16
    y.backward()
    assert values(x.grad) == 8
    z = 2 * x
    y = x**2 - z + 1
    x.cleargrad()
    y.backward(retain_grad=True)
    assert values(z.grad) == -1 and values(x.grad) == 8
    x = variable(device, [[1, 2, 3], [4, 5, 6]])
    y = x**2 - 2 * x + 1
    y.grad = device.send(np.ones((2, 3), np.float32))
    y.backward()
    np.testing.assert_array_equal(values(x.grad), [[0, 2, 4], [6, 8, 10]])


def test_higher_derivatives_of_a_cube(device):
    x = variable(device, [[0, 2, 3], [4, 5, 6]])
    y = x**3
    y.grad = device.send(np.ones((2, 3), np.float32))
    y.backward(enable_double_backprop=True)
    grad = x.grad_var
    np.testing.assert_allclose(values(grad.array), [[0, 12, 27], [48, 75, 108]])
    np.testing.assert_array_equal(values(grad.array), values(x.grad))
    x.cleargrad()
    grad.grad = device.send(np.ones((2, 3), np.float32))
    grad.backward()
    np.testing.assert_allclose(values(x.grad), [[0, 12, 18], [24, 30, 36]])


def test_a_linear_link_accumulates(device):
    f = L.Linear(None, 2)
    f.to_device(device)
    f.cleargrads()
    x = variable(device, [[1, 2, 3], [4, 5, 6]])
    for times in (1, 2):
        y = f(x)
        y.grad = device.send(np.ones((2, 2), np.float32))
        y.backward()
        np.testing.assert_array_equal(values(f.W.grad), np.array([[5, 7, 9]] * 2) * times)
        np.testing.assert_array_equal(values(f.b.grad), [2 * times] * 2)
    f.cleargrads()
    assert f.W.grad is None


class EltwiseParamProduct(chainer.Link):
    """A link with a parameter of the input's shape."""

    def __init__(self, shape):
        super().__init__()
        with self.init_scope():
            self.W = chainer.Parameter(chainer.initializers.Normal(scale=1.0), shape)

    def forward(self, x):
        return self.W * x


class LinearByHand(chainer.Link):
    """A linear link that does the sums itself."""

    def __init__(self, link):
        super().__init__()
        with self.init_scope():
            self.W = chainer.Parameter(link.W.array.copy())
            self.b = chainer.Parameter(link.b.array.copy())

    def forward(self, x):
        return F.matmul(x, self.W, transb=True) + F.broadcast_to(self.b, (len(x), self.b.size))


def test_links_of_the_user(rng, device):
    x = variable(device, rng.standard_normal((4, 3)))
    product = EltwiseParamProduct((4, 3))
    product.to_device(device)
    product.cleargrads()
    F.sum(product(x)).backward()
    np.testing.assert_allclose(values(product.W.grad), values(x.array), rtol=1e-6)
    link = L.Linear(3, 5)
    by_hand = LinearByHand(link)
    for model in (link, by_hand):
        model.to_device(device)
        model.cleargrads()
        F.sum(F.tanh(model(x))).backward()
    for name in ("W", "b"):
        np.testing.assert_allclose(
            values(getattr(by_hand, name).grad),
            values(getattr(link, name).grad),
            rtol=1e-4,
            atol=1e-5,
        )


@pytest.mark.parametrize("double", [False, True])
def test_gradient_check_of_relu(rng, device, double):
    x, gy, ggx = (rng.uniform(0.3, 1, (3, 2)).astype("f") * rng.choice([-1, 1]) for _ in range(3))
    x, gy, ggx = (device.send(a.astype("f")) for a in (x, gy, ggx))
    session = chx._core._get_default_session()
    before = session.stats()["round_trips"]
    if double:
        gradient_check.check_double_backward(F.relu, x, gy, ggx, atol=1e-3, rtol=1e-3)
    else:
        gradient_check.check_backward(F.relu, x, gy, atol=1e-3, rtol=1e-3)
    assert session.stats()["round_trips"] - before < 300


class MatMulByHand(chainer.FunctionNode):
    """A product that ChainerX computes only where it can; it falls back for transposed operands."""

    def __init__(self, transa=False):
        self.transa = transa

    def forward(self, inputs):
        self.retain_inputs((0, 1))
        a, b = inputs
        return ((a.T if self.transa else a).dot(b),)

    def forward_chainerx(self, inputs):
        if self.transa:
            return chainer.Fallback
        a, b = inputs
        return (a.dot(b),)

    def backward(self, indexes, grads):
        a, b = self.get_retained_inputs()
        (g,) = grads
        ga = F.matmul(b, g, transb=True) if self.transa else F.matmul(g, b, transb=True)
        return ga, F.matmul(a, g, transa=not self.transa)


def test_a_function_that_falls_back_at_times(rng, device):
    chx.config.fallback = "allow"
    a = rng.standard_normal((3, 4)).astype("f")
    b = rng.standard_normal((4, 2)).astype("f")
    results = []
    for transa in (False, True):
        x = chainer.Variable(device.send(np.ascontiguousarray(a.T) if transa else a))
        y = chainer.Variable(device.send(b))
        (z,) = MatMulByHand(transa).apply((x, y))
        F.sum(F.tanh(z)).backward()
        results.append(
            (values(z.array), values(x.grad).T if transa else values(x.grad), values(y.grad))
        )
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    assert sum(chx.chainer.fallbacks().values()) == 1
