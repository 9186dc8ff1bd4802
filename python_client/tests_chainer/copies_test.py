"""Copies of links, variables and optimizers on the daemon's arrays train as NumPy's do."""

import copy
import pickle

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest
from chainer import optimizer_hooks, optimizers, training
from chainer.training import updaters

CPU = chainer.get_device("@numpy")
OPTIMIZERS = {
    "SGD": lambda: optimizers.SGD(0.02),
    "MomentumSGD": lambda: optimizers.MomentumSGD(0.02),
    "Adam": lambda: optimizers.Adam(0.05),
}
COPIES = {
    "deepcopy": copy.deepcopy,
    "copy": lambda m: m.copy("copy"),
    "share": lambda m: m.copy(),
    "init": lambda m: m.copy("init"),
    "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    "optimizer": lambda m: copy.deepcopy(optimizers.SGD().setup(m)).target,
    "repeat": lambda m: m.repeat(2, "copy"),
    "repeat share": lambda m: m.repeat(2, "share"),
    "repeat init": lambda m: m.repeat(2, "init"),
}


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.a = L.Linear(3, 4, nobias=True)
            self.norm = L.BatchNormalization(4)
            self.b = L.Linear(None, 3, nobias=True)

    def forward(self, x):
        return self.b(F.tanh(self.norm(self.a(x))))


def host(array):
    return None if array is None else np.array(CPU.send(array))


def values_of(link):
    """Copies of all parameters, as a list of NumPy arrays."""
    return [host(p.array) for _, p in sorted(link.namedparams())]


def arrays(link):
    """Copies of all parameters and gradients, as a list of NumPy arrays."""
    return [host(a) for _, p in sorted(link.namedparams()) for a in (p.array, p.grad)]


def compare(run, device, rtol=1e-6, atol=1e-7):
    """run(device) gives what it gives on NumPy: arrays before, and after, which are others."""
    seed = np.random.randint(2**31)
    results = []
    for place in (CPU, device):
        np.random.seed(seed)
        with chainer.using_device(place), chainer.using_config("dtype", np.dtype(np.float64)):
            results.append(run(place))
    (before, want), (_, got) = results
    assert len(want) == len(got) > 0
    assert any(not np.array_equal(a, b) for a, b in zip(before, want, strict=False))
    for a, b in zip(got, want, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("way", COPIES)
def test_a_copy_learns(rng, device, way, name):
    values = rng.normal(size=(5, 3))

    def run(place):
        model = Net().to_device(place)
        x = place.send(values)
        model(x)
        net = COPIES[way](model)
        optimizer = OPTIMIZERS[name]().setup(net)
        before = arrays(net)
        for _ in range(4):
            optimizer.update(lambda: F.sum(F.square(net(x) - 1)))
        assert all(p.device == place and p.requires_grad for p in net.params())
        return before, arrays(net) + arrays(model)

    compare(run, device)


@pytest.mark.parametrize("way", ["share", "copy", "init"])
def test_gradients_are_a_copy_s_own(rng, device, way):
    values = rng.normal(size=(5, 3))

    def run(place):
        model = L.Linear(3, 2).to_device(place)
        x = place.send(values)
        model.cleargrads()
        before = arrays(model)
        F.sum(model(x)).backward()
        other = model.copy(way)
        found = arrays(model) + (arrays(other) if way != "init" else [])
        other.cleargrads()
        found += arrays(model)
        F.sum(F.square(other(x))).backward()
        found += arrays(model) + arrays(other)
        model.addgrads(other)
        model.cleargrads()
        return before, found + arrays(model) + arrays(other)

    compare(run, device)


def test_a_copied_parameter_has_its_gradient(rng, device):
    values = rng.normal(size=3)

    def run(place):
        p = chainer.Parameter(values.copy(), name="p")
        p.to_device(place)
        before = [host(p.array)]
        F.sum(p * p).backward()
        found = []
        for q in (copy.copy(p), copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
            assert isinstance(q, chainer.Parameter) and q.name == "p" and q.device == place
            found.append(host(q.grad))
            F.sum(q * 3).backward()
            q.array[...] = q.array * 2
            found += [host(a) for a in (q.grad, p.grad, q.array, p.array)]
        return before, found

    compare(run, device)


def test_a_copy_of_an_optimizer_goes_on(rng, device):
    """Its rules' states are copies, too."""
    values = rng.normal(size=(5, 3))

    def run(place):
        model = L.Linear(3, 2).to_device(place)
        optimizer = optimizers.Adam(0.1).setup(model)
        optimizer.add_hook(optimizer_hooks.WeightDecay(0.1))
        x = place.send(values)

        def steps(o, n):
            for _ in range(n):
                o.update(lambda: F.sum(F.square(o.target(x) - 1)))
            states = [s for p in o.target.params() for s in p.update_rule.state.values()]
            return arrays(o.target) + [host(s) for s in states]

        steps(optimizer, 3)
        twins = [copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))]
        before = steps(optimizer, 0)
        found = steps(optimizer, 3)
        for twin in twins:
            assert twin.target.W.update_rule.t == 3
            found += steps(twin, 0) + steps(twin, 3)
        return before, found

    compare(run, device)


