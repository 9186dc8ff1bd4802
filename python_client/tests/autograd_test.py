"""Several graphs, double backprop through whatever the client cannot know, cutting."""

import threading

import chx
import numpy as np
import pytest


def leaf(values, backprop_id=None, dtype=np.float64):
    return chx.array(values, dtype).require_grad(backprop_id)


def test_gradients_of_an_inner_graph_are_in_the_outer_one():
    with chx.backprop_scope("outer") as outer, chx.backprop_scope("inner") as inner:
        x, z = leaf([2.0], inner), leaf([3.0], outer)
        chx.backward(x * (x + z), inner)
        gx = x.get_grad(inner)
        assert gx.tolist() == [7.0]
        assert gx.is_backprop_required(outer) and not gx.is_backprop_required(inner)
        assert not gx.is_backprop_required() and gx.is_backprop_required(chx.anygraph)
        assert "backprop_ids=['outer']" in repr(gx)
        chx.backward(x * gx, outer)
        assert z.get_grad(outer).tolist() == [2.0]
        with pytest.raises(chx.ChainerxError):
            z.get_grad(inner)


def test_grad_of_an_inner_graph_is_in_the_outer_one():
    with chx.backprop_scope("outer") as outer, chx.backprop_scope("inner") as inner:
        x, z = leaf([2.0], inner), leaf([3.0], outer)
        (gx,) = chx.grad([x * (x + z)], [x], inner)
        gz, none = chx.grad([x * gx], [z, x], outer)
        assert gz.tolist() == [2.0] and none is None


def test_a_gradient_that_does_not_depend_on_the_outer_graph_is_not_in_it():
    with chx.backprop_scope("outer") as outer, chx.backprop_scope("inner") as inner:
        x, z = leaf([2.0], inner), leaf([3.0], outer)
        (gx,) = chx.grad([x + z], [x], inner)
        assert not gx.is_backprop_required(outer)
        gx += 1  # so that it may be written
        assert gx.tolist() == [2.0]


def test_the_outer_graph_ends_the_inner_one():
    with chx.backprop_scope("outer") as outer, chx.backprop_scope("inner") as inner:
        x, z = leaf([2.0], inner), leaf([3.0], outer)
        y = x * z
        y.backward(outer)
        for call in (
            lambda: y.backward(inner),
            lambda: chx.backward([y], inner),
            lambda: chx.grad([y], [x], inner),
        ):
            with pytest.raises(chx.ChainerxError, match="'inner' because backprop ID 'outer'"):
                call()
        y.backward(outer)
    # The default graph is outer to all.
    a = leaf([1.0])
    with chx.backprop_scope("inner") as inner:
        b = leaf([2.0], inner) * a
        b.backward(inner)
        b.backward()
        with pytest.raises(chx.ChainerxError, match="'<default>'"):
            b.backward(inner)
    with chx.backprop_scope("inner") as inner:  # and a new graph begins anew
        b = leaf([2.0], inner) * a
        b.backward(inner)


def test_graphs_that_share_no_operator_go_in_any_order():
    with chx.backprop_scope("a") as a, chx.backprop_scope("b") as b:
        x, z = leaf([2.0], a), leaf([3.0], b)
        (x * x).backward(a)
        (z * z).backward(b)
        assert x.get_grad(a).tolist() == [4.0] and z.get_grad(b).tolist() == [6.0]


def test_one_array_in_two_graphs():
    with chx.backprop_scope("b") as b, chx.backprop_scope("a") as a:
        x = leaf([3.0], a).require_grad(b)
        y = x * x
        y.backward(a)
        assert x.get_grad(a).tolist() == [6.0] and x.get_grad(b) is None
        y.backward(b)
        assert x.get_grad(a).tolist() == [6.0] and x.get_grad(b).tolist() == [6.0]


def test_a_gradient_given_from_another_graph_connects():
    with chx.backprop_scope("outer") as outer, chx.backprop_scope("inner") as inner:
        x, g = leaf([2.0], inner), leaf([5.0], outer)
        (gx,) = chx.grad([x * x], [x], inner, grad_outputs=[g])
        assert gx.is_backprop_required(outer)
        y = x * x
        y.set_grad(g, inner)
        y.backward(inner)
        assert x.get_grad(inner).is_backprop_required(outer)
        (gg,) = chx.grad([gx], [g], outer)
        assert gg.tolist() == [4.0]


