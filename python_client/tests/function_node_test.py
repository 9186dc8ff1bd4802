"""Functions of the client in the daemon's graphs, as Chainer's function nodes use them."""

import gc
import threading
import weakref

import chx
import numpy as np
import pytest
from chx.chainerx import _core


def to_host(array):
    return None if array is None else chx.to_numpy(array)


class Node:
    """y = x ** 2 * w, with retained inputs and output."""

    def __init__(self, retained_outputs=()):
        self.retained_outputs = list(retained_outputs)
        self.calls = []

    def apply(self, *inputs):
        outputs = [chx.array(y) for y in self.forward(*map(to_host, inputs))]
        _core._function_node_forward(
            self, inputs, outputs, range(len(inputs)), self.retained_outputs
        )
        return outputs if len(outputs) > 1 else outputs[0]

    def forward(self, x, w):
        return [x**2 * w]

    def _backward_chainerx(self, targets, grads, inputs, outputs):
        self.calls.append((targets, *(list(map(to_host, a)) for a in (grads, inputs, outputs))))
        x, w = inputs
        return [(2 * grads[0] * x * w, grads[0] * x * x)[i] for i in targets]


def leaf(values):
    return chx.array(np.asarray(values, dtype=np.float64)).require_grad()


def test_gradients_come_from_the_function():
    x, w = leaf([1.0, 2.0, 3.0]), leaf([4.0, 5.0, 6.0])
    node = Node(retained_outputs=[0])
    y = node.apply(x, w)
    assert y.is_backprop_required()
    (y * 10).sum().backward()
    np.testing.assert_array_equal(chx.to_numpy(x.grad), [80, 200, 360])
    np.testing.assert_array_equal(chx.to_numpy(w.grad), [10, 40, 90])
    ((targets, grads, inputs, outputs),) = node.calls
    assert targets == [0, 1]
    np.testing.assert_array_equal(grads[0], [10, 10, 10])
    np.testing.assert_array_equal(inputs[0], [1, 2, 3])
    np.testing.assert_array_equal(outputs[0], [4, 20, 54])


def test_only_wanted_gradients_are_asked_for():
    x, w = leaf([1.0, 2.0]), chx.array([3.0, 4.0])
    node = Node()
    node.apply(x, w).sum().backward()
    assert node.calls[0][0] == [0]
    x2, w2 = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (gw,) = chx.grad([node.apply(x2, w2)], [w2])
    assert node.calls[1][0] == [1]
    np.testing.assert_array_equal(chx.to_numpy(gw), [1, 4])
    assert x2.grad is None


class Twice(Node):
    """y = 2 x, which reads no value."""

    def apply(self, x):
        y = x.as_grad_stopped() * 2
        _core._function_node_forward(self, [x], [y], [], [])
        return y

    def _backward_chainerx(self, targets, grads, inputs, outputs):
        return [2 * grads[0] for _ in targets]


@pytest.mark.parametrize("differentiates", ["backward", "grad", "outside"])
def test_a_recording_refuses_it_and_leaves_nothing_behind(differentiates):
    w, x = chx.ones(3).require_grad(), chx.ones(3)
    session = x.device.backend._session
    session.take_errors()
    outside = chx.sum(Twice().apply(w) * 3)

    @chx.jit
    def step(x):
        loss = outside if differentiates == "outside" else chx.sum(Twice().apply(w) * x)
        if differentiates == "backward":
            loss.backward()
            return w.grad
        return chx.grad([loss], [w])[0]

    with pytest.raises(chx.NotImplementedError, match="may call a function of the client"):
        step(x)
    assert chx.to_numpy(x + 1).tolist() == [2, 2, 2]
    assert session.take_errors() == []
    assert w.grad is None
    chx.sum(Twice().apply(w) * x).backward()
    assert chx.to_numpy(w.grad).tolist() == [2, 2, 2]
    assert chx.jit(lambda x: x + 1)(x).tolist() == [2, 2, 2]


def test_double_backprop_is_the_function_s_own_operators():
    x, w = leaf([1.5, -2.0]), leaf([3.0, 0.5])
    node = Node()
    (gx,) = chx.grad([node.apply(x, w)], [x], enable_double_backprop=True)  # 2 x w
    assert gx.is_backprop_required()
    (gxx, gxw) = chx.grad([gx], [x, w])
    np.testing.assert_allclose(chx.to_numpy(gxx), [6, 1])
    np.testing.assert_allclose(chx.to_numpy(gxw), [3, -4])


def test_check_double_backward_of_a_function():
    rng = np.random.default_rng(5)
    x, w, g, ggx, ggw = (chx.array(rng.uniform(0.5, 2, (2, 3))) for _ in range(5))
    eps = [chx.full((2, 3), 1e-4, chx.float64) for _ in range(3)]
    for array in (x, w, g):
        array.require_grad()
    chx.check_double_backward(
        lambda inputs: [Node().apply(*inputs)], [x, w], [g], [ggx, ggw], eps, atol=1e-5, rtol=1e-4
    )


def test_no_graph_is_recorded_inside_of_an_ordinary_walk():
    x, w = leaf([1.0]), leaf([2.0])

    class Curious(Node):
        def _backward_chainerx(self, targets, grads, inputs, outputs):
            self.required = [a.is_backprop_required() for a in [*grads, *inputs]]
            result = super()._backward_chainerx(targets, grads, inputs, outputs)
            self.made = [a.is_backprop_required() for a in result]
            return result

    node = Curious()
    node.apply(x, w).backward()
    assert node.required == [False] * 3
    assert node.made == [False] * 2
    node.apply(x, w).backward(enable_double_backprop=True)
    assert node.required == [False, True, True]
    assert node.made == [True, True]


