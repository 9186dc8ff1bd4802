"""Gradients of the user's functions as on NumPy: backward_accumulate, what is retained, checks."""

import gc
import weakref

import chainer
import chainer.functions as F
import chx
import numpy as np
import pytest

CPU = chainer.get_device("@numpy")


@pytest.fixture(autouse=True)
def allow():
    chx.config.fallback = "allow"


class Product(chainer.FunctionNode):
    """x * y, with backward_accumulate alone."""

    def forward(self, inputs):
        self.retain_inputs((0, 1))
        return (inputs[0] * inputs[1],)

    def backward_accumulate(self, indexes, grad_outputs, grad_inputs):
        others = self.get_retained_inputs()[::-1]
        grads = [grad_outputs[0] * others[i] for i in indexes]
        pairs = zip(grads, grad_inputs, strict=True)
        return tuple(g if before is None else g + before for g, before in pairs)


class Scaled(chainer.FunctionNode):
    """x * 2, with a gradient that the test makes."""

    def __init__(self, grads):
        self.grads = grads

    def forward(self, inputs):
        return (inputs[0] * 2,)

    def backward(self, indexes, grad_outputs):
        return self.grads(grad_outputs[0])


class Kept(chainer.FunctionNode):
    """exp(x) + y, and y + 1."""

    def forward(self, inputs):
        self.retain_inputs((1,))
        self.retain_outputs((0,))
        x, y = inputs
        return np.exp(x) + y, y + 1

    def backward(self, indexes, grad_outputs):
        g, h = grad_outputs
        (y,) = self.get_retained_inputs()
        (z,) = self.get_retained_outputs()
        return g * (z - y), g if h is None else g + h


def host(x):
    return None if x is None else CPU.send(x)


@pytest.mark.parametrize("debug", [False, True])
def test_backward_accumulate(rng, device, debug):
    """Beside other ways to the same inputs, twice the same input, an unneeded one; and again."""
    values = rng.uniform(0.5, 1.5, (3, 2, 3)).astype("f")

    def run(place):
        x, y, z = (chainer.Variable(place.send(v)) for v in values)
        (xy,) = Product().apply((x, y))
        (zz,) = Product().apply((z, z))
        (scaled,) = Product().apply((x, y.array))
        loss = F.sum(xy * zz + x * 5 + scaled * y)
        loss.backward(enable_double_backprop=True)
        first = [v.grad_var for v in (x, y, z)]
        for v in (x, y, z):
            v.cleargrad()
        sum(F.sum(g * g) for g in first).backward()
        return [host(g.array) for g in first] + [host(v.grad) for v in (x, y, z)]

    with chainer.using_config("debug", debug):
        for expected, got in zip(run(CPU), run(device), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_backward_accumulate_that_returns_less(device):
    """What it leaves out has no gradient from it, as on NumPy."""

    class First(Product):
        def backward_accumulate(self, indexes, grad_outputs, grad_inputs):
            return super().backward_accumulate(indexes, grad_outputs, grad_inputs)[:1]

    def run(place):
        x, y = (chainer.Variable(place.send(np.full(2, n, "f"))) for n in (2, 3))
        F.sum(First().apply((x, y))[0] + 0 * x).backward()
        return host(x.grad).tolist(), host(y.grad)

    assert run(device) == run(CPU) == ([3, 3], None)


@pytest.mark.parametrize("watched", [False, True])
def test_retained_arrays_are_there_outside_of_backward(rng, device, watched):
    values = rng.normal(size=(2, 3)).astype("f")

    def run(place):
        with chainer.using_config("debug", watched):
            x, y = (chainer.Variable(place.send(v)) for v in values)
            outputs = Kept().apply((x, y))
            node = outputs[0].creator_node
            seen = []
            for _ in range(2):
                (kept,), (made,) = node.get_retained_inputs(), node.get_retained_outputs()
                assert kept is y and made is outputs[0]
                seen += [host(kept.array), host(made.array)]
                F.sum(outputs[0] * outputs[1]).backward()
            # Of variables that are gone, the values.
            del kept, made, y
            node = outputs[1].creator_node
            outputs = outputs[1:]
            (kept,), (made,) = node.get_retained_inputs(), node.get_retained_outputs()
            seen += [host(kept.array), host(made.array), host(x.grad)]
            outputs[0].unchain_backward()
            assert node.get_retained_inputs() == node.get_retained_outputs() == ()
        return seen

    for want, got in zip(run(CPU), run(device), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_what_is_retained_does_not_keep_the_function(device):
    x = chainer.Variable(device.send(np.ones(3, "f")))
    y = Kept().apply((x, x))[0]
    function = weakref.ref(y.creator_node)
    F.sum(y).backward()
    del y
    gc.collect()
    float(chx.ones(()))  # the daemon says what is free with an answer
    assert function() is None


def test_nothing_retained(device):
    (y,) = Scaled(lambda g: (g * 2,)).apply((chainer.Variable(device.send(np.ones(3, "f"))),))
    assert y.creator_node.get_retained_inputs() == y.creator_node.get_retained_outputs() == ()


WRONG = {
    "dtype": (TypeError, lambda g: (F.cast(g, "d"),)),
    "shape": (ValueError, lambda g: (g[:1],)),
    "broadcast": (ValueError, lambda g: (F.broadcast_to(g, (2, 3)),)),
    "too many": (ValueError, lambda g: (g, g)),
    "none": (ValueError, lambda g: ()),
    "no tuple": (TypeError, lambda g: None),
    "array": (AttributeError, lambda g: (g.array,)),
}


@pytest.mark.parametrize("name", list(WRONG))
@pytest.mark.parametrize("retain_grad", [False, True])
@pytest.mark.parametrize("debug", [False, True])
def test_wrong_gradients_are_refused(device, name, retain_grad, debug):
    error, grads = WRONG[name]
    if debug and name == "array":
        error = ValueError
    for place in (CPU, device):
        x = chainer.Variable(place.send(np.ones(3, "f")))
        with chainer.using_config("debug", debug):
            (y,) = Scaled(grads).apply((x,))
            with pytest.raises(error) as caught:
                F.sum(y).backward(retain_grad=retain_grad)
        assert caught.type is error
        assert x.grad is None


def test_what_is_wrong_is_said(device):
    def fails(grads):
        x = chainer.Variable(device.send(np.ones(3, "f")))
        F.sum(Scaled(grads).apply((x,))[0]).backward()

    with pytest.raises(ValueError, match=r"\[Scaled\] expects backward\(\) to return 1 g.* got 2"):
        fails(lambda g: (g, g))
    with pytest.raises(TypeError, match="(?s)Scaled.*grad: float64 != data: float32"):
        fails(lambda g: (F.cast(g, "d"),))


def test_chainer_grad_takes_any_dtype(device):
    """As on NumPy; but here the gradient has the dtype of the array."""
    for place in (CPU, device):
        x = chainer.Variable(place.send(np.ones(3, "f")))
        (y,) = Scaled(lambda g: (F.cast(g, "d") * 2,)).apply((x,))
        (g,) = chainer.grad([y], [x], [chainer.Variable(place.send(np.ones(3, "f")))])
        np.testing.assert_array_equal(host(g.array), [2, 2, 2])


def test_gradients_that_are_not_the_daemon_s_are_sent(device):
    x = chainer.Variable(device.send(np.ones(3, "f")))
    (y,) = Scaled(lambda g: (chainer.Variable(np.full(3, 7, "f")),)).apply((x,))
    F.sum(y).backward()
    assert host(x.grad).tolist() == [7, 7, 7]
