"""Gradients: backward, grad, modes, graphs."""

import weakref

import chx
import numpy as np
import pytest


def leaf(values, dtype=np.float64):
    return chx.array(values, dtype).require_grad()


def test_backward_adds_up():
    x = leaf([1.0, 2.0])
    assert x.grad is None
    (x * x).backward()
    assert x.grad.tolist() == [2.0, 4.0]
    (x * 3).backward()
    assert x.grad.tolist() == [5.0, 7.0]
    x.cleargrad()
    assert x.grad is None
    chx.backward([x * 2, x * 5])
    assert x.grad.tolist() == [7.0, 7.0]


def test_mlp_gradient_is_the_numerical_one():
    rng = np.random.default_rng(1)
    values = [rng.normal(size=s) for s in [(5, 4), (3, 4), (3,), (2, 3)]]
    t = chx.array([0, 1, 1, 0, 1])

    def loss(x, w1, b1, w2):
        h = chx.tanh(chx.linear(x, w1, b1))
        return chx.softmax_cross_entropy(chx.linear(h, w2), t).mean()

    arrays = [leaf(v) for v in values]
    loss(*arrays).backward()
    eps = 1e-6
    for i, array in enumerate(arrays):
        actual = chx.to_numpy(array.grad)
        for index in np.ndindex(values[i].shape):
            moved = [v.copy() for v in values]
            moved[i][index] += eps
            above = float(loss(*map(chx.array, moved)))
            moved[i][index] -= 2 * eps
            below = float(loss(*map(chx.array, moved)))
            assert actual[index] == pytest.approx((above - below) / (2 * eps), rel=1e-4, abs=1e-8)


def test_unset_and_set_output_gradients():
    x = leaf([1.0, 2.0])
    y = x * x
    y.set_grad(chx.array([10.0, 100.0]))
    y.backward()
    assert x.grad.tolist() == [20.0, 400.0]


def test_loss_scale():
    x = leaf([1.0, 2.0])
    (x * x).backward(loss_scale=8.0)
    assert x.grad.tolist() == [2.0, 4.0]


def test_grad():
    x, y, z = leaf([1.0, 2.0]), leaf([3.0, 4.0]), leaf([5.0])
    out = x * y
    gx, gz, gy = chx.grad([out], [x, z, y])
    assert gx.tolist() == [3.0, 4.0] and gy.tolist() == [1.0, 2.0] and gz is None
    assert x.grad is None
    (gx,) = chx.grad([out], [x], grad_outputs=[chx.array([2.0, 3.0])])
    assert gx.tolist() == [6.0, 12.0]
    (gx,) = chx.grad([out], [x], set_grad=True)
    assert x.grad is gx
    with pytest.raises(chx.GradientError):
        chx.grad([out], [x], grad_outputs=[chx.array([1.0, 1.0]), None])
    with pytest.raises(chx.GradientError):
        chx.grad([out], [x], grad_outputs=[chx.array([1.0])])
    assert chx.grad([], [x]) == [None]
    assert chx.grad([out], []) == []


def test_iterators_of_temporary_arrays():
    x = leaf([1.0, 2.0])
    chx.backward(x * i for i in range(1, 4))
    assert x.grad.tolist() == [6.0, 6.0]
    grads = chx.grad((x * i for i in (1, 2)), (y for y in [x]), set_grad=True)
    assert grads[0].tolist() == [3.0, 3.0] and x.grad is grads[0]


def test_double_backprop():
    x = leaf([1.0, 2.0])
    (gx,) = chx.grad([x * x * x], [x], enable_double_backprop=True)
    assert gx.is_backprop_required()
    (ggx,) = chx.grad([gx], [x])
    assert ggx.tolist() == [6.0, 12.0]
    assert not ggx.is_backprop_required()
    (x * x * x).backward(enable_double_backprop=True)
    first = x.grad
    assert first.is_backprop_required()
    x.cleargrad()
    first.backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_gradients_of_indexing():
    x = leaf(np.arange(6.0).reshape(2, 3))
    (x[1, ::2] * chx.array([2.0, 3.0])).backward()
    assert x.grad.tolist() == [[0, 0, 0], [2, 0, 3]]


def test_require_grad():
    x = chx.zeros(2)
    assert not x.is_grad_required() and not x.is_backprop_required()
    assert x.require_grad() is x and x.require_grad() is x
    assert x.is_grad_required() and x.is_backprop_required()
    y = x + 1
    assert y.is_backprop_required() and not y.is_grad_required()
    assert not (x > 0).is_backprop_required()
    view = chx.zeros(2).view()
    view.require_grad()
    assert not x.as_grad_stopped().is_backprop_required()


def test_gradients_need_the_graph():
    x = chx.zeros(2)
    for call in [
        lambda: x.grad,
        lambda: x.get_grad(),
        lambda: x.set_grad(chx.zeros(2)),
        lambda: setattr(x, "grad", chx.zeros(2)),
        x.cleargrad,
        x.unchain,
        x._debug_dump_computational_graph,
    ]:
        with pytest.raises(chx.ChainerxError, match="call require_grad"):
            call()


