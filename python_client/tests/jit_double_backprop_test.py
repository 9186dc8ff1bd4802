"""Gradients of gradients in functions of chx.jit: equal to eager mode to the last bit."""

import chx
import numpy as np
import pytest

DOUBLE = {"enable_double_backprop": True}


def _arrays(seed, *shapes, dtype="float64"):
    rng = np.random.default_rng(seed)
    return [chx.array(rng.normal(0, 0.6, shape).astype(dtype)) for shape in shapes]


def _bits(arrays):
    return [None if a is None else chx.to_numpy(a).tobytes() for a in arrays]


class Critic:
    def __init__(self, dtype="float32"):
        arrays = _arrays(1, (4, 8), (8,), (8, 1), dtype=dtype)
        self.params = [a.require_grad() for a in arrays]

    def __call__(self, x):
        w1, b1, w2 = self.params
        return chx.tanh(x @ w1 + b1) @ w2


def _penalty(critic, x):
    """That of WGAN-GP: gradients of length 1 are best."""
    x = x.copy().require_grad()
    (gx,) = chx.grad([critic(x)], [x], **DOUBLE)
    length = chx.sqrt(chx.sum(gx * gx, axis=1))
    return chx.mean((length - 1) ** 2)


def test_a_gradient_penalty_trains_a_critic():
    found = []
    for wrap in (lambda f: f, chx.jit):
        critic = Critic()
        optimizer = chx.optimizers.Adam().setup(critic.params)

        def step(real, fake, critic=critic, optimizer=optimizer):
            optimizer.cleargrads()
            loss = chx.mean(critic(fake)) - chx.mean(critic(real))
            loss = loss + 10 * _penalty(critic, 0.25 * real + 0.75 * fake)
            loss.backward()
            optimizer.update()
            return loss

        step = wrap(step)
        losses = [float(step(*_arrays(i, (6, 4), (6, 4), dtype="float32"))) for i in range(6)]
        found.append((losses, _bits(critic.params), _bits(p.grad for p in critic.params)))
    assert found[0] == found[1]
    assert step.cache_info()[:2] == (5, 1) and step.cache_info().unplanned == ()


def test_the_gradients_of_a_penalty_are_right():
    critic = Critic("float64")
    (x,) = _arrays(2, (5, 4))

    @chx.jit
    def differentiate(x):
        return chx.grad([_penalty(critic, x)], critic.params)

    differentiate(x + 1)  # which records it
    grads = differentiate(x)
    for param, grad in zip(critic.params, grads):
        (direction,) = _arrays(3, param.shape)
        values, step = param.as_grad_stopped(), 1e-5
        saved = values.copy()
        sides = []
        for sign in (1, -1):
            chx.copyto(values, saved + sign * step * direction)
            sides.append(float(_penalty(critic, x)))
        chx.copyto(values, saved)
        wanted = (sides[0] - sides[1]) / (2 * step)
        assert float(chx.sum(grad * direction)) == pytest.approx(wanted, rel=1e-6, abs=1e-9)


def _cubes(w, x):
    return chx.sum(w * w * w * x)


def hessian_vector_product(w, x, v):
    (g,) = chx.grad([_cubes(w, x)], [w], **DOUBLE)
    return chx.grad([chx.sum(g * v)], [w])  # 6 w x v


def third_derivative(w, x, v):
    (g,) = chx.grad([_cubes(w, x)], [w], **DOUBLE)
    (h,) = chx.grad([chx.sum(g)], [w], **DOUBLE)
    return chx.grad([chx.sum(h * v)], [w])  # 6 x v


def what_no_gradient_depends_on(w, x, v):
    gx = chx.grad([chx.sum(w * x)], [w], **DOUBLE)  # x, which is constant
    assert not gx[0].is_backprop_required()
    g, none = chx.grad([chx.sum(w * w * v)], [w, x], **DOUBLE)
    assert g.is_backprop_required() and none is None
    (gg,) = chx.grad([g], [w])
    return [*gx, g.as_grad_stopped(), gg, none]


def by_backward(w, x, v):
    w.cleargrad()
    _cubes(w, x).backward(**DOUBLE)
    g = w.grad
    w.cleargrad()
    chx.sum(g * g * v).backward()
    return [g.as_grad_stopped()]


def left_in_a_graph(w, x, v):
    w.cleargrad()
    _cubes(w, x * v).backward(**DOUBLE)
    return []


FUNCTIONS = [
    hessian_vector_product,
    third_derivative,
    what_no_gradient_depends_on,
    by_backward,
    left_in_a_graph,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions_are_as_eager_ones(function):
    found = []
    for wrap in (lambda f: f, chx.jit):
        (w,) = _arrays(4, (3, 4))
        w.require_grad()
        call = wrap(lambda *args, w=w: function(w, *args))
        seen = []
        for i in range(5):
            x, v = _arrays(10 + i, (3, 4), (4,))
            results = call.repeat(2, x, v) if wrap is chx.jit and i == 3 else call(x, v)
            seen.append(_bits([*results, w.grad]))
            if w.grad is not None and w.grad.is_backprop_required():
                seen.append(_bits(chx.grad([chx.sum(w.grad * w.grad)], [w])))
            with chx.no_backprop_mode():
                values = w.as_grad_stopped()
                values *= 0.9
        found.append(seen)
    assert found[0] == found[1]


def test_hessian_vector_products_are_right():
    (w,) = _arrays(5, (3, 4))
    w.require_grad()
    second = chx.jit(lambda x, v: hessian_vector_product(w, x, v))
    third = chx.jit(lambda x, v: third_derivative(w, x, v))
    for i in range(3):
        x, v = _arrays(20 + i, (3, 4), (4,))
        wanted = 6 * chx.to_numpy(x) * chx.to_numpy(v)
        np.testing.assert_allclose(chx.to_numpy(third(x, v)[0]), wanted, 1e-13)
        np.testing.assert_allclose(chx.to_numpy(second(x, v)[0]), wanted * chx.to_numpy(w), 1e-13)


def test_graphs_of_their_own_cannot_be_recorded():
    @chx.jit
    def scoped(x):
        with chx.backprop_scope("inner") as inner:
            y = x.copy().require_grad(inner)
            return chx.grad([chx.sum(y * y)], [y], inner)

    with pytest.raises(chx.NotImplementedError, match="cannot record the command new_backprop_id"):
        scoped(chx.ones(3))


def test_arguments_that_keep_gradients_are_recorded_apart():
    @chx.jit
    def step(x):
        if x.is_backprop_required():
            chx.sum(x * x).backward()
        return x + 1

    plain, leaf = chx.ones(3), chx.full(3, 2.0).require_grad()
    for _ in range(2):
        step(plain)
        step(leaf)
    assert chx.to_numpy(leaf.grad).tolist() == [8] * 3
    assert step.cache_info()[:2] == (2, 2)
