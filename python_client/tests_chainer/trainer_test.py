"""Trainers with every extension and trigger, snapshots and their writers: on the daemon as on NumPy."""

import io
import json
import math
import os

import chainer
import chainer.functions as F
import chainer.links as L
import chx
import numpy as np
import pytest
from chainer import training
from chainer.training import extensions, triggers
from example_runs import assert_equal_weights, weights

HOST = chainer.get_device("@numpy")


def make_trainer(device, out, epochs=2, optimizer="MomentumSGD", seed=0):
    """A trainer of 4 steps an epoch, its optimizer and its model."""
    rng = np.random.RandomState(seed)
    data = chainer.datasets.TupleDataset(
        rng.normal(size=(32, 5)).astype("f"), rng.randint(0, 3, 32).astype("i")
    )
    np.random.seed(seed)
    model = L.Classifier(chainer.Sequential(L.Linear(5, 6), F.relu, L.Linear(6, 3)))
    model.to_device(device)
    optimizer = getattr(chainer.optimizers, optimizer)()
    optimizer.setup(model)
    batches = chainer.iterators.SerialIterator(data, 8, shuffle=False)
    updater = training.updaters.StandardUpdater(batches, optimizer, device=device)
    return training.Trainer(updater, (epochs, "epoch"), out=str(out)), optimizer, model, data


def log_of(trainer):
    return trainer.get_extension("LogReport").log


def floats(entry):
    return {k: v for k, v in entry.items() if isinstance(v, float) and k != "elapsed_time"}


def extend_with_everything(trainer, optimizer, model, data, device):
    again = chainer.iterators.SerialIterator(data, 8, repeat=False, shuffle=False)
    each = (1, "iteration")
    hidden = model.predictor[0]
    trainer.extend(extensions.Evaluator(again, model, device=device))
    trainer.extend(extensions.DumpGraph("main/loss"))
    trainer.extend(extensions.FailOnNonNumber())
    trainer.extend(extensions.ParameterStatistics(model, trigger=(1, "epoch")))
    trainer.extend(extensions.observe_lr())
    trainer.extend(extensions.observe_value("twice", lambda t: 2 * t.updater.iteration))
    trainer.extend(
        lambda t: chainer.report({"sum": t.observation["main/loss"].array * 8, "count": 8}),
        name="sums",
        trigger=each,
        priority=training.PRIORITY_WRITER,
    )
    trainer.extend(extensions.MicroAverage("sum", "count", "average"))
    trainer.extend(extensions.ExponentialShift("lr", 0.9), trigger=each)
    trainer.extend(extensions.InverseShift("momentum", 0.1, 0.5), trigger=each)
    trainer.extend(
        extensions.VariableStatisticsPlot(hidden.W, filename="statistics.png", max_sample_size=5),
        trigger=each,
    )
    trainer.extend(extensions.PlotReport(["main/loss"], filename="loss.png"))
    trainer.extend(extensions.LogReport())
    trainer.extend(extensions.PrintReport(["epoch", "main/loss"], out=io.StringIO()))
    trainer.extend(extensions.ProgressBar(update_interval=1, out=io.StringIO()))
    trainer.extend(extensions.snapshot(filename="all-{.updater.epoch}"))
    trainer.extend(
        extensions.snapshot_object(model, "model-{.updater.epoch}"), trigger=(1, "epoch")
    )
    trainer.extend(extensions.unchain_variables())


def test_every_extension_in_one_trainer(device, tmp_path):
    logs = []
    for place in (HOST, device):
        out = tmp_path / place.name.strip("@")
        trainer, optimizer, model, data = make_trainer(place, out)
        extend_with_everything(trainer, optimizer, model, data, place)
        trainer.run()
        logs.append([floats(entry) for entry in log_of(trainer)])
        assert {"cg.dot", "statistics.png", "loss.png", "log", "all-2", "model-2"} <= set(
            os.listdir(out)
        )
    assert not chx.chainer.fallbacks()
    local, remote = logs
    assert len(local) == len(remote) == 2
    for a, b in zip(local, remote, strict=True):
        assert a.keys() == b.keys() and len(a) > 40
        for name, value in a.items():
            np.testing.assert_allclose(b[name], value, rtol=1e-3, atol=1e-5, err_msg=name)


