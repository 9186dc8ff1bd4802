"""Networks whose weights are downloads: what is said without them, and what they compute at random."""

import chainer
import chainer.links as L
import chx
import numpy as np
import pytest

HOST = chainer.get_device("@numpy")


@pytest.mark.parametrize("layers", [50, 101, 152])
def test_without_weights(layers, tmp_path, monkeypatch):
    monkeypatch.setattr(chainer.dataset.download, "_dataset_root", str(tmp_path))
    name = f"ResNet-{layers}-model.caffemodel"
    with pytest.raises(OSError, match=f"does not exist.*{name}"):
        getattr(L, f"ResNet{layers}Layers")()


def assert_same_features(model, layers, device, rng):
    image = rng.integers(0, 256, (60, 40, 3)).astype(np.uint8)
    found = []
    for place in (HOST, device):
        model.to_device(place)
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            features = model.extract([image], layers=layers)
        assert list(features) == layers
        found.append([HOST.send(features[name].array) for name in layers])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-3 * np.abs(a).max())
    assert found[0][-1].shape == (1, 1000)
    assert not chx.chainer.fallbacks()


def test_resnet50_of_random_weights(device, rng):
    """Images are resized and put in the order of the network; features are of any layer."""
    model = L.ResNet50Layers(pretrained_model=None)
    assert_same_features(model, ["conv1", "res2", "res5", "pool5", "prob"], device, rng)


def test_googlenet_of_random_weights(device, rng):
    model = L.GoogLeNet(pretrained_model=None)
    assert_same_features(model, ["pool1", "inception_4e", "prob"], device, rng)