@pytest.mark.parametrize("way", ["share", "copy"])
def test_copies_of_half_precision_with_masters(rng, device, way):
    # Of parameters: one bit of x changes gradients by up to 3e-2, and these by up to 1e-3 (700 seeds).
    values = rng.normal(size=(5, 3)).astype(np.float16)

    def run(place):
        with chainer.using_config("dtype", np.dtype(np.float16)):
            base = L.Linear(3, 3).to_device(place)
        model = chainer.ChainList(base, base.copy(way))
        optimizer = optimizers.MomentumSGD(0.01)
        optimizer.use_fp32_update()
        optimizer.setup(model)
        x = place.send(values)
        before = values_of(model)
        for _ in range(3):
            optimizer.update(lambda: F.sum(F.square(model[1](F.tanh(model[0](x))))))
        if way == "copy":  # NumPy's deep copies of shared arrays drift apart when they are rounded
            optimizer = copy.deepcopy(optimizer)
            model = optimizer.target
            optimizer.update(lambda: F.sum(F.square(model[1](F.tanh(model[0](x))))))
        return before, values_of(model)

    compare(run, device, rtol=1e-2, atol=4e-3)


def test_copies_with_a_scaled_loss_and_a_hook_that_watches(rng, device):
    values = rng.normal(size=(5, 3))

    def run(place):
        model = L.Linear(3, 2).to_device(place)
        pair = chainer.ChainList(model, model.copy())
        optimizer = optimizers.MomentumSGD(0.02).setup(pair)
        optimizer.loss_scaling(scale=8.0)
        x = place.send(values)
        before = arrays(pair)

        def loss():
            return F.sum(F.square(model(x))) + 2 * F.sum(pair[1](x))

        optimizer.update(loss)
        with chainer.function_hooks.TimerHook() as hook:
            optimizer.update(loss)
        assert len(hook.call_history) > 4
        return before, arrays(pair)

    compare(run, device)


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_array_in_two_links_is_stepped_twice(rng, device, name, copied):
    values = rng.normal(size=(5, 3))

    def run(place):
        base = L.Linear(3, 3).to_device(place)
        model = chainer.ChainList(base, L.Linear(3, 3), base.copy(), base.copy()).to_device(place)
        if copied:
            model = copy.deepcopy(model)
        optimizer = OPTIMIZERS[name]().setup(model)
        optimizer.add_hook(optimizer_hooks.WeightDecay(0.01))
        optimizer.add_hook(optimizer_hooks.GradientClipping(3.0))
        x = place.send(values)
        before = arrays(model)

        def loss():
            h = x
            for link in model:
                h = F.tanh(link(h))
            return F.sum(F.square(h - 1))

        for _ in range(4):
            optimizer.update(loss)
        assert model[0].W.array is model[2].W.array is model[3].W.array
        assert model[0].W.array is not model[1].W.array
        return before, arrays(model)

    compare(run, device)


