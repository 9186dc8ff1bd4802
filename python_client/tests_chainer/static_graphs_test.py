"""chainer.static_graph on a daemon's device: recorded, and equal to what is written."""

import gc
import logging
import weakref

import chainer
import chainer.functions as F
import chainer.links as L
import chx
import numpy as np
import pytest
from chainer.graph_optimizations import static_code


def bits(y):
    return chx.to_numpy(y.array if isinstance(y, chainer.Variable) else y).tobytes()


def make(device, body, decorate=True, **norm):
    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            self.calls = 0
            with self.init_scope():
                self.first = L.Linear(5, 6)
                self.norm = L.BatchNormalization(6, **norm)

        def forward(self, *args, **kwargs):
            self.calls += 1
            return body(self, *args, **kwargs)

        forward = chainer.static_graph(forward) if decorate else forward

    np.random.seed(1)
    return Net().to_device(device)


def outputs(net, x):
    h = F.tanh(net.norm(net.first(x)))
    return h, [F.sum(h, axis=1), {"x": x}]


def test_test_mode_is_recorded(device):
    nets = [make(device, outputs, decorate) for decorate in (False, True)]
    rng = np.random.RandomState(2)
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        for i, rows in enumerate((4, 4, 4, 2, 4, 4, 4)):
            x = rng.normal(size=(rows, 5)).astype("f")
            found = []
            for net in nets:
                h, (sums, rest) = net(chainer.Variable(device.send(x)))
                found.append((bits(h), bits(sums), bits(rest["x"])))
                assert not h.requires_grad and isinstance(sums, chainer.Variable)
                if i == 2:  # in place, and by another array
                    W = net.first.W.array
                    W *= 2
                if i == 5:
                    net.norm.avg_mean = net.norm.avg_mean + 1
            assert found[0] == found[1]
    assert nets[0].calls == 7
    assert nets[1].calls == 3  # two shapes, and the other array


def train(net, device, steps=6):
    """Losses, and all that training has changed."""
    optimizer = chainer.optimizers.Adam().setup(net)
    chx.random.seed(3)
    rng = np.random.RandomState(4)
    losses = []
    for i in range(steps):
        x = device.send(rng.normal(size=(3 if i == 4 else 7, 5)).astype("f"))
        net.cleargrads()
        # Two calls, of which the first one's results are still needed.
        y, z = net(x)[0], net(x * 2)[0]
        loss = F.sum(y * z) + F.mean(y)
        loss.backward()
        optimizer.update()
        losses.append(bits(loss))
    arrays = [p.array for _, p in sorted(net.namedparams())]
    arrays += [p.grad for _, p in sorted(net.namedparams())]
    return losses, [bits(a) for a in arrays], bits(net.norm.avg_mean), bits(net.norm.avg_var)


def drops(net, x):
    h = F.dropout(F.tanh(net.norm(net.first(x))), 0.4)
    return h, x


def test_training_is_recorded(device):
    for body in (outputs, drops):
        nets = [make(device, body, decorate) for decorate in (False, True)]
        assert train(nets[0], device) == train(nets[1], device)
        assert nets[0].calls == 12 and nets[1].calls == 2  # one for each size of batches


def test_what_is_done_with_gradients(device):
    """Gradients of gradients, of some parameters only, and of inputs."""
    found = []
    for decorate in (False, True):
        net = make(device, outputs, decorate)
        seen = []
        for i in range(4):
            x = chainer.Variable(device.send(np.full((3, 5), i, "f")), requires_grad=i == 3)
            y = F.sum(net(x)[0] ** 2)
            W, b = net.first.W, net.first.b
            (gW,) = chainer.grad([y], [W], enable_double_backprop=True)
            (gb,) = chainer.grad([F.sum(gW**2)], [b])
            net.cleargrads()
            y.backward()
            seen += [bits(y), bits(gW), bits(gb), bits(W.grad), None if i < 3 else bits(x.grad)]
            if i == 1:
                W.array = W.array * 0.5
        found.append(seen)
    assert found[0] == found[1]