class Boom(Exception):
    pass


def test_an_exception_comes_out_unchanged_and_nothing_has_happened():
    x, w = leaf([1.0]), leaf([2.0])
    error = Boom("as it was")

    class Failing(Node):
        def _backward_chainerx(self, *args):
            raise error

    y = Failing().apply(x, w)
    for _ in range(2):
        with pytest.raises(Boom) as caught:
            (y * 2).backward()
        assert caught.value is error
        assert any(entry.name == "_backward_chainerx" for entry in caught.traceback)
        with pytest.raises(Boom):
            chx.grad([y], [x])
    assert x.grad is None
    assert float(x + w) == 3
    Node().apply(x, w).backward()
    assert float(x.grad) == 4


def test_wrong_gradients_are_refused():
    x, w = leaf([1.0, 2.0]), leaf([2.0, 3.0])

    def walk(result):
        class Wrong(Node):
            def _backward_chainerx(self, *args):
                return result

        Wrong().apply(x, w).sum().backward()

    with pytest.raises(chx.GradientError, match="expects 2 gradients from a function, got 1"):
        walk([x])
    with pytest.raises(chx.GradientError, match=r"a gradient of float64\(2,\) for input 1"):
        walk([x, chx.ones((3,))])
    with pytest.raises(TypeError, match="must be arrays or None, not str"):
        walk([x, "w"])
    with pytest.raises(TypeError):
        walk(None)
    assert x.grad is None


def test_none_inputs_outputs_and_gradients_keep_their_places():
    class Sparse(Node):
        def forward(self, a, b, c):
            return [a * 2, c * 3]

        def _backward_chainerx(self, targets, grads, inputs, outputs):
            self.calls.append((targets, list(map(to_host, grads)), list(map(to_host, inputs))))
            return [None if i == 2 else grads[0] * 2 for i in targets]

    a, c = leaf([1.0]), leaf([5.0])
    node = Sparse()
    y0, _ = node.apply(a, None, c)
    y0.backward()
    targets, grads, inputs = node.calls[0]
    assert targets == [0, 2]
    assert grads[1] is None and inputs[1] is None
    assert float(a.grad) == 2
    assert c.grad is None


def test_outputs_in_a_graph_are_refused():
    x = leaf([1.0])
    with pytest.raises(chx.ChainerxError, match="outputs that are in no graph"):
        _core._function_node_forward(Node(), [x], [x * 2], [], [])
    with pytest.raises(ValueError, match="retain arrays from 0 to 0, got 1"):
        _core._function_node_forward(Node(), [x], [chx.ones((1,))], [1], [])


def test_walks_inside_of_walks():
    x, w = leaf([2.0]), leaf([3.0])

    class Nested(Node):
        def _backward_chainerx(self, targets, grads, inputs, outputs):
            with chx.force_backprop_mode():
                z = leaf([7.0])
                Node().apply(z, leaf([1.0])).backward()
                assert float(z.grad) == 14
                (again,) = chx.grad([chx.square(z)], [z])
                assert float(again) == 14
            return super()._backward_chainerx(targets, grads, inputs, outputs)

    Nested().apply(x, w).backward()
    assert float(x.grad) == 12


def test_functions_of_functions_and_both_graphs():
    x, w = leaf([2.0]), leaf([3.0])
    y = Node().apply(Node().apply(x, w), w)  # x^4 w^3
    y.backward()
    assert float(x.grad) == 4 * 8 * 27
    assert float(w.grad) == 3 * 16 * 9
    with chx.backprop_scope("inner") as inner:
        z = chx.array([2.0]).astype("float64").require_grad(inner)
        t = Node().apply(z, x)
        (gz,) = chx.grad([t], [z], inner)  # 2 z x, in the graph of x
        (gx,) = chx.grad([gz], [x])
    assert float(gx) == 4


def test_the_function_dies_with_the_graph():
    chx.connect()  # a new session, without double backprop behind it
    x, w = leaf([1.0]), leaf([2.0])
    node = Node(retained_outputs=[0])
    watch = weakref.ref(node)
    y = node.apply(x, w)
    y.backward()
    del node
    gc.collect()
    assert watch() is not None
    del y
    gc.collect()
    assert watch() is None


def test_functions_in_graphs_that_only_the_daemon_knows():
    x, w = leaf([2.0]), leaf([3.0])
    node = Node()
    y = node.apply(x, w)
    (gx,) = chx.grad([y * y], [x], enable_double_backprop=True)  # 4 x^3 w^2
    watch = weakref.ref(node)
    del node, y
    gc.collect()
    (gxx,) = chx.grad([gx], [x])
    assert float(gxx) == 12 * 4 * 9
    assert watch() is not None
    del gx, gxx
    gc.collect()
    float(x)
    float(x)
    assert watch() is None


def test_threads_walk_each_for_themselves():
    failures = []

    def work(seed):
        try:
            for i in range(20):
                x, w = leaf([float(seed)]), leaf([float(i)])
                Node().apply(x, w).backward()
                assert float(x.grad) == 2 * seed * i
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_closed_session_fails_the_walk(beside):
    session = beside
    x = chx.array([1.0], device=session.devices[0]).require_grad()

    class Closing(Node):
        def forward(self, a):
            return [a * 2]

        def _backward_chainerx(self, targets, grads, inputs, outputs):
            session.close()
            return [grads[0]]

    y = chx.array([2.0], device=session.devices[0])
    _core._function_node_forward(Closing(), [x], [y], [], [])
    with pytest.raises(ConnectionError, match="closed"):
        y.backward()
