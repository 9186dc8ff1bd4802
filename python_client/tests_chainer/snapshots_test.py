"""Snapshots of trainers on the daemon, their writers, and going on from them."""

import os

import chainer
import chx
import numpy as np
import pytest
from chainer.training import extensions, triggers
from example_runs import assert_equal_weights, weights
from trainers import HOST, floats, log_of, make_trainer


@pytest.mark.parametrize("optimizer", ["Adam", "MomentumSGD"])
def test_snapshots_resume(device, tmp_path, optimizer):
    """From a file that the daemon's arrays wrote: on the daemon to the same bits, and on NumPy."""

    def trainer_on(place, out, epochs):
        trainer, _, model, _ = make_trainer(place, out, epochs, optimizer, seed=3)
        trainer.extend(extensions.LogReport())
        trainer.extend(extensions.snapshot(filename="at-{.updater.epoch}"))
        return trainer, model

    whole, expected = trainer_on(device, tmp_path / "whole", 4)
    whole.run()
    for place in (device, HOST):
        trainer, model = trainer_on(place, tmp_path / place.name.strip("@"), 4)
        chainer.serializers.load_npz(tmp_path / "whole" / "at-2", trainer)
        assert trainer.updater.iteration == 8
        trainer.run()
        assert len(log_of(trainer)) == 4
        if place is device:
            assert_equal_weights(weights(model), weights(expected))
        else:
            for name, value in weights(model).items():
                np.testing.assert_allclose(value, weights(expected)[name], 1e-4, 1e-5)


def test_a_snapshot_within_an_epoch_holds_what_was_reported(device, tmp_path):
    logs = []
    for resume in (False, True):
        trainer, *_ = make_trainer(device, tmp_path)
        trainer.extend(extensions.LogReport())
        trainer.extend(
            extensions.snapshot(filename="within"),
            trigger=triggers.ManualScheduleTrigger(6, "iteration"),
        )
        if resume:
            chainer.serializers.load_npz(tmp_path / "within", trainer)
            assert trainer.updater.iteration == 6
        trainer.run()
        logs.append([floats(entry) for entry in log_of(trainer)])
    for a, b in zip(*logs, strict=True):
        assert a == pytest.approx(b, rel=1e-6)


def test_autoload_and_retained_snapshots(device, tmp_path):
    def trainer_of(epochs):
        trainer, _, model, _ = make_trainer(device, tmp_path, epochs)
        trainer.extend(extensions.snapshot(n_retains=2, autoload=True), trigger=(1, "epoch"))
        return trainer, model

    trainer_of(3)[0].run()
    assert sorted(os.listdir(tmp_path)) == ["snapshot_iter_12", "snapshot_iter_8"]
    trainer, model = trainer_of(4)
    trainer.run()
    assert trainer.updater.iteration == 16
    with np.load(tmp_path / "snapshot_iter_16") as saved:
        np.testing.assert_array_equal(
            saved["updater/model:main/predictor/0/W"], chx.to_numpy(model.predictor[0].W.array)
        )


class Keeper(extensions.snapshot_writers.Writer):
    """A writer that takes its time."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def __call__(self, filename, outdir, target):
        self.kept.append(target)


def test_what_writers_get_does_not_change(device, tmp_path):
    trainer, _, model, _ = make_trainer(device, tmp_path, optimizer="Adam")
    keeper = Keeper()
    trainer.extend(extensions.snapshot(writer=keeper), trigger=(1, "iteration"))
    seen = []
    trainer.extend(
        lambda _: seen.append(weights(model)), name="see", trigger=(1, "iteration"), priority=-200
    )
    trainer.run()
    assert len(keeper.kept) == len(seen) == 8
    for target, values in zip(keeper.kept, seen, strict=True):
        for name, value in values.items():
            np.testing.assert_array_equal(target[f"updater/model:main{name}"], value)


@pytest.mark.parametrize(
    "writer",
    ["SimpleWriter", "ThreadWriter", "ProcessWriter", "ThreadQueueWriter", "ProcessQueueWriter"],
)
def test_snapshot_writers(writer, device, tmp_path):
    """What goes to a thread or a forked process is bytes, of the time of the snapshot."""
    trainer, _, model, _ = make_trainer(device, tmp_path)
    start = weights(model)
    writer = getattr(extensions.snapshot_writers, writer)()
    trainer.extend(
        extensions.snapshot(filename="at-{.updater.iteration}", writer=writer),
        trigger=(1, "iteration"),
    )
    trainer.run()
    last = weights(model)
    assert not np.array_equal(start["/predictor/0/W"], last["/predictor/0/W"])
    files = [tmp_path / f"at-{i}" for i in range(1, 9)]
    values = []
    for file in files:
        with np.load(file) as saved:
            values.append(saved["updater/model:main/predictor/0/W"])
    np.testing.assert_array_equal(values[-1], last["/predictor/0/W"])
    assert all(not np.array_equal(a, b) for a, b in zip(values, values[1:], strict=False))


def test_hdf5(device, tmp_path):
    trainer, optimizer, model, _ = make_trainer(device, tmp_path, optimizer="Adam")
    trainer.run()
    for name, thing in (("model", model), ("optimizer", optimizer)):
        chainer.serializers.save_hdf5(str(tmp_path / name), thing)
    for place in (device, HOST):
        _, other_optimizer, other, _ = make_trainer(place, tmp_path, optimizer="Adam", seed=1)
        chainer.serializers.load_hdf5(str(tmp_path / "model"), other)
        chainer.serializers.load_hdf5(str(tmp_path / "optimizer"), other_optimizer)
        assert_equal_weights(weights(other), weights(model))
        m = other.predictor[0].W.update_rule.state["m"]
        expected = model.predictor[0].W.update_rule.state["m"]
        np.testing.assert_array_equal(HOST.send(m), HOST.send(expected))
        assert other_optimizer.t == optimizer.t == 8
