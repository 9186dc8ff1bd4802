"""Trainers whose iterations the daemon makes by itself, against Trainer.run on NumPy and in eager mode."""

import io
import json
import os

import chainer
import chainer.functions as F
import chainer.links as L
import chx
import numpy as np
import pytest
from chainer import training
from chainer.training import extensions, triggers
from example_runs import weights
from remote_trainers import Net, assert_logs_equal, assert_same_place, classes, make, run
from trainers import HOST, log_of


def mushrooms():
    """(x, t): letters as numbers, and whether it can be eaten."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.path.join(here, "..", "examples", "data", "mushrooms.csv")
    table = np.loadtxt(path, delimiter=",", dtype=str, skiprows=1)
    codes = np.stack([np.unique(c, return_inverse=True)[1].reshape(-1) for c in table.T], 1)
    return codes[:, 1:].astype("f"), codes[:, 0].astype("i")


def test_mushrooms_as_on_numpy(device, tmp_path):
    """The usual extensions, minibatches that cross epochs, and the files that come out."""
    x, t = mushrooms()
    trainers, logs, tables, snapshots, states = [], [], [], [], []
    for place in (HOST, device):
        out = tmp_path / place.name.strip("@")
        np.random.seed(5)
        data, test = chainer.datasets.split_dataset_random(
            chainer.datasets.TupleDataset(x, t), 5687, seed=2
        )
        trainer, optimizer, model = make(
            place, out, data, (4, "epoch"), 100, net=lambda: L.Linear(22, 2)
        )
        optimizer.lr = 0.005
        evaluated = chainer.iterators.SerialIterator(test, 64, repeat=False, shuffle=False)
        table = io.StringIO()
        trainer.extend(extensions.Evaluator(evaluated, model, device=place))
        trainer.extend(extensions.ExponentialShift("lr", 0.8), trigger=(1, "epoch"))
        trainer.extend(extensions.observe_lr())
        trainer.extend(extensions.LogReport())
        trainer.extend(
            extensions.PrintReport(
                ["epoch", "iteration", "main/loss", "validation/main/accuracy", "lr"], out=table
            )
        )
        trainer.extend(extensions.PlotReport(["main/loss", "validation/main/loss"]))
        trainer.extend(extensions.ProgressBar(update_interval=30))
        trainer.extend(extensions.snapshot(filename="all-{.updater.epoch}"), trigger=(2, "epoch"))
        trainer.extend(
            extensions.snapshot_object(model, "model-{.updater.iteration}"),
            trigger=(50, "iteration"),
        )
        trainer.extend(extensions.FailOnNonNumber())
        run(trainer)
        trainers.append(trainer)
        logs.append(json.loads((out / "log").read_text()))
        tables.append(table.getvalue().split())
        assert (out / "plot.png").read_bytes().startswith(b"\x89PNG")
        files = ["all-2", "all-4", "model-50", "model-100", "model-150", "model-200"]
        snapshots.append({name: np.load(out / name) for name in files})
        states.append(np.random.get_state()[1].tolist())
    assert not chx.chainer.fallbacks()
    assert_logs_equal(logs[1], logs[0])
    assert_same_place(trainers[1], trainers[0])
    assert len(tables[0]) == len(tables[1])
    assert states[0] == states[1]
    for name, expected in snapshots[0].items():
        found = snapshots[1][name]
        assert sorted(found.files) == sorted(expected.files)
        for key in expected.files:
            if expected[key].dtype.kind in "fi" and "elapsed" not in key:
                np.testing.assert_allclose(
                    found[key], expected[key], rtol=1e-3, atol=1e-5, err_msg=f"{name}: {key}"
                )


def test_rates_are_observed_at_each_iteration(device, tmp_path):
    x, t = mushrooms()
    logs = []
    for place in (HOST, device):
        out = tmp_path / place.name.strip("@")
        np.random.seed(5)
        data = chainer.datasets.TupleDataset(x, t)
        trainer, _, _ = make(place, out, data, (1, "epoch"), 500, net=lambda: L.Linear(22, 2))
        trainer.extend(extensions.ExponentialShift("lr", 0.8), trigger=(1, "iteration"))
        trainer.extend(extensions.observe_lr(), trigger=(1, "iteration"))
        trainer.extend(extensions.LogReport(trigger=(5, "iteration")))
        run(trainer)
        logs.append(json.loads((out / "log").read_text()))
    assert_logs_equal(logs[1], logs[0])
    assert len({entry["lr"] for entry in logs[0]}) == len(logs[0])


def test_one_run_makes_all_iterations(device, tmp_path, rng):
    """It does not wait for this process where nothing is to be done."""
    data = chainer.datasets.TupleDataset(*classes(rng, 64))
    trainer, _, model = make(device, tmp_path, data, (100, "epoch"), 8)
    again = chainer.iterators.SerialIterator(data, 8, repeat=False, shuffle=False)
    trainer.extend(extensions.Evaluator(again, model, device=device), trigger=(10, "epoch"))
    trainer.extend(extensions.LogReport(trigger=(10, "epoch")))
    trainer.extend(extensions.PrintReport(["main/loss"], out=io.StringIO()))
    trainer.extend(extensions.ExponentialShift("lr", 0.999), trigger=(1, "iteration"))
    done = chx.chainer.remote_trainer(trainer, "whole")
    kinds = [event.kind for event in done]
    assert done.step == done.steps == 800
    assert kinds.count("paused") == 0
    assert kinds.count("evaluation") == 10 and kinds.count("log") == 20
    assert chx.runs.attach("whole").wait().reason == "done"


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "MSVAG", "RMSprop"])
def test_is_equal_to_eager_mode(device, tmp_path, rng, optimizer):
    """To the last bit: parameters, statistics and states, with dropout."""
    x, t = classes(rng, 47)
    found = []
    for remote in (False, True):
        data = chainer.datasets.TupleDataset(x, t)
        trainer, opt, model = make(device, tmp_path, data, (4, "epoch"), 9, optimizer, Net)
        opt.add_hook(chainer.optimizer_hooks.WeightDecay(1e-3))
        trainer.extend(extensions.LogReport(trigger=(3, "iteration")))
        again = chainer.iterators.SerialIterator(data, 20, repeat=False, shuffle=False)
        trainer.extend(extensions.Evaluator(again, model, device=device))
        (chx.chainer.remote_trainer if remote else training.Trainer.run)(trainer)
        arrays = {name: p.array for name, p in model.namedparams()}
        arrays |= {f"{link.name}/{n}": link.__dict__[n] for link in model.links()
                   for n in link._persistent if isinstance(link.__dict__[n], chx.ndarray)}  # fmt: skip
        for name, p in model.namedparams():
            arrays |= {name + key: v for key, v in p.update_rule.state.items()}
        bits = {k: chx.to_numpy(v).tobytes() for k, v in arrays.items()}
        found.append((bits, log_of(trainer), trainer))
    (expected, logs, eager), (bits, remote_logs, ours) = found
    assert bits == expected
    assert_logs_equal(remote_logs, logs)
    assert_same_place(ours, eager)


@pytest.mark.parametrize("batch_size", [1, 7, 23, 24, 60])
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("stop", [(9, "iteration"), (2.5, "epoch")])
def test_minibatches(device, tmp_path, rng, batch_size, shuffle, stop):
    """Of all sizes: they cross epochs, and may have rows twice."""
    x, t = classes(rng, 24)
    logs, trainers, models = [], [], []
    for place in (HOST, device):
        data = chainer.datasets.TupleDataset(x, t)
        trainer, _, model = make(place, tmp_path, data, stop, batch_size, shuffle=shuffle)
        trainer.extend(extensions.LogReport(trigger=(1, "iteration")))
        run(trainer)
        logs.append(log_of(trainer))
        trainers.append(trainer)
        models.append(weights(model))
    assert_logs_equal(logs[1], logs[0])
    assert_same_place(trainers[1], trainers[0])
    for key, value in models[0].items():
        np.testing.assert_allclose(models[1][key], value, rtol=1e-3, atol=1e-5)


SHIFTS = {
    "ExponentialShift": lambda: extensions.ExponentialShift("lr", 0.5, target=0.001),
    "InverseShift": lambda: extensions.InverseShift("lr", 0.1, 0.5),
    "LinearShift": lambda: extensions.LinearShift("momentum", (0.9, 0.5), (1, 6)),
    "MultistepShift": lambda: extensions.MultistepShift("lr", 0.1, [2, 5], 0.1),
    "PolynomialShift": lambda: extensions.PolynomialShift("lr", 2, 20),
    "StepShift": lambda: extensions.StepShift("lr", 0.5, 3, 0.1),
    "WarmupShift": lambda: extensions.WarmupShift("lr", 0.01, 4, 0.1),
}


@pytest.mark.parametrize("name", list(SHIFTS))
@pytest.mark.parametrize("trigger", [(1, "iteration"), (3, "iteration"), (1, "epoch")])
def test_schedules(name, trigger, device, tmp_path, rng):
    """What hyperparameters are at any call, and where the weights go with them."""
    x, t = classes(rng, 27)
    results, trainers = [], []
    for place in (HOST, device):
        data = chainer.datasets.TupleDataset(x, t)
        trainer, optimizer, model = make(place, tmp_path, data, batch_size=4)
        trainer.extend(SHIFTS[name](), trigger=trigger)
        seen = []
        for priority in (1000, -1000):  # before it is called, and after that
            trainer.extend(
                lambda _, o=optimizer, s=seen: s.append((o.lr, o.momentum, o.t, o.epoch)),
                name=f"record{priority}",
                trigger=(2, "iteration"),
                priority=priority,
            )
        run(trainer)
        results.append((seen, weights(model)))
        trainers.append(trainer)
    (seen, expected), (remote_seen, found) = results
    assert remote_seen == seen
    assert_same_place(trainers[1], trainers[0])
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-3, atol=1e-5)


def test_other_extensions_see_the_iteration(device, tmp_path, rng):
    """Parameters, states, what was reported, and where the trainer is."""
    x, t = classes(rng, 33)
    found = []
    for place in (HOST, device):
        data = chainer.datasets.TupleDataset(x, t)
        trainer, optimizer, model = make(place, tmp_path, data, (12, "iteration"), 7)
        seen = []

        def look(trainer, seen=seen, model=model):
            updater = trainer.updater
            state = next(iter(model.predictor[0].W.update_rule.state.values()))
            seen.append(
                [
                    updater.iteration,
                    updater.epoch_detail,
                    float(F.sum(model.predictor[0].W).array),
                    float(state.sum()),
                    float(trainer.observation["main/loss"].array),
                    sorted(trainer.observation),
                ]
            )

        trainer.extend(look, name="first", trigger=(1, "iteration"), call_before_training=False)
        trainer.extend(
            look, name="manual", trigger=triggers.ManualScheduleTrigger([2, 5], "iteration")
        )
        trainer.extend(look, name="once", trigger=triggers.OnceTrigger())
        trainer.extend(
            lambda t: chainer.report({"reported": 3.0 + t.updater.iteration}),
            name="report", trigger=(4, "iteration"), priority=training.PRIORITY_WRITER,
        )  # fmt: skip
        trainer.extend(extensions.LogReport(trigger=(6, "iteration")))
        run(trainer)
        found.append((seen, log_of(trainer)))
    (expected, logs), (seen, remote_logs) = found
    assert len(seen) == len(expected) == 15
    for mine, other in zip(seen, expected, strict=True):
        assert mine[:2] == other[:2] and mine[-1] == other[-1]
        np.testing.assert_allclose(mine[2:-1], other[2:-1], rtol=1e-3, atol=1e-5)
    assert {"reported", "main/loss", "main/accuracy"} <= set(logs[0])
    assert_logs_equal(remote_logs, logs)


def test_goes_on_from_a_snapshot(device, tmp_path, rng):
    """In Chainer's own loop, or in another run."""
    x, t = classes(rng, 31)

    def trainer_to(stop, out):
        data = chainer.datasets.TupleDataset(x, t)
        trainer, _, model = make(device, out, data, stop, 6, "Adam", shuffle=False)
        trainer.extend(extensions.LogReport(trigger=(1, "epoch")))
        trainer.extend(extensions.StepShift("alpha", 0.5, 3), trigger=(1, "iteration"))
        trainer.extend(extensions.snapshot(filename="snapshot"), trigger=(8, "iteration"))
        return trainer, model

    whole, model = trainer_to((20, "iteration"), tmp_path / "whole")
    chx.chainer.remote_trainer(whole)
    for go_on in (chx.chainer.remote_trainer, training.Trainer.run):
        part, _ = trainer_to((11, "iteration"), tmp_path / "part")
        chx.chainer.remote_trainer(part)
        rest, other = trainer_to((20, "iteration"), tmp_path / "part")
        chainer.serializers.load_npz(tmp_path / "part" / "snapshot", rest)
        assert rest.updater.iteration == 8
        go_on(rest)
        assert_logs_equal(log_of(rest), log_of(whole))
        for key, value in weights(model).items():
            np.testing.assert_array_equal(weights(other)[key], value)