def test_meta_learning_through_an_inner_step():
    """d/dlr and d/dw of a loss after one step of gradient descent, against the formulas."""
    w0, lr0, t = 3.0, 0.1, 1.0
    w, lr = leaf(w0), leaf(lr0)
    with chx.backprop_scope("step") as step:
        inner = w.as_grad_stopped([step]).require_grad(step)
        (g,) = chx.grad([chx.square(inner - t)], [inner], step)
        moved = inner - lr * g
    chx.square(moved - t).backward()
    after = w0 - lr0 * 2 * (w0 - t)
    assert float(lr.grad) == pytest.approx(2 * (after - t) * -2 * (w0 - t))
    assert float(w.grad) == pytest.approx(2 * (after - t) * (1 - 2 * lr0))


def test_expired_ids():
    x = chx.array([1.0])
    with chx.backprop_scope("bp") as bp:
        x.require_grad(bp)
        chx.backward(x, bp)
        assert bp.name == repr(bp) == "bp"
    assert bp.name == repr(bp) == "<expired>"
    assert "backprop_ids=['<expired>']" in repr(x)
    y = x * 2
    assert not y.is_backprop_required(chx.anygraph)
    x += 1  # nobody's graph
    for call in (
        lambda: x.require_grad(bp),
        lambda: x.is_grad_required(bp),
        lambda: x.is_backprop_required(bp),
        lambda: x.get_grad(bp),
        lambda: x.set_grad(x, bp),
        lambda: x.cleargrad(bp),
        lambda: x.unchain(bp),
        lambda: x.backward(bp),
        lambda: x.as_grad_stopped([bp]),
        lambda: chx.grad([x], [x], bp),
        lambda: chx.is_backprop_required(bp),
        lambda: chx.no_backprop_mode(bp).__enter__(),
        lambda: chx.force_backprop_mode([bp]).__enter__(),
    ):
        with pytest.raises(chx.ChainerxError, match="expired"):
            call()


def test_scopes_are_used_once():
    scope = chx.backprop_scope("bp")
    with scope as bp:
        assert isinstance(bp, chx.BackpropId)
        with pytest.raises(chx.ChainerxError):
            scope.__enter__()
    with pytest.raises(chx.ChainerxError):
        scope.__enter__()


def test_modes_of_some_graphs():
    with chx.backprop_scope("a") as a, chx.backprop_scope("b") as b:
        x = leaf([1.0], a).require_grad(b)
        with chx.no_backprop_mode((a, b)):
            assert chx.is_backprop_required()
            assert not chx.is_backprop_required(a) and not chx.is_backprop_required(b)
            assert not x.is_backprop_required(chx.anygraph)
        with chx.no_backprop_mode():
            with chx.force_backprop_mode(a):
                y = x * 2
                assert not chx.is_backprop_required() and chx.is_backprop_required(a)
            with chx.force_backprop_mode([]):
                assert not chx.is_backprop_required(a)
        assert y.is_backprop_required(a) and not y.is_backprop_required(b)
        with chx.no_backprop_mode([]):
            assert chx.is_backprop_required() and chx.is_backprop_required(a)


def test_modes_of_a_session():
    session = chx.array(0.0).device.backend._session
    with chx.no_backprop_mode(session):
        assert not chx.is_backprop_required() and not chx.is_backprop_required(context=session)
        assert not leaf([1.0]).is_backprop_required()
        with chx.force_backprop_mode(session):
            assert chx.is_backprop_required(session)


@pytest.mark.parametrize("argument", ["foo", 1, [1], ["a"]])
def test_modes_of_something_else(argument):
    for call in (
        lambda: chx.is_backprop_required(argument),
        lambda: chx.is_backprop_required(context=argument),
        lambda: chx.no_backprop_mode(argument),
        lambda: chx.force_backprop_mode(argument),
    ):
        with pytest.raises(TypeError):
            call()


