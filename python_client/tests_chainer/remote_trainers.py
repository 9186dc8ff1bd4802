"""Trainers for tests of chx.chainer.remote_trainer."""

import chainer
import chainer.functions as F
import chainer.links as L
import chx
import numpy as np
import pytest
from chainer import training
from chainer.training import triggers
from trainers import floats


def classes(rng, rows, columns=5):
    x = rng.normal(size=(rows, columns)).astype("f")
    return x, (x @ rng.normal(size=(columns, 3))).argmax(1).astype("i")


class Net(chainer.Chain):
    """With state, and random numbers."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.first = L.Linear(None, 6)
            self.norm = L.BatchNormalization(6)
            self.last = L.Linear(6, 3)

    def forward(self, x):
        return self.last(F.dropout(F.relu(self.norm(self.first(x))), 0.3))


def mlp():
    return chainer.Sequential(L.Linear(None, 6), F.relu, L.Linear(6, 3))


def make(
    device,
    out,
    data,
    stop=(3, "epoch"),
    batch_size=10,
    optimizer="MomentumSGD",
    net=mlp,
    seed=1,
    **kwargs,
):
    """A trainer, its optimizer and its model; the same each time."""
    np.random.seed(seed)
    chx.random.seed(seed)
    model = L.Classifier(net()).to_device(device)
    optimizer = getattr(chainer.optimizers, optimizer)().setup(model)
    batches = chainer.iterators.SerialIterator(data, batch_size, **kwargs)
    updater = training.updaters.StandardUpdater(batches, optimizer, device=device)
    return training.Trainer(updater, stop, out=str(out)), optimizer, model


def run(trainer):
    """Of Chainer on NumPy as it is; in the daemon otherwise."""
    if trainer.updater.get_optimizer("main").target.xp is np:
        trainer.run()
        return None
    return chx.chainer.remote_trainer(trainer)


def assert_logs_equal(ours, theirs):
    assert len(ours) == len(theirs) > 0
    for mine, other in zip(ours, theirs, strict=True):
        assert list(mine) == list(other)
        assert (mine["epoch"], mine["iteration"]) == (other["epoch"], other["iteration"])
        for key, value in floats(other).items():
            assert mine[key] == pytest.approx(value, rel=1e-4, abs=1e-6), key


def assert_same_place(ours, theirs):
    """Where trainers, iterators, triggers and NumPy's random numbers are."""
    for trainer in (ours, theirs):
        assert trainer._done
    assert ours.updater.iteration == theirs.updater.iteration
    mine, other = (t.updater.get_iterator("main") for t in (ours, theirs))
    assert mine.epoch_detail == other.epoch_detail
    assert mine.previous_epoch_detail == other.previous_epoch_detail
    assert mine.is_new_epoch == other.is_new_epoch
    np.testing.assert_array_equal(mine._state.order, other._state.order)
    mine, other = (t.updater.get_optimizer("main") for t in (ours, theirs))
    assert (mine.t, mine.epoch) == (other.t, other.epoch)
    assert vars(mine.hyperparam) == vars(other.hyperparam)
    for a, b in zip(mine.target.params(), other.target.params(), strict=True):
        assert a.update_rule.t == b.update_rule.t
    for name, entry in theirs._extensions.items():
        own = ours._extensions[name]
        for a, b in ((own.trigger, entry.trigger), (own.extension, entry.extension)):
            if isinstance(b, triggers.IntervalTrigger) or hasattr(b, "_t"):
                assert {k: v for k, v in vars(a).items() if k != "_optimizer"} == {
                    k: v for k, v in vars(b).items() if k != "_optimizer"
                }
