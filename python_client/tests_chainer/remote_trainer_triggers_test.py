"""Triggers by values and time, of trainers whose iterations the daemon makes, as of Chainer on NumPy."""

import json

import chainer
import chx
import numpy as np
import pytest
from chainer import training
from chainer.training import extensions, triggers
from example_runs import weights
from remote_trainers import assert_logs_equal, assert_same_place, classes, make, run
from trainers import HOST, log_of


def both(device, tmp_path, data, extend, **kwargs):
    """Trainers of Chainer on NumPy and of the daemon, with what their folders have in the end."""
    trainers, files = [], []
    for place in (HOST, device):
        out = tmp_path / place.name.strip("@")
        trainer, optimizer, model = make(
            place, out, chainer.datasets.TupleDataset(*data), batch_size=8, **kwargs
        )
        again = chainer.iterators.SerialIterator(
            chainer.datasets.TupleDataset(*data), 20, repeat=False, shuffle=False
        )
        trainer.extend(extensions.Evaluator(again, model, device=place))
        extend(trainer, model)
        run(trainer)
        trainers.append(trainer)
        files.append({path.name: path for path in out.iterdir()})
    assert files[0].keys() == files[1].keys()
    for name, path in files[0].items():
        if name.startswith("best"):
            with np.load(path) as expected, np.load(files[1][name]) as found:
                for key in expected.files:
                    np.testing.assert_allclose(found[key], expected[key], rtol=1e-3, atol=1e-5)
        elif name.startswith("log"):
            assert_logs_equal(*(json.loads(each[name].read_text()) for each in files[::-1]))
    assert_same_place(trainers[1], trainers[0])
    return trainers, files[1]


BEST = {
    "validation": lambda: triggers.MinValueTrigger("validation/main/loss", (2, "epoch")),
    "iterations": lambda: triggers.MinValueTrigger("main/loss", (7, "iteration")),
    "greatest": lambda: triggers.MaxValueTrigger("main/loss", (3, "iteration")),
    "manual": lambda: triggers.MinValueTrigger(
        "main/loss", triggers.ManualScheduleTrigger([2, 9, 20, 21], "iteration")
    ),
}


@pytest.mark.parametrize("name", list(BEST))
def test_the_best_models_are_kept(name, device, tmp_path, rng):
    """The same ones, with means over the iterations in between; triggers end with the same values."""

    def extend(trainer, model):
        trainer.extend(
            extensions.snapshot_object(model, "best-{.updater.iteration}"),
            name="keep",
            trigger=BEST[name](),
        )
        trainer.extend(extensions.LogReport(trigger=(5, "iteration")))

    (host, ours), files = both(device, tmp_path, classes(rng, 30), extend, stop=(8, "epoch"))
    kept = [each for each in files if each.startswith("best")]
    assert kept
    mine, other = (trainer._extensions["keep"].trigger for trainer in (ours, host))
    assert mine._best_value == pytest.approx(other._best_value, rel=1e-4)


def test_logs_of_the_best_and_by_time(device, tmp_path, rng):
    """Extensions that are called while the run goes on; a time that is always over, or never."""
    seen = {}

    def extend(trainer, model):
        best = triggers.MinValueTrigger("main/loss", (4, "iteration"))
        trainer.extend(extensions.LogReport(trigger=best, filename="log-best"))
        later = triggers.MinValueTrigger("validation/main/loss")
        trainer.extend(extensions.LogReport(filename="log"), name="later", trigger=later)
        for name, period in (("always", 0.0), ("never", 1e6)):
            trainer.extend(
                extensions.LogReport(trigger=triggers.TimeTrigger(period), filename=f"log-{name}"),
                name=name,
            )
            trainer.extend(
                lambda t, n=name: seen.setdefault((model, n), []).append(t.updater.iteration),
                name=f"call {name}",
                trigger=triggers.TimeTrigger(period),
            )

    (host, ours), files = both(device, tmp_path, classes(rng, 30), extend, stop=(25, "iteration"))
    assert {"log", "log-best", "log-always"} <= files.keys() and "log-never" not in files
    assert list(seen.values()) == [list(range(1, 26))] * 2


def test_time_is_asked_for_now_and_then(device, tmp_path, rng):
    """By a thousandth of the iterations, so that the run does not wait at each."""
    data = chainer.datasets.TupleDataset(*classes(rng, 8))
    trainer, *_ = make(device, tmp_path, data, (4000, "iteration"), 4)
    trainer.extend(extensions.LogReport(trigger=triggers.TimeTrigger(0.0), log_name=None))
    chx.chainer.remote_trainer(trainer)
    made = [entry["iteration"] for entry in log_of(trainer)]
    assert made[:1000] == list(range(1, 1001))
    assert made[-1] > 3990 and {b - a for a, b in zip(made[1000:], made[1001:])} <= {1, 2, 3}


