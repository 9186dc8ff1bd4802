"""Chainer's variables and graphs on a daemon's arrays, as on NumPy's."""

import copy
import gc
import re
import weakref

import chainer
import chainer.functions as F
import chainer.links as L
import chx
import numpy as np
import pytest
from chainer import computational_graph


class MLP(chainer.Chain):
    def __init__(self, *sizes):
        super().__init__()
        with self.init_scope():
            self.layers = chainer.ChainList(
                *[L.Linear(n, m) for n, m in zip(sizes, sizes[1:], strict=False)]
            )

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


def both(make, rng, device, *shapes, dtype=np.float64):
    """What make() gives of the same variables on NumPy and on the device."""
    values = [rng.uniform(0.5, 1.5, shape).astype(dtype) for shape in shapes]
    return [
        make(*[chainer.Variable(place.send(v.copy())) for v in values])
        for place in (chainer.get_device("@numpy"), device)
    ]


def close(actual, expected, rtol=1e-9):
    if expected is None:
        assert actual is None
        return
    actual = chainer.get_device("@numpy").send(actual)
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol)


def test_a_network_has_numpy_s_gradients(rng, device):
    model = L.Classifier(MLP(20, 30, 5))
    remote = model.copy("copy").to_device(device)
    x = rng.normal(size=(8, 20)).astype("f")
    t = rng.integers(0, 5, 8).astype("i")
    loss, remote_loss = model(x, t), remote(device.send(x), device.send(t))
    model.cleargrads()
    remote.cleargrads()
    loss.backward()
    remote_loss.backward()
    close(remote_loss.array, loss.array, 1e-6)
    close(remote.accuracy.array, model.accuracy.array)
    compared = 0
    for p, q in zip(model.params(), remote.params(), strict=True):
        assert np.abs(p.grad).max() > 0
        close(q.grad, p.grad, 1e-5)
        compared += 1
    assert compared == 4
    assert remote_loss.grad is None


def test_fallback_device_is_numpy(device):
    assert isinstance(device.fallback_device, chainer.backend.CpuDevice)
    link = L.Linear(3, 2).to_device("native:1")
    assert link.W.device.device.name == "native:1"
    w = chx.to_numpy(link.W.array)
    link.from_chx()
    assert isinstance(link.W.array, np.ndarray) and (link.W.array == w).all()
    link.to_chx()
    assert link.W.device.device.name == "native:0"


def test_gradients_accumulate_and_the_graph_survives(rng, device):
    def run(x):
        y = x * x
        z = F.sum(y * x)
        for _ in range(2):
            z.backward()
        F.sum(y).backward()
        return x.grad, y.grad, z.grad

    for expected, actual in zip(*both(run, rng, device, (3,)), strict=True):
        close(actual, expected)


def test_retain_grad(rng, device):
    def run(x, w):
        y = x * w
        z = F.exp(y)
        loss = F.sum(z * y)
        loss.backward(retain_grad=True)
        first = [v.grad for v in (x, w, y, z, loss)]
        loss.backward(retain_grad=True)
        return first + [v.grad for v in (x, w, y, z, loss)]

    for expected, actual in zip(*both(run, rng, device, (3,), (3,)), strict=True):
        close(actual, expected)


def test_grads_that_are_set(rng, device):
    def run(x, g):
        y = x * 3
        y.grad = g.array
        y.backward()
        with chainer.no_backprop_mode():
            in_mode = x.grad
        return x.grad, in_mode, y.grad

    for expected, actual in zip(*both(run, rng, device, (2, 2), (2, 2)), strict=True):
        close(actual, expected)


def test_chainer_backward_of_several(rng, device):
    def run(x, g, h):
        y, z = x * x, F.exp(x)
        y.grad_var, z.grad_var = g, h
        chainer.backward([y, z])
        return x.grad, y.grad, z.grad

    for expected, actual in zip(*both(run, rng, device, (3,), (3,), (3,)), strict=True):
        close(actual, expected)


