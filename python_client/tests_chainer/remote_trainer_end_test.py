"""How trainers end whose iterations the daemon makes by itself, and what they are refused for."""

import chainer
import chx
import numpy as np
import pytest
from chainer import training
from chainer.training import extensions
from example_runs import weights
from remote_trainers import classes, make
from trainers import HOST, log_of


def test_parameters_that_are_no_numbers(device, tmp_path, rng):
    """Are found at the same iteration."""
    x, t = classes(rng, 20)
    seen = []
    for place in (HOST, device):
        data = chainer.datasets.TupleDataset(x, t)
        trainer, optimizer, _ = make(place, tmp_path, data, (40, "iteration"), 5)
        trainer.extend(extensions.LogReport(trigger=(1, "iteration")))
        trainer.extend(extensions.FailOnNonNumber())
        trainer.extend(extensions.ExponentialShift("lr", 1e6), trigger=(1, "iteration"))
        with pytest.raises(RuntimeError, match="diverge"):
            if place is HOST:
                trainer.run(show_loop_exception_msg=False)
            else:
                chx.chainer.remote_trainer(trainer, show_loop_exception_msg=False)
        seen.append((trainer.updater.iteration, optimizer.t, len(log_of(trainer))))
    assert seen[0] == seen[1] and seen[0][0] < 40


def refused(name):
    """A trainer that is not made into a run, and why not."""

    def build(device, out, rng):
        x, t = classes(rng, 20)
        data = chainer.datasets.TupleDataset(x, t)
        if name == "TransformDataset":
            data = chainer.datasets.TransformDataset(data, lambda example: example)
        elif name == "list":
            data = list(zip(x, t, strict=True))
        trainer, optimizer, model = make(device, out, data)
        if name == "own trigger":
            trainer.extend(extensions.LogReport(trigger=lambda trainer: True))
        elif name == "graph":
            trainer.extend(extensions.DumpGraph("main/loss"))
        elif name == "gradients":
            trainer.extend(extensions.ParameterStatistics(model))
        elif name == "optimizer":
            other = chainer.optimizers.SGD()
            trainer.extend(extensions.ExponentialShift("lr", 0.5, optimizer=other))
        elif name == "converter":
            trainer.updater.converter = chainer.dataset.converter()(lambda batch, device: batch)
        elif name == "iterator":
            trainer.updater._iterators["main"] = chainer.iterators.MultithreadIterator(data, 10)
        elif name == "once":
            trainer.updater._iterators["main"] = chainer.iterators.SerialIterator(data, 9, False)
        elif name == "updater":
            trainer.updater.__class__ = type("Own", (training.updaters.StandardUpdater,), {})
        elif name == "NumPy":
            model.to_device("@numpy")
        elif name == "reads":
            forward = model.forward
            model.forward = lambda *args: forward(*args) * (float(args[0].sum()) * 0 + 1)
        elif name == "number":
            forward = model.forward

            def reporting(*args):
                chainer.report({"number": 3.0}, model)
                return forward(*args)

            model.forward = reporting
        return trainer

    return build


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("TransformDataset", "TransformDataset, whose function"),
        ("list", "got list"),
        ("own trigger", "function of extension 'LogReport'"),
        ("graph", "graph"),
        ("gradients", "gradients"),
        ("optimizer", "the optimizer that is trained"),
        ("converter", "concat_examples"),
        ("iterator", "SerialIterator, got MultithreadIterator"),
        ("once", "repeats"),
        ("updater", "StandardUpdater, got Own"),
        ("NumPy", "a model on a device of the daemon"),
        ("reads", "waits for a value"),
        ("number", "report of 'main/number'"),
    ],
)
def test_what_cannot_be_a_run(name, why, device, tmp_path, rng):
    """Raises with the reason; nothing has changed."""
    trainer = refused(name)(device, tmp_path, rng)
    optimizer = trainer.updater.get_optimizer("main")
    numbers, before = np.random.get_state()[1].tolist(), weights(optimizer.target)
    with pytest.raises((ValueError, chx.NotImplementedError), match=why):
        chx.chainer.remote_trainer(trainer)
    # Parameters without a shape may have got one.
    if any(value.dtype == object for value in before.values()):
        before = weights(optimizer.target)
    else:
        assert np.random.get_state()[1].tolist() == numbers
    after = weights(optimizer.target)
    for key, value in before.items():
        np.testing.assert_array_equal(after[key], value)
    assert (optimizer.t, optimizer.epoch, trainer.updater.iteration) == (0, 0, 0)
    if name in ("list", "graph", "reads", "number"):
        trainer.run()
        assert trainer.updater.iteration == 6


def test_errors_of_extensions(device, tmp_path, rng):
    """Reach the extensions, which are finalized; the run is stopped."""
    for error in (ZeroDivisionError, KeyboardInterrupt):
        data = chainer.datasets.TupleDataset(*classes(rng, 20))
        trainer, *_ = make(device, tmp_path, data, (10000, "iteration"))
        seen = []

        @training.make_extension(
            trigger=(7, "iteration"),
            on_error=lambda t, error, tb, s=seen: s.append(type(error)),
            finalizer=lambda s=seen: s.append("finalized"),
        )
        def bad(trainer, error=error):
            raise error

        trainer.extend(bad)
        with pytest.raises(error):
            chx.chainer.remote_trainer(trainer, show_loop_exception_msg=False)
        # As Chainer has it: on_error is for exceptions, and not for Ctrl-C.
        assert seen == [error, "finalized"] if error is ZeroDivisionError else ["finalized"]
        assert trainer.updater.iteration == 7
        assert (chx.runs.attach("trainer").state, chx.runs.attach("trainer").step) == ("ended", 7)


@pytest.mark.parametrize("what", ["rate", "array", "enabled"])
def test_what_a_run_does_not_hear_is_an_error(what, device, tmp_path, rng):
    data = chainer.datasets.TupleDataset(*classes(rng, 20))
    trainer, optimizer, model = make(device, tmp_path, data, (50, "iteration"))

    def change(trainer):
        if what == "rate":
            optimizer.lr *= 0.5
        elif what == "array":
            model.predictor[0].W.array = model.predictor[0].W.array * 2
        else:
            model.predictor[0].disable_update()

    trainer.extend(change, name="change", trigger=(3, "iteration"))
    with pytest.raises(RuntimeError, match="'change' to leave"):
        chx.chainer.remote_trainer(trainer, show_loop_exception_msg=False)


def test_may_be_stopped_by_others(device, tmp_path, rng):
    data = chainer.datasets.TupleDataset(*classes(rng, 20))
    trainer, optimizer, _ = make(device, tmp_path, data, (10**5, "iteration"))
    trainer.extend(
        lambda _: chx.runs.attach("trainer").stop(), name="stop", trigger=(5, "iteration")
    )
    done = chx.chainer.remote_trainer(trainer)
    assert done.wait().reason == "stopped"
    assert trainer.updater.iteration == optimizer.t == done.step == 5


def test_nothing_to_do(device, tmp_path, rng):
    data = chainer.datasets.TupleDataset(*classes(rng, 20))
    trainer, *_ = make(device, tmp_path, data, (1, "epoch"))
    chx.chainer.remote_trainer(trainer)
    with pytest.raises(RuntimeError, match="multiple times"):
        chx.chainer.remote_trainer(trainer)
    again = training.Trainer(trainer.updater, (1, "epoch"), out=str(tmp_path))
    assert chx.chainer.remote_trainer(again) is None
    assert again.updater.iteration == 2