@pytest.mark.parametrize("monitor", ["main/loss", "validation/main/loss"])
@pytest.mark.parametrize("check", [(1, "epoch"), (4, "iteration")])
def test_stops_early(monitor, check, device, tmp_path, rng):
    """At the same iteration, with schedules and snapshots where they were then."""

    def extend(trainer, model):
        trainer.stop_trigger = triggers.EarlyStoppingTrigger(
            check, monitor, patience=2, mode="max", max_trigger=(40, "epoch")
        )
        trainer.extend(extensions.ExponentialShift("lr", 0.9), trigger=(1, "epoch"))
        trainer.extend(extensions.observe_lr())
        trainer.extend(extensions.LogReport(trigger=(1, "epoch")))
        trainer.extend(
            extensions.snapshot_object(model, "best-{.updater.iteration}"), trigger=(2, "epoch")
        )

    if monitor.startswith("validation") and check[1] == "iteration":
        # As the value is not reported in each of these, Chainer warns, and goes on.
        with pytest.warns(UserWarning, match="not in observation"):
            (host, ours), _ = both(device, tmp_path, classes(rng, 24), extend)
    else:
        (host, ours), _ = both(device, tmp_path, classes(rng, 24), extend)
    assert 0 < ours.updater.iteration < 120
    for key, value in weights(host.updater.get_optimizer("main").target).items():
        mine = weights(ours.updater.get_optimizer("main").target)[key]
        np.testing.assert_allclose(mine, value, rtol=1e-3, atol=1e-5)
    stops = [t.stop_trigger for t in (host, ours)]
    assert stops[0].count == stops[1].count
    assert stops[0].best == pytest.approx(stops[1].best, rel=1e-4)


def test_does_not_stop_early(device, tmp_path, rng):
    """Where the value becomes better all the time: it ends with max_trigger."""

    def extend(trainer, model):
        trainer.stop_trigger = triggers.EarlyStoppingTrigger(
            monitor="main/loss", patience=40, max_trigger=(5, "epoch")
        )
        trainer.extend(extensions.LogReport())

    (_, ours), _ = both(device, tmp_path, classes(rng, 24), extend)
    assert ours.updater.iteration == 15


def test_stops_at_a_point(device, tmp_path, rng):
    def extend(trainer, model):
        trainer.stop_trigger = triggers.ManualScheduleTrigger([11, 17], "iteration")
        trainer.extend(extensions.LogReport(trigger=(2, "iteration")))

    (_, ours), _ = both(device, tmp_path, classes(rng, 24), extend)
    assert ours.updater.iteration == 11


def test_a_snapshot_has_where_triggers_were(device, tmp_path, rng):
    """Chainer goes on from it to the same models."""
    x, t = classes(rng, 30)

    def trainer_to(stop, out):
        data = chainer.datasets.TupleDataset(x, t)
        trainer, *_ = make(device, out, data, stop, 6, "Adam", shuffle=False)
        trainer.extend(extensions.LogReport(trigger=(1, "epoch")))
        seen = []
        trainer.extend(
            lambda t: seen.append(t.updater.iteration),
            name="best",
            trigger=triggers.MinValueTrigger("main/loss", (4, "iteration")),
        )
        trainer.extend(extensions.snapshot(filename="snapshot"), trigger=(10, "iteration"))
        return trainer, seen

    whole, expected = trainer_to((30, "iteration"), tmp_path / "whole")
    training.Trainer.run(whole)
    part, first = trainer_to((10, "iteration"), tmp_path / "part")
    chx.chainer.remote_trainer(part)
    for go_on in (chx.chainer.remote_trainer, training.Trainer.run):
        rest, last = trainer_to((30, "iteration"), tmp_path / "rest")
        chainer.serializers.load_npz(tmp_path / "part" / "snapshot", rest)
        go_on(rest)
        assert first + last == expected


REFUSED = {
    "time": (lambda: triggers.TimeTrigger(60.0), "epochs or iterations, .* got TimeTrigger"),
    "no end": (lambda: triggers.EarlyStoppingTrigger(max_trigger=None), "whose max_trigger is one"),
    "check": (lambda: triggers.EarlyStoppingTrigger(check_trigger=lambda _: True), "check_trigger in"),
    "past": (lambda: triggers.ManualScheduleTrigger([0], "iteration"), "still to fire, got .* to 0"),
    "best": (lambda: triggers.MinValueTrigger("main/loss"), "got MinValueTrigger"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(REFUSED))
def test_ends_that_nobody_knows(name, device, tmp_path, rng):
    trainer, *_ = make(device, tmp_path, chainer.datasets.TupleDataset(*classes(rng, 20)))
    stop, why = REFUSED[name]
    trainer.stop_trigger = stop()
    with pytest.raises(ValueError, match=f"remote_trainer.*{why}.*Trainer.run\\(\\) does"):
        chx.chainer.remote_trainer(trainer)


@pytest.mark.parametrize(
    "trigger", [triggers.TimeTrigger(1.0), triggers.MinValueTrigger("main/loss")]
)
def test_schedules_do_not_depend_on_values(trigger, device, tmp_path, rng):
    trainer, *_ = make(device, tmp_path, chainer.datasets.TupleDataset(*classes(rng, 20)))
    trainer.extend(extensions.ExponentialShift("lr", 0.5), trigger=trigger)
    with pytest.raises(ValueError, match="schedules whose triggers .* got .* 'ExponentialShift'"):
        chx.chainer.remote_trainer(trainer)