class MLP(chainer.Chain):
    """Of Chainer's example for static graphs, but smaller."""

    def __init__(self, static):
        super().__init__()
        self.static = static
        with self.init_scope():
            self.l1 = L.Linear(20, 30)
            self.l2 = L.Linear(30, 30)
            self.l3 = L.Linear(30, 10)

    def written(self, x):
        return self.l3(F.relu(self.l2(F.relu(self.l1(x)))))

    recorded = chainer.static_graph(written)

    def forward(self, x):
        return self.recorded(x) if self.static else self.written(x)


def classify(device, static):
    np.random.seed(5)
    model = L.Classifier(MLP(static)).to_device(device)
    optimizer = chainer.optimizers.MomentumSGD(0.1).setup(model)
    rng = np.random.RandomState(6)
    losses = []
    for _ in range(20):
        x = rng.uniform(size=(16, 20)).astype("f")
        t = (x[:, :10].argmax(axis=1)).astype("i")
        optimizer.update(model, device.send(x), device.send(t))
        losses.append(chainer.get_device("@numpy").send(chainer.as_array(model.loss)).item())
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            model(device.send(x), device.send(t))
    cpu = model.copy().to_device("@numpy")
    return losses, [p.array for _, p in sorted(cpu.namedparams())]


def test_the_example_is_that_of_numpy(device):
    static, written = classify(device, True), classify(device, False)
    assert static[0] == written[0]
    for a, b in zip(static[1], written[1]):
        np.testing.assert_array_equal(a, b)
    losses, params = classify(chainer.get_device("@numpy"), False)
    np.testing.assert_allclose(static[0], losses, rtol=1e-4)
    for a, b in zip(static[1], params):
        np.testing.assert_allclose(a, b, atol=1e-4)


def counts(net, x):
    net.norm.avg_mean += 1
    return reads(net, net.norm(net.first(x)))


def test_training_that_cannot_be_recorded_is_as_it_is_written(device, caplog):
    nets = [make(device, counts, decorate) for decorate in (False, True)]
    x = device.send(np.arange(10, dtype="f").reshape(2, 5))
    with caplog.at_level(logging.WARNING, "chx"):
        found = [[bits(net(x)) for _ in range(3)] + [bits(net.norm.avg_mean)] for net in nets]
    assert found[0] == found[1]
    (record,) = caplog.records
    assert "forward of Net is not recorded" in record.getMessage()


def reads(net, x):
    return x * float(chx.to_numpy(F.sum(x).array))


def test_what_cannot_be_recorded_runs_as_it_is_written(device, caplog):
    net = make(device, reads)
    x = device.send(np.ones((2, 5), "f"))
    test_mode = chainer.using_config("train", False)
    with caplog.at_level(logging.WARNING, "chx"), test_mode, chainer.no_backprop_mode():
        for _ in range(3):
            assert chx.to_numpy(net(x=x)).tolist() == [[10] * 5] * 2
    (record,) = caplog.records
    assert "forward of Net is not recorded" in record.getMessage()


def test_a_chain_is_freed_with_its_recordings(device):
    net = make(device, outputs)
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        for _ in range(2):
            net(device.send(np.ones((2, 5), "f")))
    ref = weakref.ref(net)
    del net
    gc.collect()
    assert ref() is None


class Counting(chainer.Chain):
    def __init__(self):
        super().__init__()
        self.counts, self.calls = 0, 0
        with self.init_scope():
            self.first = L.Linear(5, 6)
            self.norm = L.BatchNormalization(6)

    @static_code
    def count(self, by):
        self.counts += by

    def written(self, x):
        self.calls += 1
        self.count(3)
        return outputs(self, x)[0]

    recorded = chainer.static_graph(written)