def test_higher_derivatives(rng, device):
    def run(x):
        y = x**3
        y.grad = x.xp.ones_like(y.array)
        y.backward(enable_double_backprop=True)
        g = x.grad_var
        x.cleargrad()
        g.grad = x.xp.ones_like(g.array)
        g.backward()
        gx, unreached = chainer.grad([F.sum(y * y)], [x, chainer.Variable(x.array)])
        return g.array, x.grad, gx.array, unreached

    for expected, actual in zip(*both(run, rng, device, (2, 3)), strict=True):
        close(actual, expected)


def test_grad_inputs_set_grad_and_loss_scale(rng, device):
    def run(x, more):
        y = F.sum(x * x)
        (g,) = chainer.grad([y], [x], grad_inputs=[more], set_grad=True)
        before = x.grad
        x.cleargrad()
        y.backward(loss_scale=8)
        return g.array, before, x.grad, np.array(x._loss_scale)

    for expected, actual in zip(*both(run, rng, device, (3,), (3,)), strict=True):
        close(actual, expected)


def test_unchain(rng, device):
    def run(x):
        y = x * 2
        y.unchain()
        z = F.sum(y * y)
        z.backward()
        assert y.creator is None
        return x.grad, y.grad

    (none, expected), (nothing, actual) = both(run, rng, device, (3,))
    assert none is None and nothing is None
    close(actual, expected)


def test_unchain_backward(rng, device):
    def run(x, w):
        h = x * w
        y = h * w
        kept = F.exp(h)
        y.unchain_backward()
        assert h.creator is None and y.creator is None
        F.sum(y * w + kept).backward()
        return x.grad, w.grad, h.grad, y.grad

    for expected, actual in zip(*both(run, rng, device, (3,), (3,)), strict=True):
        close(actual, expected)


def test_truncated_backprop_frees_what_is_behind(device):
    """1,000 steps, of which ten are kept: functions and arrays die as they do on NumPy."""
    cell = L.LSTM(4, 8).to_device(device)
    x = device.send(np.ones((2, 4), "f"))
    watched = weakref.WeakSet()
    counts = []
    loss = 0
    for step in range(1, 1001):
        h = cell(x)
        watched.add(h.creator)
        loss = loss + F.sum(h)
        if step % 10 == 0:
            cell.cleargrads()
            loss.backward()
            loss.unchain_backward()
            loss = 0
            counts.append(len(watched))
    assert max(counts) <= 11
    assert np.isfinite(chx.to_numpy(cell.upward.W.grad)).all()
    del h, cell
    gc.collect()
    assert len(watched) == 0


def test_retain_data_and_nodes(device):
    x = chainer.Variable(device.send(np.ones((2, 3), "f")), name="x")
    y = F.exp(x)
    assert (x.node.label, x.label, x.rank, y.rank) == ("(2, 3), float32", "(2, 3), float32", 0, 1)
    assert x.node is x.node and x.node.get_variable() is x
    assert y.creator is y.creator_node is y.node.creator
    assert type(y.creator).__name__ == "Exp" and y.creator.inputs == (x.node,)
    assert y.node.data is None
    y.retain_data()
    close(y.node.data, np.full((2, 3), np.e, "f"), 1e-6)
    x.name = "renamed"
    assert x.node.name == "renamed"
    with pytest.raises(RuntimeError, match="expects None or the function"):
        x.creator = y.creator
    y.creator = None
    assert y.rank == 1 and y.creator is None and not y._data[0]._is_chained()


def test_addgrad_from_anywhere(rng, device):
    def variables(place):
        a, b = (chainer.Variable(place.send(np.ones(3))) for _ in range(2))
        a.grad, b.grad = place.send(np.full(3, 2.0)), place.send(np.full(3, 5.0))
        return a, b

    host = chainer.get_device("@numpy")
    for target, source in [(device, device), (device, host), (host, device)]:
        a = variables(target)[0]
        a.addgrad(variables(source)[1])
        assert isinstance(a.grad, target.supported_array_types)
        close(a.grad, np.full(3, 7.0))
        a.cleargrad()
        a.addgrad(variables(source)[1])
        close(a.grad, np.full(3, 5.0))


