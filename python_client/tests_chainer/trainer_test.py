"""Trainers with every extension and trigger: on the daemon as on NumPy."""

import gc
import io
import json
import math
import os

import chainer
import chx
import numpy as np
import pytest
from chainer import training
from chainer.training import extensions, triggers
from example_runs import daemon_memory, weights
from trainers import HOST, floats, log_of, make_trainer


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


def test_reports_are_read_at_once(device, tmp_path, monkeypatch):
    """What an epoch reported, and nothing else."""
    reads = []
    to_numpy = chx.to_numpy
    monkeypatch.setattr(chx, "to_numpy", lambda *a, **kw: reads.append(a) or to_numpy(*a, **kw))
    means = []
    trainer, *_ = make_trainer(device, tmp_path)
    report = extensions.LogReport()
    compute = chainer.DictSummary.compute_mean
    monkeypatch.setattr(
        chainer.DictSummary, "compute_mean", lambda s: means.append(compute(s)) or means[-1]
    )
    trainer.extend(report)
    trainer.run()
    assert [a[0].shape for a in reads] == [(8,), (8,)]
    assert len(means) == 2
    assert all(isinstance(value, np.floating) for mean in means for value in mean.values())


def test_nothing_is_left_of_1000_iterations(device, tmp_path):
    """Neither here nor in the daemon, though every iteration reports."""
    trainer, *_ = make_trainer(device, tmp_path, epochs=250)
    trainer.extend(extensions.LogReport(trigger=(500, "iteration")))
    found = []

    def look(trainer):
        gc.collect()
        arrays = sum(isinstance(thing, chx.ndarray) for thing in gc.get_objects())
        found.append((arrays, daemon_memory()))

    trainer.extend(look, trigger=(200, "iteration"))
    trainer.run()
    (arrays, memory), *later = found
    assert len(later) == 4
    assert all(n <= arrays for n, _ in later), found
    assert all(size < memory + 2**20 for _, size in later), found


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


def test_the_log_is_json(device, tmp_path):
    """Numbers of the daemon's arrays are numbers there; none is a NaN."""
    trainer, *_ = make_trainer(device, tmp_path)
    trainer.extend(extensions.LogReport(trigger=(2, "iteration")))
    trainer.run()
    entries = json.loads((tmp_path / "log").read_text())
    assert [entry["iteration"] for entry in entries] == [2, 4, 6, 8]
    assert all(math.isfinite(entry["main/loss"]) for entry in entries)
