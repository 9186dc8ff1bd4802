"""check_backward and check_double_backward: what they accept, and what they find."""

import chx
import numpy as np
import pytest


def eps_like(*arrays, eps=1e-3):
    return [chx.full(a.shape, eps, a.dtype) for a in arrays]


def make(*values, dtype="float64", backprop_id=None):
    return [chx.array(v, dtype).require_grad(backprop_id) for v in values]


A, B = [1.0, -2.0, 1.5], [0.5, 1.0, 2.0]

GOOD = {
    "square": (lambda xs: (xs[0] * xs[0],), [A]),
    "product": (lambda xs: (xs[0] * xs[1],), [A, B]),
    "two_outputs": (lambda xs: (xs[0] * xs[1], chx.exp(xs[1])), [A, B]),
    "broadcast": (lambda xs: [xs[0] * xs[1]], [[[1.0], [2.0]], B]),
    "matrix": (lambda xs: [chx.tanh(chx.dot(xs[0], xs[1]))], [np.eye(2) + 0.3, [[1.0], [2.0]]]),
    "scalar": (lambda xs: [chx.sum(chx.square(xs[0])) ** 1.5], [A]),
    "view": (lambda xs: [xs[0][1:] * xs[0][:-1]], [A]),
    "unused_input": (lambda xs: (xs[0] * xs[0],), [A, B]),
}


def grad_outputs_of(func, inputs):
    rng = np.random.default_rng(0)
    return [chx.array(rng.normal(size=y.shape)) for y in func(inputs)]


@pytest.mark.parametrize("name", GOOD)
def test_right_gradients_pass(name):
    func, values = GOOD[name]
    inputs = make(*values)
    chx.check_backward(func, inputs, grad_outputs_of(func, inputs), eps_like(*inputs))
    assert all(x.grad is None for x in inputs)


@pytest.mark.parametrize("name", [n for n in GOOD if n != "unused_input"])
def test_right_second_gradients_pass(name):
    func, values = GOOD[name]
    inputs = make(*values)
    gys = [g.require_grad() for g in grad_outputs_of(func, inputs)]
    ggxs = grad_outputs_of(lambda xs: xs, inputs)
    eps = eps_like(*inputs, *gys)
    chx.check_double_backward(func, inputs, gys, ggxs, eps, atol=1e-4, rtol=1e-3)


def test_float32_with_its_own_eps():
    (x,) = make([1, 2, 1], dtype="float32")
    gy = chx.array([0, -2, 1], "float32")
    chx.check_backward(lambda xs: (xs[0] * xs[0],), (x,), (gy,), eps_like(x))


def test_wrong_gradients_are_found():
    x, y = make(A, B)

    def stopped(xs):
        return ((xs[0] * xs[1]).as_grad_stopped() + xs[0] + xs[1],)

    with pytest.raises(chx.GradientCheckError, match="by backprop"):
        chx.check_backward(stopped, [x, y], [chx.ones(3, "float64")], eps_like(x, y))

    def first_order_only(xs):  # the value and the gradient of x * x / 2
        stopped = xs[0].as_grad_stopped()
        return (xs[0] * stopped - 0.5 * chx.square(stopped),)

    gy = chx.ones(3, "float64").require_grad()
    chx.check_backward(first_order_only, [x], [gy.as_grad_stopped()], eps_like(x))
    with pytest.raises(chx.GradientCheckError):
        chx.check_double_backward(
            first_order_only, [x], [gy], [chx.ones(3, "float64")], eps_like(x, gy)
        )


def test_inputs_that_do_not_require_backprop_are_not_checked():
    (x,) = make(A)
    constant = chx.array(B)
    labels = chx.array([0, 1, 2])

    def func(xs):
        return (xs[0] * xs[1].as_grad_stopped() + xs[2] * 0.0,)

    inputs = [x, constant, labels]
    eps = eps_like(x, constant) + [chx.ones(3, "int64")]
    chx.check_backward(func, inputs, [chx.ones(3, "float64")], eps)


def test_graphs_of_their_own():
    with chx.backprop_scope("bp") as bp:
        inputs = make(A, B, backprop_id=bp)
        func = GOOD["product"][0]
        gys = [chx.ones(3, "float64")]
        chx.check_backward(func, inputs, gys, eps_like(*inputs), backprop_id=bp)
        gys[0].require_grad(bp)
        ggxs = grad_outputs_of(lambda xs: xs, inputs)
        eps = eps_like(*inputs, *gys)
        chx.check_double_backward(func, inputs, gys, ggxs, eps, backprop_id=bp)
        with pytest.raises(chx.GradientCheckError, match="graph 'bp'"):
            chx.check_backward(
                lambda xs: (xs[0] * xs[1].as_grad_stopped(),),
                inputs,
                [chx.ones(3, "float64")],
                eps_like(*inputs),
                backprop_id=bp,
            )


def test_arguments_that_do_not_fit():
    x, y = make(A, B)
    one = chx.ones(3, "float64")
    func = GOOD["product"][0]
    for gys, eps in [
        ([one, one], eps_like(x, y)),
        ([chx.ones(2, "float64")], eps_like(x, y)),
        ([one], eps_like(x)),
        ([one], [chx.ones(2, "float64"), one]),
    ]:
        with pytest.raises(chx.GradientCheckError, match="expected"):
            chx.check_backward(func, [x, y], gys, eps)
    with pytest.raises(chx.GradientCheckError, match="output itself"):
        chx.check_backward(lambda xs: xs, [x], [one], eps_like(x))
    with pytest.raises(TypeError, match="sequence"):
        chx.check_backward(lambda xs: xs[0] * 2, [x], [one], eps_like(x))
    for arrays in ([chx.array(A)], [one]), ([x], [one]):
        with pytest.raises(chx.ChainerxError, match="require backprop"):
            chx.check_double_backward(func, *arrays, [one], eps_like(x, one))
    gy = chx.ones(3, "float64").require_grad()
    with pytest.raises(chx.GradientCheckError, match="no output depends on input 1"):
        chx.check_double_backward(
            GOOD["unused_input"][0], [x, y], [gy], [one, one], eps_like(x, y, gy)
        )
