"""Mushrooms with a Trainer and its reports: on the daemon as on NumPy."""

import os
import re
import subprocess
import sys

import chainer
import numpy as np
import pytest
from example_runs import (
    DEVICE,
    DEVICES,
    EXAMPLES,
    assert_equal_weights,
    assert_same_curve,
    read_log,
    run,
    weights,
)

EPOCHS = 50
KEYS = ["main/loss", "validation/main/loss", "main/accuracy", "validation/main/accuracy"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder and the trainer of a whole run on each device."""
    results = {}
    for device in DEVICES:
        out = tmp_path_factory.mktemp(device.strip("@").replace(":", ""))
        results[device] = out, run("mushrooms", device, out, "--epochs", EPOCHS)
    return results


def test_it_learns_the_same_curve(trained):
    """Losses differ by what float32 sums in another order make of 2,800 steps."""
    local, remote = (read_log(trained[device][0]) for device in DEVICES)
    assert_same_curve(remote[:5], local[:5], KEYS, 1e-5)
    assert_same_curve(remote, local, KEYS, 2e-2)
    assert remote[-1]["validation/main/accuracy"] > 0.97
    assert remote[-1]["main/loss"] < remote[0]["main/loss"] / 5


def test_it_writes_everything(trained):
    out, trainer = trained[DEVICE]
    names = set(os.listdir(out))
    assert {"log", "loss.png", "accuracy.png", "cg.dot"} <= names
    assert trainer.updater.iteration == 56 * EPOCHS
    expected = {f"snapshot_iter_{56 * n}" for n in range(10, EPOCHS + 1, 10)}
    assert {name for name in names if name.startswith("snapshot")} == expected
    assert (out / "loss.png").read_bytes().startswith(b"\x89PNG")
    for entry in read_log(out):
        assert {"epoch", "iteration", "elapsed_time", *KEYS} <= entry.keys()


def edges(out):
    text = (out / "cg.dot").read_text()
    labels = dict(re.findall(r'(\d+) \[label="([^"]*)"', text))
    return sorted((labels[a], labels[b]) for a, b in re.findall(r"(\d+) -> (\d+);", text))


def test_the_graph_is_numpy_s(trained):
    local, remote = (edges(trained[device][0]) for device in DEVICES)
    assert remote == local
    assert len(remote) > 10
    assert not chainer.config.keep_graph_on_report


def test_printed_table(tmp_path):
    """As a user runs it: the script knows nothing of chx."""
    tables = []
    for device in DEVICES:
        script = os.path.join(EXAMPLES, "mushrooms.py")
        arguments = ["--device", device, "--out", tmp_path / device, "--epochs", "2"]
        done = subprocess.run(
            [sys.executable, "-m", "chx", "run", script, *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        tables.append(re.findall(r"[\w./]+", done.stdout.replace("\33[J", "")))
    local, remote = tables
    assert local[:7] == remote[:7] == ["epoch", "iteration", *KEYS, "elapsed_time"]
    # Two rows of six numbers and the time.
    for a, b in zip(local[7:13] + local[14:20], remote[7:13] + remote[14:20], strict=True):
        assert abs(float(a) - float(b)) < 1e-4


def test_resuming_gives_the_same_weights(tmp_path):
    """The snapshot holds the model, the optimizer, the order of the epoch, and the log."""
    arguments = ("--epochs", 2, "--snapshot-epochs", 1)
    whole = run("mushrooms", DEVICE, tmp_path / "whole", *arguments)
    snapshot = tmp_path / "whole" / "snapshot_iter_56"
    other = run(
        "mushrooms", DEVICE, tmp_path / "rest", *arguments, "--seed", 0, "--resume", snapshot
    )
    assert other.updater.iteration == whole.updater.iteration
    target = whole.updater.get_optimizer("main").target
    assert_equal_weights(weights(other.updater.get_optimizer("main").target), weights(target))
    assert_same_curve(read_log(tmp_path / "rest"), read_log(tmp_path / "whole"), KEYS, 1e-12)


def test_a_snapshot_of_the_daemon_resumes_on_numpy(tmp_path):
    arguments = ("--epochs", 2, "--snapshot-epochs", 1)
    remote = run("mushrooms", DEVICE, tmp_path / "remote", *arguments)
    snapshot = tmp_path / "remote" / "snapshot_iter_56"
    local = run("mushrooms", "@numpy", tmp_path / "local", *arguments, "--resume", snapshot)
    expected = weights(remote.updater.get_optimizer("main").target)
    for name, value in weights(local.updater.get_optimizer("main").target).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-3, atol=1e-5)