def dot(variable):
    """The dumped graph, with its nodes named by their labels, as a sorted list of edges."""
    text = computational_graph.build_computational_graph([variable]).dump()
    labels = dict(re.findall(r'(\d+) \[label="([^"]*)"', text))
    assert labels
    return sorted((labels[a], labels[b]) for a, b in re.findall(r"(\d+) -> (\d+);", text))


def test_graph_dumps_are_numpy_s(rng, device):
    model = L.Classifier(MLP(5, 7, 7, 3))
    for name, p in model.namedparams():
        p.name = name
    remote = model.copy("copy").to_device(device)
    x, t = rng.normal(size=(2, 5)).astype("f"), np.array([0, 2], "i")
    local = dot(model(chainer.Variable(x, name="x"), t))
    assert len(local) > 15
    assert dot(remote(chainer.Variable(device.send(x), name="x"), device.send(t))) == local


def test_two_backwards_over_one_graph(rng, device):
    """As in a GAN: the generator's loss and the discriminator's share the generator's graph."""
    generator, critic = MLP(4, 8, 6), MLP(6, 5, 1)
    remote_generator, remote_critic = (
        m.copy("copy").to_device(device) for m in (generator, critic)
    )
    z, real = rng.normal(size=(3, 4)).astype("f"), rng.normal(size=(3, 6)).astype("f")

    def run(generator, critic, z, real):
        fake = critic(generator(z))
        loss_critic = F.mean(F.relu(critic(real))) - F.mean(F.relu(fake))
        loss_generator = F.mean(F.exp(-fake))
        grads = []
        for loss, model in ((loss_generator, generator), (loss_critic, critic)):
            generator.cleargrads()
            critic.cleargrads()
            loss.backward()
            grads += [p.grad for p in model.params()]
        return grads

    expected = run(generator, critic, z, real)
    actual = run(remote_generator, remote_critic, device.send(z), device.send(real))
    assert any(np.abs(g).max() > 0 for g in expected[:4])
    for a, b in zip(actual, expected, strict=True):
        close(a, b, 1e-4)


def test_recurrent_networks_are_in_the_graph(rng, device):
    """Cutting a loss cuts the states that it came through, which the next steps start from."""
    network = L.NStepLSTM(1, 3, 4, 0.0).to_device(device)
    xs = [chainer.Variable(device.send(rng.normal(size=(n, 3)).astype("f"))) for n in (3, 2)]
    h, c, ys = network(None, None, xs)
    # The link puts the sequences into order, and the states back.
    makers = dict(dot(h))
    assert {"n_step_lstm", "Permutate"} <= makers.keys()
    loss = F.sum(F.concat(ys, 0)) + F.sum(c)
    loss.backward()
    first = chx.to_numpy(xs[0].grad)
    assert first.any()
    loss.unchain_backward()
    assert c.creator is None
    # h was put into order from a variable that is gone: nothing else can be seen of it.
    assert not h._data[0]._is_chained() and not c._data[0]._is_chained()
    F.sum(network(h, c, xs)[0]).backward()
    again = chainer.Variable(xs[0].array)
    state = [chainer.Variable(v.array) for v in (h, c)]
    F.sum(network(*state, [again, xs[1]])[0]).backward()
    close(xs[0].grad, first + chx.to_numpy(again.grad), 1e-5)


def test_functions_that_are_gone_are_forgotten(device):
    """A variable that is used again and again, and one that is used by many at once."""
    x = chainer.Variable(device.send(np.ones(2, "f")))
    h = F.relu(x)
    for _ in range(1000):
        F.relu(h)
    assert len(h.node._consumers) <= 8
    kept = [F.relu(h) for _ in range(100)]
    for _ in range(1000):
        F.relu(h)
    consumers = {ref() for ref in h.node._consumers}
    assert {y.creator_node for y in kept} <= consumers and len(h.node._consumers) <= 400
    node = h.node
    del h
    node.unchain()
    assert not any(y._data[0]._is_chained() for y in kept)


