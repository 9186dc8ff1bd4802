"""DCGAN: two losses of one graph, and backward through it twice."""

import chainer
import numpy as np
from example_runs import DEVICE, DEVICES, assert_same_curve, load, read_log, run, weights

KEYS = ["generator/loss", "critic/loss"]


def test_losses_are_numpy_s(tmp_path):
    """Noise is NumPy's, so that it is the same."""
    logs = []
    for device in DEVICES:
        out = tmp_path / device.strip("@")
        run("dcgan", device, out, "--iterations", 30)
        logs.append(read_log(out))
    assert_same_curve(logs[1][:2], logs[0][:2], KEYS, 1e-3)
    assert_same_curve(logs[1], logs[0], KEYS, 5e-3)


def test_both_networks_learn_for_200_iterations(tmp_path):
    dcgan = load("dcgan")
    trainer = run("dcgan", DEVICE, tmp_path)
    log = read_log(tmp_path)
    assert len(log) == 20
    assert all(np.isfinite(entry[key]) for entry in log for key in KEYS)
    # The critic soon tells drawn from real better than a coin (2 ln 2).
    assert min(entry["critic/loss"] for entry in log) < 1
    np.random.seed(0)
    starts = {"generator": dcgan.Generator(16, 32), "critic": dcgan.Critic(32)}
    for name, start in starts.items():
        before = weights(start)
        after = weights(trainer.updater.get_optimizer(name).target)
        assert after.keys() == before.keys() and after
        for parameter, value in after.items():
            assert np.isfinite(value).all()
            moved = np.abs(value - before[parameter]).max()
            # The gradient of a bias before a normalization is nothing but rounding.
            assert moved > (1e-3 if parameter.endswith("/W") else 0), (name, parameter)
    for iteration in (100, 200):
        picture = (tmp_path / f"drawn-{iteration}.png").read_bytes()
        assert picture.startswith(b"\x89PNG")


def test_snapshots_hold_both_optimizers(tmp_path):
    """Steps go on from a snapshot as they did in the run that wrote it, given the same noise."""
    whole = run("dcgan", DEVICE, tmp_path, "--iterations", 100)
    snapshot = tmp_path / "trainer-100.npz"

    def one_more(trainer):
        np.random.seed(5)
        trainer.updater.update()
        optimizers = trainer.updater.get_all_optimizers()
        return {name: weights(optimizer.target) for name, optimizer in optimizers.items()}

    fresh = run("dcgan", DEVICE, tmp_path / "fresh", "--iterations", 1)
    chainer.serializers.load_npz(snapshot, fresh)
    assert fresh.updater.iteration == 100
    expected, actual = one_more(whole), one_more(fresh)
    for name, values in expected.items():
        for parameter, value in values.items():
            np.testing.assert_array_equal(actual[name][parameter], value)