def test_more_iterations_with_calls_than_a_run_keeps_events_of(device, tmp_path, rng):
    data = chainer.datasets.TupleDataset(*classes(rng, 8))
    trainer, *_ = make(device, tmp_path, data, (34000, "iteration"), 4)
    trainer.extend(extensions.LogReport(trigger=(2, "iteration"), log_name=None))
    done = chx.chainer.remote_trainer(trainer)
    log = log_of(trainer)
    assert [entry["iteration"] for entry in log] == list(range(2, 34001, 2))
    events = done.events()
    assert len(events) <= 32768 < events[-1].number


def test_datasets(device, tmp_path, rng):
    x, t = classes(rng, 20)
    order = rng.permutation(20)

    class Named(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.last = L.Linear(5, 3)

        def forward(self, x, t=None):
            target = np.zeros(len(x), "i") if t is None else t
            loss = F.softmax_cross_entropy(self.last(x), self.device.send(target))
            chainer.report({"loss": loss}, self)
            return loss

    datasets = chainer.datasets
    send = device.send
    for data in (
        datasets.DictDataset(t=t, x=x),
        datasets.SubDataset(datasets.DictDataset(x=x, t=t), 3, 17, order),
        datasets.SubDataset(datasets.TupleDataset(x, t), 5, 20),
        datasets.TupleDataset(datasets.SubDataset(x, 0, 10), t[:10]),
        datasets.TupleDataset(send(x), send(t)),
        datasets.SubDataset(datasets.TupleDataset(send(x), send(t)), 2, 15, order),
        x,
    ):
        logs = []
        for remote in (False, True):
            np.random.seed(3)
            model = Named().to_device(device)
            optimizer = chainer.optimizers.SGD(0.1).setup(model)
            batches = chainer.iterators.SerialIterator(data, 4)
            updater = training.updaters.StandardUpdater(batches, optimizer, device=device)
            trainer = training.Trainer(updater, (2, "epoch"), out=str(tmp_path))
            trainer.extend(extensions.LogReport(trigger=(2, "iteration")))
            (chx.chainer.remote_trainer if remote else training.Trainer.run)(trainer)
            logs.append(log_of(trainer))
        assert_logs_equal(logs[1], logs[0])


def test_parameters_may_be_written_in_place(device, tmp_path, rng):
    x, t = classes(rng, 20)
    found = []
    for remote in (False, True):
        data = chainer.datasets.TupleDataset(x, t)
        trainer, _, model = make(device, tmp_path, data, (11, "iteration"))

        def clip(trainer, model=model):
            array = model.predictor[0].W.array.as_grad_stopped()
            chx.copyto(array, chx.clip(array, -0.3, 0.3))

        trainer.extend(clip, name="clip", trigger=(3, "iteration"))
        (chx.chainer.remote_trainer if remote else training.Trainer.run)(trainer)
        found.append(weights(model))
    for key, value in found[0].items():
        np.testing.assert_array_equal(found[1][key], value)
