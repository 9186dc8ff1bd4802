"""MNIST's digits with a Trainer and in a loop: curves, learning rates, resuming."""

import os

import chainer
import numpy as np
import pytest
from example_runs import (
    DEVICE,
    DEVICES,
    assert_equal_weights,
    assert_same_curve,
    load,
    read_log,
    run,
    weights,
)

KEYS = ["main/loss", "main/accuracy", "validation/main/loss", "validation/main/accuracy"]
SMALL = ("--epochs", 2, "--train-size", 400, "--test-size", 200)


def target(trainer):
    return trainer.updater.get_optimizer("main").target


def rates(out):
    return [entry["lr"] for entry in read_log(out)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    results = {}
    for device in DEVICES:
        out = tmp_path_factory.mktemp("mnist")
        results[device] = out, run("mnist_trainer", device, out)
    return results


def test_trainer_learns_the_same_curve(trained):
    local, remote = (read_log(trained[device][0]) for device in DEVICES)
    assert_same_curve(remote, local, KEYS, 1e-4)
    assert remote[-1]["validation/main/accuracy"] > 0.85
    expected = weights(target(trained["@numpy"][1]))
    for name, value in weights(target(trained[DEVICE][1])).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-3, atol=1e-5)


def test_saved_models_predict(trained):
    """The file is NumPy's: what a model on the daemon saved is loaded by one here."""
    out, trainer = trained[DEVICE]
    assert {f"model-{i}.npz" for i in range(1, 6)} < set(os.listdir(out))
    model = load("mnist_trainer").MLP(100)
    chainer.serializers.load_npz(os.path.join(out, "model-5.npz"), model)
    assert_equal_weights(weights(model), weights(target(trainer).predictor))
    _, (images, labels) = load("datasets").mnist(0, 1000)
    with chainer.no_backprop_mode():
        accuracy = (model(images).array.argmax(axis=1) == labels).mean()
    assert abs(accuracy - read_log(out)[-1]["validation/main/accuracy"]) < 1e-6


@pytest.mark.parametrize("schedule", ["drop", "polynomial"])
def test_schedules(schedule, tmp_path):
    logs = []
    for device in DEVICES:
        out = tmp_path / device.strip("@")
        run("mnist_trainer", device, out, *SMALL, "--epochs", 4, "--schedule", schedule)
        logs.append(read_log(out))
    assert_same_curve(logs[1], logs[0], ["lr"], 1e-12)
    assert_same_curve(logs[1], logs[0], KEYS, 1e-4)
    observed = rates(out)
    # Seen once an epoch of four steps, before the last of its steps has changed it.
    expected = {
        "drop": [0.05, 0.05, 0.005, 0.005],
        "polynomial": 0.05 * (1 - np.arange(3, 16, 4) / 16),
    }
    np.testing.assert_allclose(observed, expected[schedule], rtol=1e-9)


@pytest.mark.parametrize("schedule", ["none", "drop", "polynomial"])
def test_resuming_a_trainer(schedule, tmp_path):
    """The rate and what it fell by are in the snapshot, as are the momenta."""
    arguments = (*SMALL, "--schedule", schedule)
    whole = run("mnist_trainer", DEVICE, tmp_path / "whole", *arguments)
    snapshot = tmp_path / "whole" / "trainer-1.npz"
    rest = run("mnist_trainer", DEVICE, tmp_path / "rest", *arguments, "--resume", snapshot)
    assert_equal_weights(weights(target(rest)), weights(target(whole)))
    assert rates(tmp_path / "rest") == rates(tmp_path / "whole")


def test_loop_learns_the_same_curve(tmp_path):
    histories = []
    for device in DEVICES:
        histories.append(run("mnist_loop", device, tmp_path / device.strip("@"))[1])
    local, remote = histories
    np.testing.assert_allclose(remote, local, rtol=1e-4)
    assert remote[-1][2] > 0.85


@pytest.mark.parametrize("device", DEVICES)
def test_loop_resumes(device, tmp_path):
    """Model, optimizer and iterator are saved one by one."""
    whole, _ = run("mnist_loop", device, tmp_path / "whole", *SMALL)
    run("mnist_loop", device, tmp_path / "rest", *SMALL, "--epochs", 1)
    again, _ = run("mnist_loop", device, tmp_path / "rest", *SMALL, "--resume")
    assert_equal_weights(weights(again), weights(whole))
    start = weights(load("mnist_trainer").MLP(100))
    assert start.keys() == weights(again).keys()