def test_outputs_outside_of_the_graph_are_passed_over():
    x, y = leaf([3.0]), chx.zeros(1)
    for nothing in (y, [y, y]):
        with pytest.raises(chx.ChainerxError, match=r"in the graph of backprop ID '<default>'"):
            chx.backward(nothing)
    with (
        chx.backprop_scope("other") as other,
        pytest.raises(chx.ChainerxError, match="ID 'other'"),
    ):
        (x * x).backward(other)
    assert x.grad is None
    assert chx.grad([y], [x, y]) == [None, None]
    chx.backward([y, x * x])
    assert x.grad.tolist() == [6.0]
    (gx,) = chx.grad([y, x * x], [x], grad_outputs=[None, chx.array([10.0])])
    assert gx.tolist() == [60.0]


def test_set_grad_checks():
    x = leaf([1.0, 2.0])
    g = chx.array([3.0, 4.0])
    x.grad = g
    assert x.grad is g and x.get_grad() is g
    x.set_grad(None)
    assert x.grad is None
    for wrong in [chx.zeros(3, "float64"), chx.zeros(2, "float32")]:
        with pytest.raises(chx.GradientError):
            x.grad = wrong
    with pytest.raises(TypeError):
        x.grad = 1.0


def test_gradients_may_be_numpys():
    x = leaf([1.0, 2.0])
    for gradient in (np.array([3.0, 4.0]), [3.0, 4.0]):
        x.grad = gradient
        assert type(x.grad) is chx.ndarray and x.grad.tolist() == [3.0, 4.0]
        x.cleargrad()
        x.set_grad(gradient)
        assert x.grad.tolist() == [3.0, 4.0]
        (gx,) = chx.grad([x * 2], [x], grad_outputs=[gradient])
        assert gx.tolist() == [6.0, 8.0]
    with pytest.raises(chx.GradientError):
        x.grad = np.array([3, 4])


def test_in_place_is_refused_in_a_graph():
    x = leaf([1.0, 2.0])
    y = x * 2
    z = chx.zeros(2, "float64")
    for call in [
        lambda: x.__iadd__(1),
        lambda: y.__imul__(y),
        lambda: z.__iadd__(x),
        lambda: x.fill(0),
    ]:
        with pytest.raises(chx.ChainerxError, match="In-place"):
            call()
    stopped = x.as_grad_stopped()
    stopped -= 1
    assert x.tolist() == [0.0, 1.0]


def test_no_backprop_mode():
    x = leaf([1.0])
    assert chx.is_backprop_required()
    with chx.no_backprop_mode():
        assert not chx.is_backprop_required() and not x.is_backprop_required()
        assert not (x * 2).is_backprop_required()
        with chx.force_backprop_mode():
            assert chx.is_backprop_required() and (x * 2).is_backprop_required()
        assert not (x * 2).is_backprop_required()
    assert (x * 2).is_backprop_required()


def test_modes_are_left_when_an_exception_passes():
    with pytest.raises(ZeroDivisionError), chx.no_backprop_mode():
        raise ZeroDivisionError
    assert chx.is_backprop_required()


def test_mode_of_an_operator_counts_not_that_of_backward():
    x = leaf([3.0])
    y = x * x
    with chx.no_backprop_mode():
        z = x * 10
    y.backward()
    assert x.grad.tolist() == [6.0]
    with pytest.raises(chx.ChainerxError, match="expects an array in the graph"):
        z.backward()
    assert x.grad.tolist() == [6.0]


def test_an_array_without_a_gradient_starts_from_ones():
    x = leaf([3.0, 4.0])
    (x * x).backward()
    assert x.grad.tolist() == [6.0, 8.0]


def test_graphs_of_their_own():
    x = chx.array([2.0])
    with chx.backprop_scope("inner") as inner:
        x.require_grad(inner)
        assert x.is_grad_required(inner) and not x.is_grad_required()
        y = x * x
        assert y.is_backprop_required(inner) and not y.is_backprop_required()
        assert repr(inner) == inner.name == "inner"
        assert "backprop_ids=['inner']" in repr(x)
        with chx.no_backprop_mode(inner):
            assert not chx.is_backprop_required(inner) and chx.is_backprop_required()
        y.backward(inner)
        assert x.get_grad(inner).tolist() == [4.0]
    assert inner.name == "<expired>"


def test_a_second_backward_gives_a_new_gradient_object():
    x = leaf([1.0])
    (x * 2).backward()
    first = x.grad
    assert x.grad is first
    (x * 3).backward()
    second = x.grad
    assert second is not first
    assert (first.tolist(), second.tolist()) == ([2.0], [5.0])


def test_a_weakref_callback_may_ask_for_the_same_gradient():
    x = leaf([1.0])
    (x * 2).backward()
    seen = []
    grad = x.grad
    reference = weakref.ref(grad, lambda _: seen.append(x.grad))
    del grad
    others = [chx.zeros(3) for _ in range(3)]  # would take a freed object's place
    assert len(seen) == 1 and reference() is None
    assert seen[0].tolist() == [2.0] and seen[0] is x.grad
    assert all(other is not seen[0] for other in others)


def test_deep_graph():
    x = leaf([1.0])
    y = x
    for _ in range(20_000):
        y = y + x
    y.backward()
    assert x.grad.tolist() == [20_001.0]
    del y


def test_training_reaches_the_least_squares_solution():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(100, 3)), np.array([[1.0, -2.0, 0.5]])
    a, t = chx.array(x), chx.array(x @ w.T)
    weights = chx.zeros((1, 3), "float64").require_grad()
    for _ in range(200):
        weights.cleargrad()
        chx.mean(chx.square(chx.linear(a, weights) - t)).backward()
        stopped = weights.as_grad_stopped()
        stopped -= weights.grad * 0.2
    np.testing.assert_allclose(chx.to_numpy(weights), w, atol=1e-6)
