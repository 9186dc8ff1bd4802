"""A model on two devices, or a copy on each: the same weights as on one."""

import chainer
import chainer.functions as F
import chx
import numpy as np
import pytest
from example_runs import load, read_log, run, weights


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The weights of NumPy, and how many of the others' test images it recognizes."""
    model, accuracy = run("parallel", "@numpy", tmp_path_factory.mktemp("numpy"), "--way", "single")
    assert accuracy > 0.8
    return weights(model), accuracy


@pytest.mark.parametrize("way", ["single", "model", "loop", "updater"])
def test_every_way_gives_the_weights_of_one_device(way, tmp_path, expected):
    model, accuracy = run("parallel", "native:0", tmp_path, "--way", way)
    start = load("parallel").MLP(100)
    found = weights(model)
    assert found.keys() == expected[0].keys()
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[0][name], rtol=1e-3, atol=1e-5)
        assert np.abs(value).max() > 0
    assert start.l1.W.array is None
    assert abs(accuracy - expected[1]) <= 0.002
    places = {p.device.name for p in model.params()}
    assert places == ({"native:0", "native:1"} if way == "model" else {"native:0"})


def test_reports_of_a_parallel_updater_are_of_the_main_model(tmp_path):
    run("parallel", "native:0", tmp_path, "--way", "updater", "--steps", 5)
    (entry,) = read_log(tmp_path)
    assert entry["main/loss"] > 0 and entry["second/loss"] > 0
    assert abs(entry["main/loss"] - entry["second/loss"]) < 0.5


def test_copies_between_devices_are_differentiated_twice(rng):
    x = chainer.Variable(chx.array(rng.normal(size=(3,)), device="native:0"))
    y = F.copy(x, "native:1")
    assert y.device.name == "native:1"
    z = F.copy(y * y * y, "native:0")
    (gx,) = chainer.grad([F.sum(z)], [x], enable_double_backprop=True)
    assert gx.device.name == "native:0"
    F.sum(gx).backward()
    np.testing.assert_allclose(chx.to_numpy(x.grad), 6 * chx.to_numpy(x.array))


@pytest.mark.parametrize("hook", ["GradientClipping", "WeightDecay"])
def test_hooks_see_the_parameters_of_both_devices(rng, hook):
    """A norm is over all of them."""
    parallel = load("parallel")
    x, t = rng.uniform(size=(8, 784)).astype("f"), rng.integers(0, 10, 8).astype("i")
    whole = parallel.MLP(10)
    whole(x)
    first, second = (chainer.get_device(f"native:{i}") for i in range(2))
    split = parallel.SplitMLP(whole.copy("copy"), first, second)
    for model, device in ((whole, chainer.get_device("@numpy")), (split, first)):
        # Not Adam: it divides a gradient near 0, which rounding decides, by itself.
        optimizer = chainer.optimizers.MomentumSGD(0.1).setup(model)
        optimizer.add_hook(getattr(chainer.optimizer_hooks, hook)(0.3))
        xs, ts = device.send((x, t))
        for _ in range(3):
            optimizer.update(lambda m=model, xs=xs, ts=ts: F.softmax_cross_entropy(m(xs), ts))
    expected = weights(whole)
    for name, value in weights(split).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-5)
