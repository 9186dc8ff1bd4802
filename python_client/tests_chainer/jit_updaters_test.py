"""Chainer's optimizers and updaters, recorded: equal to Chainer on chx to the last bit."""

import logging

import chainer
import chainer.functions as F
import chainer.links as L
import chx
import numpy as np
import pytest
from chainer import training
from chainer.training import extensions
from chx.chainer import _jit_updaters
from trainers import HOST, floats, log_of, make_trainer

OPTIMIZERS = ["SGD", "MomentumSGD", "Adam", "AMSGrad", "RMSprop", "AdaDelta", "SMORMS3", "MSVAG"]


@pytest.fixture(autouse=True)
def jit_updaters():
    chx.config.jit_updaters = True
    yield
    chx.config.jit_updaters = False


class Net(chainer.Chain):
    def __init__(self, extra=None):
        super().__init__()
        self.extra = extra
        with self.init_scope():
            self.first = L.Linear(5, 6)
            self.norm = L.BatchNormalization(6)
            self.last = L.Linear(6, 3)

    def forward(self, x, t):
        h = F.dropout(F.relu(self.norm(self.first(x))), 0.3)
        loss = F.softmax_cross_entropy(self.last(h), t)
        chainer.report({"loss": loss, "raw": F.sum(h).array}, self)
        return loss if self.extra is None else self.extra(self, loss)


def bits(value):
    return chx.to_numpy(value).tobytes() if isinstance(value, chx.ndarray) else value


def bits_of(model):
    values = [(name, p.array) for name, p in sorted(model.namedparams())]
    for path, link in sorted(model.namedlinks()):
        values += [(path + name, link.__dict__[name]) for name in sorted(link._persistent)]
    return [(n, bits(v)) for n, v in values]


def start(device, optimizer="Adam", extra=None, size=32, **kwargs):
    """A trainer over a net with state, whose numbers are the same each time."""
    rng = np.random.RandomState(1)
    data = chainer.datasets.TupleDataset(
        rng.normal(size=(size, 5)).astype("f"), rng.randint(0, 3, size).astype("i")
    )
    np.random.seed(2)
    chx.random.seed(3)
    model = Net(extra).to_device(device)
    optimizer = getattr(chainer.optimizers, optimizer)().setup(model)
    optimizer.add_hook(chainer.optimizer_hooks.WeightDecay(1e-3))
    batches = chainer.iterators.SerialIterator(data, 8, shuffle=False)
    updater = training.updaters.StandardUpdater(batches, optimizer, device=device, **kwargs)
    return updater, optimizer, model


def run(jitted, device, steps=10, between=None, **kwargs):
    """What `steps` iterations leave: parameters, states, and what was reported in each."""
    chx.config.jit_updaters = jitted
    updater, optimizer, model = start(device, **kwargs)
    current = chainer.Reporter()
    current.add_observer("main", model)
    seen = []
    for i in range(steps):
        observation = {}
        with current.scope(observation):
            updater.update()
        seen.append(
            {k: (type(v).__name__, bits(getattr(v, "array", v))) for k, v in observation.items()}
        )
        if between is not None:
            between(i, optimizer, model)
    states = [
        sorted((k, bits(v)) for k, v in (p.update_rule.state or {}).items())
        for _, p in sorted(model.namedparams())
    ]
    counts = [optimizer.t, *(p.update_rule.t for _, p in sorted(model.namedparams()))]
    return (bits_of(model), states, counts, seen, optimizer.epoch), _jit_updaters._steps.get(
        updater
    )


def assert_equal(device, misses=1, planned=True, **kwargs):
    plain, _ = run(False, device, **kwargs)
    jitted, step = run(True, device, **kwargs)
    assert jitted == plain
    info = step._jitted.cache_info()
    assert not step._refused
    assert (info.misses, info.unplanned == ()) == (misses, planned)
    assert info.hits + info.misses == len(plain[3])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_updaters_are_equal_to_those_of_eager_mode(device, caplog, optimizer):
    def between(i, optimizer, model):
        if "lr" in vars(optimizer.hyperparam):
            optimizer.lr *= 0.9
        optimizer._hookable._pre_update_hooks["WeightDecay"].rate *= 1.5

    with caplog.at_level(logging.WARNING, "chx"):
        assert_equal(device, optimizer=optimizer, between=between)
    assert caplog.records == []