@pytest.mark.parametrize("second", [None, "native:1"])
def test_parallel_updater(rng, device, second):
    """Both copies of the model on one device, or on two."""
    data = rng.normal(size=(24, 3))
    labels = rng.integers(0, 3, 24).astype("i")

    def run(place):
        other = place if place is CPU else chainer.get_device(second or device)
        model = L.Classifier(L.Linear(3, 3)).to_device(place)
        optimizer = optimizers.MomentumSGD(0.2).setup(model)
        before = arrays(model)
        iterator = chainer.iterators.SerialIterator(
            chainer.datasets.TupleDataset(data, labels), 8, shuffle=False
        )
        updater = updaters.ParallelUpdater(iterator, optimizer, devices={"main": place, "b": other})
        trainer = training.Trainer(updater, (3, "iteration"))
        trainer.run()
        return before, [host(p.array) for _, p in sorted(model.namedparams())]

    compare(run, device)


def test_a_shape_that_comes_later_is_shared(rng, device):
    values = rng.normal(size=(5, 3))

    def run(place):
        model = L.Linear(None, 2).to_device(place)
        twin = model.copy()
        last = twin.copy()
        x = place.send(values)
        before = [host(last(x).array)]
        assert model.W.array is twin.W.array is last.W.array
        optimizer = optimizers.SGD(0.1).setup(model)
        optimizer.update(lambda: F.sum(model(x)))
        model.W.array = model.W.array * 2
        assert model.W.array is twin.W.array is last.W.array
        twin.cleargrads()
        F.sum(twin(x)).backward()
        return before, [host(twin(x).array), host(twin.W.grad), host(last(x).array)]

    compare(run, device)


def test_moving_a_copy_ends_the_sharing(device):
    model = L.Linear(3, 2).to_device(device)
    model.cleargrads()
    w = host(model.W.array)
    local, moved, again = model.copy(), model.copy(), model.copy()
    local.to_device(CPU)
    moved.to_device("native:1")
    again.to_device("native:1").to_device(device)
    for link in (local, moved, again):
        link.W.array = link.W.array * 2
        np.testing.assert_array_equal(host(link.W.array), w * 2)
        assert link.W.array is not model.W.array
        link.W.array[...] = 5.0  # that of the former link, too, if it were still the same
        link.cleargrads()
        F.sum(link(link.device.send(np.ones((1, 3), "f")))).backward()
        np.testing.assert_array_equal(host(link.W.grad), 1.0)
        assert model.W.grad is None
    np.testing.assert_array_equal(host(model.W.array), w)


def test_variables_that_require_no_gradient_keep_it_so(device):
    v = chainer.Variable(device.send(np.ones(3, "f")), requires_grad=False)
    p = chainer.Parameter(device.send(np.ones(3, "f")))
    p._requires_grad = False
    p.array = p.array * 2
    for x in (v, p):
        for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
            assert not y.requires_grad and not y.chx_array.is_backprop_required()
            np.testing.assert_array_equal(host(y.array), host(x.array))
            w = chainer.Variable(y.array)
            F.sum(y * w).backward()
            assert y.grad is None and w.grad is not None


def test_copies_are_saved_and_loaded(rng, device, tmp_path):
    values = rng.normal(size=(5, 3)).astype("f")
    model = L.Linear(3, 3).to_device(device)
    twin = model.copy()
    pair = chainer.ChainList(model, twin)
    chainer.serializers.save_npz(tmp_path / "m.npz", pair)
    optimizer = optimizers.SGD(0.5).setup(twin)
    x = device.send(values)
    w = host(model.W.array)
    optimizer.update(lambda: F.sum(twin(x)))
    assert not np.array_equal(host(model.W.array), w)
    chainer.serializers.load_npz(tmp_path / "m.npz", pair)
    np.testing.assert_array_equal(host(model.W.array), w)
    np.testing.assert_array_equal(host(twin.W.array), w)