def test_static_code_is_called_in_each_iteration(device, caplog):
    """In training, in test mode, and in a function of chx.jit, which cannot call it."""
    np.random.seed(1)
    nets = [Counting().to_device(device)]
    nets.append(nets[0].copy("copy"))
    x = device.send(np.random.normal(size=(4, 5)).astype("f"))
    found = []
    with caplog.at_level(logging.WARNING, "chx"):
        for net, call in zip(nets, (Counting.written, Counting.recorded)):
            seen = []
            for _ in range(3):
                net.cleargrads()
                y = call(net, x)
                F.sum(y * y).backward()
                seen += [bits(y), bits(net.first.W.grad), bits(net.norm.avg_mean)]
            with chainer.using_config("train", False), chainer.no_backprop_mode():
                seen += [bits(call(net, x)) for _ in range(3)]
            found.append(seen)
    assert found[0] == found[1]
    assert nets[0].counts == nets[1].counts == 18
    # Once for each mode, and it says why.
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert all("cannot record static_code: Counting.count is called" in m for m in messages)
    with pytest.raises(chx.NotImplementedError, match="static_code: Counting.count"):
        chx.jit(lambda x: nets[1].recorded(x).array)(x)


def test_static_code_of_chainer_is_recorded(device):
    """Batch normalization without gamma and beta makes them by such functions."""
    without = {"use_gamma": False, "use_beta": False}
    nets = [make(device, outputs, decorate, **without) for decorate in (False, True)]
    x = device.send(np.random.normal(size=(4, 5)).astype("f"))
    found = [[bits(net(x)[0]) for _ in range(3)] for net in nets]
    assert found[0] == found[1]
    assert [net.calls for net in nets] == [3, 1]


def test_modes_have_recordings_of_their_own(device):
    nets = [make(device, drops, decorate) for decorate in (False, True)]
    x = device.send(np.random.normal(size=(4, 5)).astype("f"))
    found = []
    for net in nets:
        chx.random.seed(7)
        seen = []
        for train, backprop in [(True, True), (False, False), (False, True), (True, False)] * 3:
            with (
                chainer.using_config("train", train),
                chainer.using_config("enable_backprop", backprop),
            ):
                seen.append(bits(net(x)[0]))
        found.append(seen)
    assert found[0] == found[1]
    assert [net.calls for net in nets] == [12, 4]


def test_static_graphs_can_be_turned_off(device):
    """By the configuration, and in test mode by the decorator."""
    net = make(device, outputs)
    x = device.send(np.ones((4, 5), "f"))
    with chainer.using_config("use_static_graph", False):
        for _ in range(3):
            net(x)
    assert net.calls == 3

    class Tested(MLP):
        calls = 0

        @chainer.static_graph(force_test_define_by_run=True)
        def forward(self, x):
            self.calls += 1
            return self.written(x)

    net = Tested(static=False).to_device(device)
    x = device.send(np.ones((4, 20), "f"))
    for train, calls in ((True, 1), (False, 4), (True, 4)):
        with chainer.using_config("train", train):
            for _ in range(3):
                net(x)
        assert net.calls == calls


def test_end_forward_may_be_called(device):
    """As training without a backward pass has to with Chainer's own."""
    net = make(device, outputs)
    for _ in range(3):
        net(device.send(np.ones((4, 5), "f")))
        net.schedule_manager.end_forward()
    assert net.calls == 1


class Nested(chainer.Chain):
    def __init__(self):
        super().__init__()
        self.calls = 0
        with self.init_scope():
            self.inner = MLP(static=True)

    @chainer.static_graph
    def forward(self, x):
        self.calls += 1
        return F.relu(self.inner(x))


def test_nested_ones_are_a_part_of_the_outer(device):
    """Chainer's own refuse that."""
    net = Nested().to_device(device)
    x = device.send(np.random.normal(size=(4, 20)).astype("f"))
    found = []
    for _ in range(3):
        net.cleargrads()
        y = net(x)
        F.sum(y).backward()
        found.append((bits(y), bits(net.inner.l1.W.grad)))
    assert net.calls == 1
    want = F.relu(net.inner.written(x))
    net.cleargrads()
    F.sum(want).backward()
    assert set(found) == {(bits(want), bits(net.inner.l1.W.grad))}