def test_batches_of_other_sizes_are_recorded_anew(device):
    def converter(batch, device, seen=[]):  # noqa: B006
        seen.append(len(batch))
        return chainer.dataset.concat_examples(batch[len(seen) % 2 :], device)

    assert_equal(device, steps=12, misses=2, converter=converter)


def test_what_changes_between_iterations_counts(device):
    def between(i, optimizer, model):
        if i == 2:
            model.first.disable_update()
        elif i == 4:
            model.first.enable_update()
        elif i == 5:
            model.last.W.array = model.last.W.array * 2
        elif i == 7:
            optimizer.remove_hook("WeightDecay")

    assert_equal(device, steps=10, between=between, misses=5)


def test_numbers_of_the_optimizer_and_the_configuration_count(device, monkeypatch):
    def between(i, optimizer, model):
        if i in (2, 5):
            optimizer.set_loss_scale(float(3 + i))
        chainer.config.jit_updaters_test = 2.0 if i == 7 else 1.0

    def times_setting(net, loss):
        return loss * getattr(chainer.config, "jit_updaters_test", 1.0)

    monkeypatch.setattr(chainer.config, "jit_updaters_test", 1.0, raising=False)
    # Gradients that were scaled are run by the commands.
    assert_equal(device, extra=times_setting, between=between, misses=4, planned=False)


def test_rules_that_part_are_recorded_again(device, caplog):
    def between(i, optimizer, model):
        if i in (2, 3):
            model.first.W.update_rule.hyperparam.alpha = 0.01 * i

    plain, _ = run(False, device, between=between)
    with caplog.at_level(logging.WARNING, "chx"):
        jitted, step = run(True, device, between=between)
    assert jitted == plain and caplog.records == []
    assert step._jitted.cache_info()[:2] == (6, 1)  # since it was cleared