def test_modes_are_a_threads_own():
    seen = []
    with chx.no_backprop_mode():
        thread = threading.Thread(target=lambda: seen.append(chx.is_backprop_required()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_setting_a_gradient_requires_it():
    x = leaf([1.0])
    y = x * 2
    assert not y.is_grad_required()
    with pytest.raises(chx.ChainerxError):
        y.get_grad()
    y.set_grad(chx.array([3.0]))
    assert y.is_grad_required() and y.get_grad().tolist() == [3.0]
    y.backward()
    assert x.grad.tolist() == [6.0] and y.grad.tolist() == [3.0]
    y.cleargrad()
    assert y.grad is None and y.is_grad_required()


def test_outputs_keep_what_they_started_from():
    x = leaf([2.0])
    x.backward()
    assert x.grad.tolist() == [1.0]
    x.backward()
    assert x.grad.tolist() == [1.0]


def test_as_grad_stopped_in_some_graphs():
    with chx.backprop_scope("a") as a, chx.backprop_scope("b") as b:
        x = leaf([1.0], a).require_grad(b)
        for copy in (False, True):
            y = x.as_grad_stopped([a], copy)
            assert not y.is_backprop_required(a) and y.is_backprop_required(b)
            y = x.as_grad_stopped(backprop_ids=[], copy=copy)
            assert y.is_backprop_required(a) and y.is_backprop_required(b)
            y = x.as_grad_stopped(copy)
            assert not y.is_backprop_required(chx.anygraph)
            y += 1
            assert x.tolist() == [1.0 if copy else 2.0]
            if not copy:
                y -= 1
        with pytest.raises(TypeError):
            x.as_grad_stopped(["a"])


def test_views_of_arrays_in_a_graph_may_not_be_written():
    x = leaf([1.0, 2.0])
    before = chx.array([1.0, 2.0])
    view = before.view()
    before.require_grad()
    view += 1  # has a place of its own
    assert before.tolist() == [2.0, 3.0]
    for array in (x.view(), x[:1], x.reshape(1, 2), x.T):
        with pytest.raises(chx.ChainerxError, match="In-place"):
            array += 1
    with chx.no_backprop_mode():
        v = x[:1]
        v += 10
    assert x.tolist() == [11.0, 2.0]
    z = chx.zeros(2, "float64")
    with pytest.raises(chx.ChainerxError, match="involves input arrays"):
        z += x
    with chx.no_backprop_mode():
        z += x
    z[0] = x[1]  # as a constant
    assert z.tolist() == [2.0, 2.0] and not z.is_backprop_required()


def test_writes_reach_what_is_kept_for_backward():
    x = leaf([2.0])
    y = x * x
    stopped = x.as_grad_stopped()
    stopped += 1
    y.backward()
    assert x.grad.tolist() == [6.0]


def test_grad_starts_from_the_outputs_gradient():
    x = leaf([3.0])
    y = x * x
    y.set_grad(chx.array([10.0]))
    assert chx.grad([y], [x])[0].tolist() == [60.0]
    assert chx.grad([y], [x], grad_outputs=[None])[0].tolist() == [60.0]
    assert chx.grad([y], [x], grad_outputs=[chx.array([1.0])])[0].tolist() == [6.0]


def test_an_output_may_be_on_the_way_to_another():
    a, b = leaf([1.0]), leaf([2.0])
    y = a * b
    assert [g.tolist() for g in chx.grad([y, a + y], [a, b])] == [[5.0], [2.0]]
    assert [g.tolist() for g in chx.grad([y, a + y], [y, a])] == [[2.0], [5.0]]


def test_retain_grad():
    x, w = leaf([3.0]), leaf([5.0])
    h = x * 2
    y = h * w
    s = chx.square(y)
    (gx,) = chx.grad([s], [x], retain_grad=True, loss_scale=4.0)
    assert gx.tolist() == [600.0]
    assert (h.grad.tolist(), y.grad.tolist(), s.grad.tolist()) == ([300.0], [60.0], [1.0])
    assert x.grad is None and w.grad is None
    unrelated = x * 7
    with pytest.raises(chx.ChainerxError):
        unrelated.get_grad()


def test_set_grad_with_loss_scale():
    x = leaf([3.0], dtype=np.float16)
    (gx,) = chx.grad([x * x], [x], set_grad=True, loss_scale=1024)
    assert x.grad is gx and gx.tolist() == [6.0] and gx.dtype == np.float16


def test_a_linear_functions_gradient_is_constant():
    x = leaf([1.0, 2.0])
    (gx,) = chx.grad([x * 3], [x], enable_double_backprop=True)
    assert not gx.is_backprop_required()
    with pytest.raises(chx.ChainerxError, match=r"\[backward\] expects an array in the graph"):
        gx.backward()
    assert x.grad is None and chx.grad([gx], [x]) == [None]


def test_leaves_that_a_gradient_does_not_depend_on_have_none():
    x, w = leaf([2.0]), leaf([5.0])
    gx, gw = chx.grad([x * w], [x, w], enable_double_backprop=True)
    gx.backward()
    assert x.grad is None and w.grad.tolist() == [1.0]
    assert chx.grad([gx * gw], [x, w])[1].tolist() == [2.0]
    x.grad = old = chx.array([7.0])
    gx.backward()
    assert x.grad is old and w.grad.tolist() == [2.0]


def test_inputs_without_a_gradient():
    x, condition = leaf([1.0, 2.0]), leaf([1.0, 0.0])
    y = chx.where(condition, x, 0.0)
    y.backward()
    assert x.grad.tolist() == [1.0, 0.0] and condition.grad is None
    assert chx.grad([y], [condition, x])[0] is None
    assert not chx.where(condition, 1.0, x.as_grad_stopped()).is_backprop_required()


def test_third_order():
    x = leaf([2.0])
    y = x * x * x * x
    for expected in (32.0, 48.0, 48.0, 24.0):
        (y,) = chx.grad([y], [x], enable_double_backprop=True)
        assert y.tolist() == [expected]
    assert chx.grad([y], [x]) == [None]


def test_gradient_penalty_is_the_numerical_one():
    rng = np.random.default_rng(3)
    values = [rng.normal(size=s) for s in [(4, 3), (5, 3), (2, 5)]]

    def loss(x, w1, w2):
        y = chx.sum(chx.tanh(chx.linear(chx.tanh(chx.linear(x, w1)), w2)))
        (gx,) = chx.grad([y], [x], enable_double_backprop=True)
        norm = chx.sqrt(chx.sum(gx * gx, axis=1))
        return chx.sum(chx.square(norm - 1)) + y * 0.1

    arrays = [leaf(v) for v in values]
    loss(*arrays).backward()
    eps = 1e-6
    for i, array in enumerate(arrays[1:], 1):
        actual = chx.to_numpy(array.grad)
        for index in np.ndindex(values[i].shape):
            sides = []
            for sign in (1, -1):
                moved = [v.copy() for v in values]
                moved[i][index] += sign * eps
                sides.append(float(loss(*map(leaf, moved))))
            assert actual[index] == pytest.approx((sides[0] - sides[1]) / (2 * eps), rel=1e-4)


def test_gradients_of_a_later_backward_without_double_backprop_are_free():
    x = leaf([2.0])
    (x * x).backward(enable_double_backprop=True)
    assert x.grad.is_backprop_required()
    with pytest.raises(chx.ChainerxError, match="In-place"):
        x.grad += 1
    (x * 3).backward()
    assert x.grad.tolist() == [7.0] and not x.grad.is_backprop_required()
    x.grad += 1
    assert x.grad.tolist() == [8.0]


def test_other_threads_run_while_one_asks_the_daemon():
    """The question waits for long work, and must not keep the interpreter."""
    x = leaf(np.ones((700, 700)))
    y = x
    for _ in range(4):
        y = chx.dot(y, x) * 1e-3
    (gx,) = chx.grad([y], [x], enable_double_backprop=True)
    ticks, done = [], threading.Event()

    def tick():
        while not done.wait(0.001):
            ticks.append(1)

    thread = threading.Thread(target=tick)
    thread.start()
    assert gx.is_backprop_required()
    done.set()
    thread.join()
    assert len(ticks) > 5


def test_unchain():
    x = leaf([2.0])
    y = x * 3
    z = y * y
    assert z._is_chained() and y._is_chained() and not x._is_chained()
    assert not chx.zeros(1)._is_chained()
    y.unchain()
    assert not y._is_chained() and y.is_backprop_required() and not y.is_grad_required()
    z.backward()
    assert x.grad is None
    y.require_grad()
    z.backward()
    assert y.grad.tolist() == [12.0]


def test_dump(capsys):
    x = leaf([1.0, 2.0])
    y = chx.sum(x * x)
    y._debug_dump_computational_graph()
    text = capsys.readouterr().out
    assert "%0 float64() = sum(%1)\n%1 float64(2,) = multiply(%2, %2)" in text
    assert text.endswith("%2 float64(2,), requires grad\n")
