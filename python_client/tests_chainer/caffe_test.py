"""Networks to and from Caffe's files."""

import chainer
import chainer.functions as F
import chainer.links as L
import chx
import numpy as np
import pytest
from chainer.exporters import caffe
from chainer.links.caffe import CaffeFunction

HOST = chainer.get_device("@numpy")


class Net(chainer.Chain):
    """All kinds of layers that the exporter knows."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv = L.Convolution2D(3, 8, 3, pad=1)
            self.norm = L.BatchNormalization(8)
            self.plain = L.BatchNormalization(8, use_gamma=False)
            self.deconv = L.Deconvolution2D(8, 4, 2, 2, nobias=True)
            self.linear = L.Linear(4 * 2 * 4 * 4, 5)

    def forward(self, x):
        h = F.relu(self.norm(self.conv(x)))
        h = F.max_pooling_2d(self.plain(h), 2)
        h = F.leaky_relu(self.deconv(h), 0.1)
        h = F.average_pooling_2d(h, 2)
        h = F.local_response_normalization(h)
        h = F.concat([h, F.sigmoid(h)], axis=1)
        return F.softmax(self.linear(F.reshape(h + h, (len(h), -1))))


@pytest.fixture
def net(rng):
    """One that has seen images, so that its statistics are not those it began with."""
    net = Net()
    for p in net.params():
        p.array[...] = rng.uniform(-1, 1, p.shape)
    for _ in range(3):
        net(rng.uniform(-1, 1, (4, 3, 8, 8)).astype("f"))
    return net


def exported(net, x, device, out, **options):
    net.to_device(device)
    out.mkdir()
    caffe.export(net, [chainer.Variable(device.send(x))], str(out), **options)
    return {file.name: file.read_bytes() for file in out.iterdir()}


def test_files_are_numpy_s(net, rng, device, tmp_path):
    x = rng.uniform(-1, 1, (2, 3, 8, 8)).astype("f")
    expected = exported(net, x, HOST, tmp_path / "numpy")
    session = chx._core._get_default_session()
    before = session.stats()["round_trips"]
    found = exported(net, x, device, tmp_path / "device")
    assert session.stats()["round_trips"] - before <= 20  # one for each array
    assert found.keys() == {"chainer_model.prototxt", "chainer_model.caffemodel"}
    assert found == expected
    del expected["chainer_model.caffemodel"]
    assert exported(net, x, device, tmp_path / "graph", export_params=False) == expected
    assert not chainer.get_function_hooks()


def test_there_and_back(net, rng, device, tmp_path):
    x = rng.uniform(-1, 1, (2, 3, 8, 8)).astype("f")
    exported(net, x, device, tmp_path / "out")
    with chainer.using_config("train", False):
        expected = HOST.send(net(device.send(x)).array)
        results = []
        for place in (HOST, device):
            function = CaffeFunction(str(tmp_path / "out" / "chainer_model.caffemodel"))
            function.to_device(place)
            (y,) = function({"data": place.send(x)}, outputs=[function.layers[-1][0]])
            results.append(HOST.send(y.array))
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_functions_that_have_no_layer(device, tmp_path):
    class Tangent(chainer.Chain):
        def forward(self, x):
            return F.tanh(x)

    x = chainer.Variable(device.send(np.ones((1, 2), "f")))
    with pytest.raises(Exception, match="Cannot convert.*Tanh"):
        caffe.export(Tangent(), [x], str(tmp_path))
    assert not chainer.get_function_hooks()