def test_messages_say_what_was_expected_and_given(device):
    x = device.send(np.ones((2, 3), "f"))
    with pytest.raises(RuntimeError, match="requires_grad=True, got requires_grad=False"):
        chainer.Variable(x, requires_grad=False).grad = x
    with pytest.raises(RuntimeError, match="an array, got one that is not initialized"):
        late = chainer.Parameter()
        late.to_device(device)
        late._set_chainerx_grad(x, False)
    connected = (chainer.Variable(x) * 2).chx_array
    with pytest.raises(ValueError, match=r"got float32\(2, 3\) of a graph and requires_grad=False"):
        chainer.Variable(connected, requires_grad=False)
    y = chainer.Variable(x) * 2
    with pytest.raises(RuntimeError, match="expects None or the function.*, got 'ReLU'"):
        y.creator = F.relu(y).creator


def test_copies_between_devices(rng):
    """Of a model in two parts, each on a device of its own."""
    one, other = (chainer.get_device(name) for name in ("native:0", "native:1"))
    first, second = L.Linear(3, 4).to_device(one), L.Linear(4, 2).to_device(other)
    x = chainer.Variable(one.send(rng.normal(size=(5, 3)).astype("f")))
    h = F.copy(first(x), other)
    assert h.device == other and h.creator.label == "Copy"
    F.sum(F.exp(second(h))).backward()
    local = [link.copy("copy").to_device("@numpy") for link in (first, second)]
    y = chainer.Variable(chx.to_numpy(x.array))
    F.sum(F.exp(local[1](local[0](y)))).backward()
    close(x.grad, y.grad, 1e-5)
    assert first.W.grad.device == one.device and second.W.grad.device == other.device
    with pytest.raises(RuntimeError, match="non-ChainerX"):
        F.copy(h, "@numpy")


def test_copies_have_nodes_of_their_own(rng, device):
    """A copy is a root: gradients stay there."""

    def run(x):
        y = x * 2
        z = copy.copy(y)
        assert z.node is not y.node and z.creator is None
        assert y.creator is not None and z.array is y.array
        F.sum(z * z).backward()
        first = x.grad, y.grad, z.grad
        F.sum(y * y).backward()
        return *first, x.grad, y.grad, z.grad

    for expected, actual in zip(*both(run, rng, device, (3,)), strict=True):
        close(actual, expected)


def test_parameters_without_a_shape_have_nodes_of_their_array(device):
    """A parameter is NumPy's until it is sent, or first used if it had no array yet."""
    link = L.Linear(None, 2).to_device(device)
    y = link(device.send(np.ones((1, 3), "f")))
    assert [x.shape for x in y.creator.inputs] == [(1, 3), (2, 3), (2,)]
    assert y.creator.inputs[1] is link.W.node and link.W.node.name == "W"
    x = chainer.Variable(device.send(np.ones(3, "f")), requires_grad=False)
    assert x.label == "(3), float32"
    x.array = device.send(np.ones((4, 3), "d"))
    assert x.label == "(4, 3), float64"


@pytest.mark.parametrize("arguments", [{}, {"verbosity_level": 0}])
def test_static_graphs_run_as_they_are_written(rng, device, arguments):
    decorate = chainer.static_graph(**arguments) if arguments else chainer.static_graph

    class Static(chainer.Chain):
        def __init__(self, link):
            super().__init__()
            with self.init_scope():
                self.link = link

        @decorate
        def forward(self, x):
            return F.tanh(self.link(x))

    link = L.Linear(3, 2)
    model, plain = Static(link.copy("copy")), link
    model.to_device(device)
    for _ in range(2):
        x = rng.normal(size=(4, 3)).astype("f")
        for m in (model, plain):
            m.cleargrads()
        y, want = model(device.send(x)), F.tanh(plain(x))
        F.sum(y).backward()
        F.sum(want).backward()
        close(y.array, want.array, 1e-5)
        close(model.link.W.grad, plain.W.grad, 1e-4)
