"""Networks for images with weights of files that the user has: Chainer's npz, and Caffe's."""

import chainer
import chainer.links as L
import chx
import numpy as np
import pytest
from chainer.links.caffe.protobuf3 import caffe_pb2
from chainer.links.model.vision import resnet, vgg

HOST = chainer.get_device("@numpy")


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """A root of data sets of the test's own, and no network."""
    monkeypatch.setattr(chainer.dataset.download, "_dataset_root", str(tmp_path / "root"))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def made(name, rng):
    """The network, with numbers at random wherever it has some: also what training would change."""
    model = getattr(L, name)(pretrained_model=None)
    for path, param in model.namedparams():
        if path.endswith(("/gamma", "/beta", "/b")):
            param.array[...] = rng.uniform(0.5, 1, param.shape)
    for link in model.links():
        if isinstance(link, L.BatchNormalization):
            link.avg_mean[...] = rng.uniform(-0.5, 0.5, link.avg_mean.shape)
            link.avg_var[...] = rng.uniform(1, 2, link.avg_var.shape)
    return model


def values(model):
    found = {path: HOST.send(param.array) for path, param in model.namedparams()}
    for path, link in model.namedlinks():
        if isinstance(link, L.BatchNormalization):
            found |= {f"{path}/{n}": HOST.send(getattr(link, n)) for n in ("avg_mean", "avg_var")}
    return found


def assert_same_network(found, expected, size, layers, device, rng):
    """The weights, and features of an image and predictions, are those of `expected` on NumPy."""
    assert found.device == device
    assert all(isinstance(param.array, chx.ndarray) for param in found.params())
    ours, theirs = values(found), values(expected)
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
    image = rng.integers(0, 256, (60, 40, 3)).astype("uint8")
    results = []
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        for model in (expected, found):
            features = model.extract([image], layers=layers, size=size)
            results.append([HOST.send(features[name].array) for name in layers])
    for a, b in zip(*results, strict=True):
        assert a.std() > 0
        np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-3 * np.abs(a).max())
    assert not chx.chainer.fallbacks()