@pytest.mark.parametrize("name", ["SGD", "MomentumSGD", "Adam"])
def test_trainers_are_those_of_numpy(device, tmp_path, name):
    logs, weights = [], []
    for place in (HOST, device):
        trainer, optimizer, model, _ = make_trainer(
            place, tmp_path / place.name.strip("@"), 3, name
        )
        trainer.extend(extensions.LogReport(trigger=(1, "iteration")))
        trainer.extend(extensions.observe_lr())
        trainer.extend(
            extensions.ExponentialShift("alpha" if name == "Adam" else "lr", 0.9),
            trigger=(1, "iteration"),
        )
        trainer.run()
        logs.append([floats(entry) for entry in log_of(trainer)])
        model.to_device(HOST)
        weights.append([p.array for _, p in sorted(model.namedparams())])
    info = _jit_updaters._steps[trainer.updater]._jitted.cache_info()
    assert (info.hits, info.misses) == (11, 1)
    assert len(logs[0]) == len(logs[1]) == 12
    for expected, actual in zip(*logs, strict=True):
        assert expected.keys() == actual.keys()
        for key, value in expected.items():
            assert actual[key] == pytest.approx(value, rel=1e-4, abs=1e-5), key
    for expected, actual in zip(*weights, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def reads(net, loss):
    return loss * (1 if float(loss.array) > 0 else 2)


def reports_a_number(net, loss):
    chainer.report({"number": 3.0}, net)
    return loss


def reads_in_a_hook(rule, param):
    assert float(chx.to_numpy(abs(param.grad).sum())) >= 0


@pytest.mark.parametrize(
    ("kwargs", "reason"),
    [
        ({"extra": reads}, "waits for a value"),
        ({"extra": reports_a_number}, "report of 'main/number'"),
    ],
)
def test_what_cannot_be_recorded_runs_as_ever(device, caplog, kwargs, reason):
    plain, _ = run(False, device, **kwargs)
    with caplog.at_level(logging.WARNING, "chx"):
        jitted, step = run(True, device, **kwargs)
    assert jitted == plain
    assert step._refused
    (record,) = caplog.records
    assert reason in record.getMessage() and "jit_updaters" in record.getMessage()


def test_a_failure_after_the_update_takes_it_back(device, caplog):
    def add_hook(i, optimizer, model):
        if i == 3:
            model.last.W.update_rule.add_hook(reads_in_a_hook)

    plain, _ = run(False, device, between=add_hook)
    with caplog.at_level(logging.WARNING, "chx"):
        jitted, step = run(True, device, between=add_hook)
    assert jitted == plain and step._refused and len(caplog.records) == 1


def test_rules_of_users_and_parameters_without_a_shape(device, caplog):
    class Rule(chainer.UpdateRule):
        def update_core_cpu(self, param):
            param.array -= np.float32(0.01) * param.grad / self.t

    def run_with_rule(jitted):
        chx.config.jit_updaters = jitted
        chx.config.fallback = "allow"
        updater, optimizer, model = start(device)
        model.last.b.update_rule = Rule()
        for _ in range(4):
            updater.update()
        return bits_of(model)

    plain = run_with_rule(False)
    with caplog.at_level(logging.WARNING, "chx"):
        assert run_with_rule(True) == plain
    assert ["update rule Rule" in r.getMessage() for r in caplog.records] == [True]

    def run_lazily(jitted):
        chx.config.jit_updaters = jitted
        rng = np.random.RandomState(1)
        data = chainer.datasets.TupleDataset(rng.normal(size=(8, 5)).astype("f"), np.ones(8, "i"))
        np.random.seed(2)
        model = L.Classifier(L.Linear(None, 3)).to_device(device)
        optimizer = chainer.optimizers.Adam().setup(model)
        batches = chainer.iterators.SerialIterator(data, 4, shuffle=False)
        updater = training.updaters.StandardUpdater(batches, optimizer, device=device)
        for _ in range(5):
            updater.update()
        return bits_of(model), _jit_updaters._steps.get(updater)

    plain, _ = run_lazily(False)
    jitted, step = run_lazily(True)
    assert jitted == plain and step._jitted.cache_info()[:2] == (3, 1)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers_in_a_recorded_function(device, optimizer):
    """Whose first step makes the states."""
    found = []
    for wrap in (lambda f: f, chx.jit):
        _, opt, model = start(device, optimizer)

        def step(x, t, opt=opt, model=model):
            opt.update(model, x, t)

        step = wrap(step)
        rng = np.random.RandomState(4)
        for i in range(7):
            x = device.send(rng.normal(size=(4, 5)).astype("f"))
            step(x, device.send(rng.randint(0, 3, 4).astype("i")))
            if i == 3 and "lr" in vars(opt.hyperparam):
                opt.lr *= 0.5
        if wrap is chx.jit:
            x, t = device.send(np.ones((4, 5), "f")), device.send(np.zeros(4, "i"))
            step.repeat(3, x, t)
            assert step.cache_info()[:2] == (7, 1)
        else:
            for _ in range(3):
                step(device.send(np.ones((4, 5), "f")), device.send(np.zeros(4, "i")))
        found.append((bits_of(model), opt.t, model.last.W.update_rule.t))
    assert found[0] == found[1]


def test_rules_that_part_are_an_error(device):
    _, optimizer, model = start(device, "SGD")
    step = chx.jit(lambda x, t: optimizer.update(model, x, t))
    x, t = device.send(np.ones((4, 5), "f")), device.send(np.zeros(4, "i"))
    step(x, t)
    model.last.W.update_rule.hyperparam.lr = 0.5
    with pytest.raises(chx.NotImplementedError, match="hyperparameters that differ"):
        step(x, t)


def test_the_setting():
    with pytest.raises(TypeError, match="jit_updaters"):
        chx.config.jit_updaters = "yes"
    assert "jit_updaters=True" in repr(chx.config)