SHIFTS = {
    "ExponentialShift": lambda o: extensions.ExponentialShift("lr", 0.5, optimizer=o),
    "InverseShift": lambda o: extensions.InverseShift("lr", 0.1, 0.5, optimizer=o),
    "LinearShift": lambda o: extensions.LinearShift("lr", (0.1, 0.01), (1, 6), optimizer=o),
    "MultistepShift": lambda o: extensions.MultistepShift("lr", 0.1, [2, 5], 0.1, optimizer=o),
    "PolynomialShift": lambda o: extensions.PolynomialShift("lr", 2, 8, optimizer=o),
    "StepShift": lambda o: extensions.StepShift("lr", 0.5, 3, 0.1, optimizer=o),
    "WarmupShift": lambda o: extensions.WarmupShift("lr", 0.01, 4, 0.1, optimizer=o),
}


@pytest.mark.parametrize("name", list(SHIFTS))
def test_shifts(name, device, tmp_path):
    """What the rate is after each step, and where the weights went with it."""
    results = []
    for place in (HOST, device):
        trainer, optimizer, model, _ = make_trainer(place, tmp_path)
        rates = []
        trainer.extend(SHIFTS[name](optimizer), trigger=(1, "iteration"))
        trainer.extend(
            lambda _, o=optimizer, r=rates: r.append(o.lr),
            name="record",
            trigger=(1, "iteration"),
            priority=-1,
        )
        trainer.run()
        results.append((rates, weights(model)))
    (rates, expected), (remote_rates, found) = results
    assert remote_rates == rates and len(set(rates)) > 1
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=1e-6)


TRIGGERS = {
    "interval": lambda: triggers.IntervalTrigger(3, "iteration"),
    "manual": lambda: triggers.ManualScheduleTrigger([2, 5], "iteration"),
    "once": lambda: triggers.OnceTrigger(),
    "min": lambda: triggers.MinValueTrigger("main/loss", (1, "iteration")),
    "max": lambda: triggers.MaxValueTrigger("main/loss", (1, "iteration")),
    "best": lambda: triggers.BestValueTrigger(
        "main/accuracy", lambda best, new: new > best, (2, "iteration")
    ),
    "time": lambda: triggers.TimeTrigger(1e-9),
}


@pytest.mark.parametrize("name", list(TRIGGERS))
def test_triggers(name, device, tmp_path):
    fired = []
    for place in (HOST, device):
        trainer, *_ = make_trainer(place, tmp_path)
        steps = []
        trainer.extend(
            lambda t, s=steps: s.append(t.updater.iteration),
            name="record",
            trigger=TRIGGERS[name](),
        )
        trainer.run()
        fired.append(steps)
    assert fired[0] == fired[1] and fired[1]


def test_early_stopping(device, tmp_path):
    trainer, *_ = make_trainer(device, tmp_path)
    trainer.stop_trigger = triggers.EarlyStoppingTrigger(
        (1, "iteration"), "main/loss", patience=2, mode="max", max_trigger=(50, "epoch")
    )
    trainer.run()
    assert 3 <= trainer.updater.iteration < 100


def test_nan_parameters_are_found(device, tmp_path):
    trainer, optimizer, model, _ = make_trainer(device, tmp_path)
    trainer.extend(extensions.FailOnNonNumber())
    optimizer.lr = 1e38
    with pytest.raises(RuntimeError, match="diverge"):
        trainer.run(show_loop_exception_msg=False)


def test_errors_of_the_daemon_reach_the_trainer(device, tmp_path):
    """And its extensions; they are finalized."""
    trainer, *_ = make_trainer(device, tmp_path)
    seen = []

    @training.make_extension(
        trigger=(1, "iteration"),
        on_error=lambda t, error, tb: seen.append(error),
        finalizer=lambda: seen.append("finalized"),
    )
    def bad(trainer):
        chx.ones((2,)).reshape((3,))

    trainer.extend(bad)
    with pytest.raises(chx.DimensionError) as caught:
        trainer.run(show_loop_exception_msg=False)
    assert seen == [caught.value, "finalized"]


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
    pytest.importorskip("h5py")
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


def test_the_log_is_json(device, tmp_path):
    """Numbers of the daemon's arrays are numbers there; none is a NaN."""
    trainer, *_ = make_trainer(device, tmp_path)
    trainer.extend(extensions.LogReport(trigger=(2, "iteration")))
    trainer.run()
    entries = json.loads((tmp_path / "log").read_text())
    assert [entry["iteration"] for entry in entries] == [2, 4, 6, 8]
    assert all(math.isfinite(entry["main/loss"]) for entry in entries)