# name of the network -> (size of images, layers)
NETWORKS = {
    "ResNet50Layers": ((64, 64), ["conv1", "res3", "pool5", "prob"]),
    "GoogLeNet": ((224, 224), ["pool2", "inception_4a", "prob"]),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_an_npz_file_of_numpy_s(name, device, alone, rng):
    expected = made(name, rng)
    path = str(alone / "network.npz")
    chainer.serializers.save_npz(path, expected, compression=False)
    loaded = getattr(L, name)(pretrained_model=path)
    loaded.to_device(device)
    assert_same_network(loaded, expected, *NETWORKS[name], device, rng)


def test_an_npz_file_into_a_network_on_the_device(device, alone, rng):
    expected = made("ResNet50Layers", rng)
    path = str(alone / "network.npz")
    chainer.serializers.save_npz(path, expected, compression=False)
    model = L.ResNet50Layers(pretrained_model=None)
    model.to_device(device)
    chainer.serializers.load_npz(path, model)
    assert_same_network(model, expected, *NETWORKS["ResNet50Layers"], device, rng)


class CaffeFile:
    """A caffemodel: layers of these names with these weights."""

    def __init__(self):
        self._net = caffe_pb2.NetParameter()

    def _layer(self, kind, name, *arrays):
        layer = self._net.layer.add(name=name, type=kind, bottom=["x"], top=[name])
        for array in arrays:
            blob = layer.blobs.add()
            blob.shape.dim.extend(array.shape)
            blob.data.extend(array.ravel())
        return layer

    def convolution(self, name, link):
        arrays = [p.array for p in (link.W, link.b) if p is not None]
        param = self._layer("Convolution", name, *arrays).convolution_param
        param.kernel_size.append(link.W.shape[-1])
        param.bias_term = len(arrays) == 2

    def linear(self, name, link):
        self._layer("InnerProduct", name, link.W.array, link.b.array)

    def normalization(self, name, link):
        """Caffe has two layers for it: "bn" with sums of 1 batch, and "scale"."""
        one = np.ones(1, "f")
        layer = self._layer("BatchNorm", f"bn{name}", link.avg_mean, link.avg_var, one)
        layer.batch_norm_param.eps = link.eps
        layer = self._layer("Scale", f"scale{name}", link.gamma.array, link.beta.array)
        layer.scale_param.bias_term = True

    def write(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self._net.SerializeToString())


def resnet50_file(model):
    file = CaffeFile()
    file.convolution("conv1", model.conv1)
    file.normalization("_conv1", model.bn1)
    for stage, count in (("2", 3), ("3", 4), ("4", 6), ("5", 3)):
        blocks = getattr(model, f"res{stage}")
        for i in range(count):
            block = blocks.a if i == 0 else getattr(blocks, f"b{i}")
            branches = ["2a", "2b", "2c"] + ["1"] * (i == 0)
            for number, branch in enumerate(branches, 1):
                name = f"{stage}{'abcdef'[i]}_branch{branch}"
                file.convolution(f"res{name}", getattr(block, f"conv{number}"))
                file.normalization(name, getattr(block, f"bn{number}"))
    file.linear("fc1000", model.fc6)
    return file


def vgg16_file(model):
    file = CaffeFile()
    for name, link in model.namedlinks(skipself=True):
        (file.linear if isinstance(link, L.Linear) else file.convolution)(name[1:], link)
    return file


@pytest.fixture
def narrow(monkeypatch):
    """Networks of Chainer's with a sixteenth of the channels: Python's protobuf takes minutes for all."""

    def narrowed(kind):
        def make(*counts_and_more, **options):
            count = 1 if kind is L.BatchNormalization else 2
            counts = [n if n == 3 else n // 16 for n in counts_and_more[:count]]
            return kind(*counts, *counts_and_more[count:], **options)

        return make

    monkeypatch.setattr(resnet, "BatchNormalization", narrowed(L.BatchNormalization))
    for module in (resnet, vgg):
        for kind in (L.Convolution2D, L.Linear):
            monkeypatch.setattr(module, kind.__name__, narrowed(kind))


@pytest.mark.usefixtures("narrow")
def test_resnet50_of_caffe_s_file_where_chainer_looks_for_it(device, alone, rng, capfd):
    expected = made("ResNet50Layers", rng)
    folder = alone / "root/pfnet/chainer/models"
    resnet50_file(expected).write(folder / "ResNet-50-model.caffemodel")
    loaded = L.ResNet50Layers()
    assert "Now loading caffemodel" in capfd.readouterr().err
    loaded.to_device(device)
    assert_same_network(loaded, expected, *NETWORKS["ResNet50Layers"], device, rng)
    # From now on it takes the npz file that it has written.
    assert (folder / "ResNet-50-model.npz").exists()
    (folder / "ResNet-50-model.caffemodel").unlink()
    L.ResNet50Layers()
    assert "caffemodel" not in capfd.readouterr().err


@pytest.mark.usefixtures("narrow")
def test_vgg16_of_a_caffe_file_anywhere(device, alone, rng):
    expected = made("VGG16Layers", rng)
    vgg16_file(expected).write(alone / "net.caffemodel")
    L.VGG16Layers.convert_caffemodel_to_npz(str(alone / "net.caffemodel"), str(alone / "net.npz"))
    loaded = L.VGG16Layers(pretrained_model=str(alone / "net.npz"))
    loaded.to_device(device)
    layers = ["conv1_1", "pool3", "fc7", "prob"]
    assert_same_network(loaded, expected, (224, 224), layers, device, rng)


@pytest.mark.parametrize("name", ["ResNet50Layers", "GoogLeNet", "VGG16Layers"])
def test_there_is_no_such_file(name, alone):
    with pytest.raises(FileNotFoundError, match="No such file or directory: '.*/network.npz'"):
        getattr(L, name)(pretrained_model=str(alone / "network.npz"))


@pytest.mark.parametrize("name", ["GoogLeNet", "VGG16Layers"])
def test_there_is_no_network(name, alone, capfd):
    """Chainer says from where it downloads, and Python that this did not work."""
    with pytest.raises(OSError, match="urlopen error"):
        getattr(L, name)()
    assert "Downloading from http" in capfd.readouterr().err
    assert not list(alone.rglob("*.npz"))
