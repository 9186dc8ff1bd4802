"""LeNet-5, VGG16 and residual networks: steps as NumPy Chainer takes them, and what they leave."""

import gc

import chainer
import chainer.functions as F
import chx
import numpy as np
import pytest
from chainer import gradient_check
from example_runs import DEVICE, DEVICES, daemon_memory, load, run, weights


def floats(losses):
    return [float(loss) for loss in losses]


@pytest.fixture
def in_float64():
    with chainer.using_config("dtype", np.dtype("float64")):
        yield


def assert_same_run(results, rtol=1e-7, atol=1e-9):
    """Losses and every parameter of a run on NumPy and one in the daemon."""
    (local, local_losses, _), (remote, losses, _) = results
    np.testing.assert_allclose(floats(losses), floats(local_losses), rtol=rtol)
    expected = weights(local)
    for name, value in weights(remote).items():
        np.testing.assert_allclose(value, expected[name], rtol, atol, err_msg=name)


@pytest.mark.parametrize("form", ["chain", "list"])
def test_lenet5_learns_32_images_by_heart(form, tmp_path):
    results = [run("lenet5", device, tmp_path, "--form", form) for device in DEVICES]
    for _, losses, accuracy in results:
        assert accuracy == 1
        assert float(losses[-1]) < 0.1 * float(losses[0])
    local, remote = (floats(losses) for _, losses, _ in results)
    np.testing.assert_allclose(remote[:30], local[:30], rtol=1e-3)


def test_lenet5_s_shapes_and_gradients(device, rng, in_float64):
    model = load("lenet5").LeNet5()
    remote = model.copy("copy").to_device(device)
    values = rng.uniform(0, 1, (2, 1, 28, 28))
    grads = []
    for net, x in ((model, values), (remote, device.send(values))):
        assert net(x).shape == (2, 10)
        with chainer.using_config("train", False):
            y = net(x)
        np.testing.assert_allclose(float(F.sum(y).array), 2)
        net.cleargrads()
        F.sum(F.square(net(x))).backward()
        grads.append([chainer.get_device("@numpy").send(p.grad) for p in net.params()])
    for a, b in zip(*grads, strict=True):
        assert np.abs(a).max() > 0
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-14)
    with chainer.using_device(device):
        # So small that hardly a maximum is another one.
        gradient_check.check_backward(
            lambda x: F.sum(F.square(remote(x))), device.send(values[:1]), None, eps=1e-6, atol=1e-5
        )


def test_vgg16_takes_numpy_s_steps(tmp_path, in_float64):
    arguments = ("--steps", 3, "--dropout", 0, "--batch-size", 8, "--width", 4)
    results = [run("vgg16", device, tmp_path, *arguments) for device in DEVICES]
    assert_same_run(results)
    assert len(weights(results[1][0])) == 32


def test_vgg16_leaves_nothing_behind(tmp_path):
    """Dropout, and what backward keeps: the daemon's memory stays, as do this process's arrays."""
    run("vgg16", DEVICE, tmp_path, "--steps", 3)
    gc.collect()
    arrays, memory = count_arrays(), daemon_memory()
    for steps in (10, 20):
        _, losses, _ = run("vgg16", DEVICE, tmp_path, "--steps", steps)
        assert np.isfinite(floats(losses)).all() and len(losses) == steps
        del losses, _
        gc.collect()
        assert count_arrays() <= arrays + 5
        assert daemon_memory() < memory + 8 * 2**20


def count_arrays():
    return sum(isinstance(thing, chx.ndarray) for thing in gc.get_objects())


def test_resnet_takes_numpy_s_steps(tmp_path, in_float64):
    results = [run("resnet", device, tmp_path, "--steps", 2) for device in DEVICES]
    assert_same_run(results)
    (local, _, right), (remote, _, found) = results
    assert right == found
    compared = 0
    for link, other in zip(local.links(), remote.links(), strict=True):
        if isinstance(link, chainer.links.BatchNormalization):
            for name in ("avg_mean", "avg_var"):
                value = chx.to_numpy(getattr(other, name))
                np.testing.assert_allclose(value, getattr(link, name), 1e-7, 1e-9)
                compared += 1
    assert compared == 2 * (1 + 4 * 4)


def test_resnet152_s_graph(device, tmp_path):
    """Its 152 layers, as narrow as can be: as many functions as on NumPy, and their gradients."""
    resnet = load("resnet")
    x = np.random.uniform(0, 1, (2, 3, 32, 32)).astype("f")
    model = resnet.ResNet([3, 8, 36, 3], 1)
    found = []
    for place in (chainer.get_device("@numpy"), device):
        model.to_device(place)
        model.cleargrads()
        loss = F.sum(F.square(model(place.send(x))))
        loss.backward()
        graph = chainer.computational_graph.build_computational_graph([loss])
        found.append((len(graph.nodes), len(graph.edges)))
        host = chainer.get_device("@numpy")
        assert all(np.isfinite(host.send(p.grad)).all() for p in model.params())
    assert found[0] == found[1]
    assert found[0][0] > 1000
