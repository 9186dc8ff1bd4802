"""Chainer's loops give their memory back: sessions with little of it, and much that goes through."""

import chx
import chx.chainer
import numpy as np
import pytest

from tests.integration.daemon import Daemon

SHAPE = (256, 256)  # float32: 256 KiB
MEMORY = "24MiB"
STEPS = 1000


@pytest.fixture(scope="module")
def daemon():
    with Daemon(f"--session-memory={MEMORY}") as daemon:
        yield daemon


@pytest.fixture
def device(daemon):
    import chainer

    with chx.connect(daemon.address) as session:
        yield chainer.get_device("native:0")
        assert session.take_errors() == []


def train(device, cell, steps=STEPS, cut=True):
    """Backpropagation through time, truncated after ten steps. Returns the weight's gradient."""
    import chainer
    import chainer.functions as F

    w = chainer.Parameter(np.ones(SHAPE, "f"))
    w.to_device(device)
    state = chainer.Variable(device.send(np.ones(SHAPE, "f")))
    loss = 0
    for step in range(1, steps + 1):
        state = cell(state, w)
        loss = loss + F.sum(state)
        if step % 10 == 0:
            float(loss.array)  # so that the client is not too far ahead
            w.cleargrad()
            loss.backward()
            if cut:
                loss.unchain_backward()
            loss = 0
    return chx.to_numpy(w.grad)


def test_truncated_backpropagation(device):
    import chainer.functions as F

    grad = train(device, lambda h, w: F.tanh(h * w))
    assert np.isfinite(grad).all() and grad.any()


def test_without_cuts_it_would_be_too_much(daemon):
    import chainer
    import chainer.functions as F

    with chx.connect(daemon.address), pytest.raises(chx.OutOfMemoryError):
        train(chainer.get_device("native:0"), lambda h, w: F.tanh(h * w), 200, cut=False)


def test_functions_of_the_user(device):
    import chainer

    class Product(chainer.FunctionNode):
        def forward(self, inputs):
            self.retain_inputs((0, 1))
            return (inputs[0] * inputs[1],)

        def backward(self, indexes, grad_outputs):
            h, w = self.get_retained_inputs()
            return grad_outputs[0] * w, grad_outputs[0] * h

    chx.config.fallback = "allow"
    train(device, lambda h, w: chainer.functions.tanh(Product().apply((h, w))[0]), 200)


def test_watched_functions(device):
    import chainer
    import chainer.functions as F

    with chainer.using_config("debug", True):
        train(device, lambda h, w: F.tanh(h * w), 200)


def test_two_losses_over_one_graph(device):
    import chainer
    import chainer.functions as F

    x = chainer.Parameter(np.ones(SHAPE, "f"))
    x.to_device(device)
    for _ in range(200):
        y = F.exp(-x * x)
        x.cleargrad()
        F.sum(y).backward()
        F.sum(y * y).backward(retain_grad=True)
        assert y.grad is not None
        float(x.grad[0, 0])


def test_double_backprop(device):
    import chainer
    import chainer.functions as F

    x = chainer.Parameter(np.ones(SHAPE, "f"))
    x.to_device(device)
    for _ in range(200):
        x.cleargrad()
        F.sum(x**3).backward(enable_double_backprop=True)
        g = x.grad_var
        x.cleargrad()
        F.sum(g * g).backward()
        assert float(x.grad[0, 0]) == 36
