"""Chainer's links on a daemon's device: forward, the parameters' gradients, serialization."""

import inspect

import chainer
import chainer.functions as F
import chainer.links as L
import chx
import numpy as np
import pytest


def f(*shape):
    return lambda rng: rng.uniform(-1, 1, shape).astype("f")


def i(high, *shape, low=0):
    return lambda rng: rng.integers(low, high, shape).astype("i")


def sequences(rng):
    return [rng.uniform(-1, 1, (n, 3)).astype("f") for n in (4, 2, 1)]


LINKS = {
    "Bias": (lambda: L.Bias(1, (3,)), f(2, 3, 4)),
    "Bilinear": (lambda: L.Bilinear(3, 4, 5), f(2, 3), f(2, 4)),
    "ChildSumTreeLSTM": (
        lambda: L.ChildSumTreeLSTM(3, 4),
        f(2, 4),
        f(2, 4),
        f(2, 4),
        f(2, 4),
        f(2, 3),
    ),
    "Convolution1D": (lambda: L.Convolution1D(3, 4, 3, 1, 1), f(2, 3, 6)),
    "Convolution2D": (lambda: L.Convolution2D(None, 4, 3, 2, 1, groups=2), f(2, 4, 6, 5)),
    "Convolution3D": (lambda: L.Convolution3D(2, 3, 2), f(1, 2, 4, 3, 4)),
    "ConvolutionND": (lambda: L.ConvolutionND(2, 3, 4, 3), f(2, 3, 6, 5)),
    "Deconvolution1D": (lambda: L.Deconvolution1D(3, 4, 3, 2), f(2, 3, 4)),
    "Deconvolution2D": (lambda: L.Deconvolution2D(3, 4, 4, 2, 1), f(2, 3, 4, 3)),
    "Deconvolution3D": (lambda: L.Deconvolution3D(2, 3, 2), f(1, 2, 3, 2, 2)),
    "DeconvolutionND": (lambda: L.DeconvolutionND(2, 3, 4, 3), f(2, 3, 4, 3)),
    "DeformableConvolution2D": (lambda: L.DeformableConvolution2D(3, 4, 3, 1, 1), f(2, 3, 5, 4)),
    "DepthwiseConvolution2D": (lambda: L.DepthwiseConvolution2D(3, 2, 3), f(2, 3, 5, 4)),
    "DilatedConvolution2D": (lambda: L.DilatedConvolution2D(3, 4, 3, dilate=2), f(2, 3, 7, 6)),
    "EmbedID": (lambda: L.EmbedID(5, 3, ignore_label=-1), i(5, 4, 2, low=-1)),
    "GRU": (lambda: L.GRU(3, 4), f(2, 3)),
    "Highway": (lambda: L.Highway(4), f(3, 4)),
    "Inception": (lambda: L.Inception(4, 2, 2, 3, 2, 3, 2), f(2, 4, 6, 5)),
    "InceptionBN": (lambda: L.InceptionBN(4, 2, 2, 3, 2, 3, "max", 2), f(2, 4, 6, 5)),
    "Linear": (lambda: L.Linear(None, 4), f(2, 3, 2)),
    "LocalConvolution2D": (lambda: L.LocalConvolution2D(3, 4, (5, 4), 3), f(2, 3, 5, 4)),
    "LSTM": (lambda: L.LSTM(3, 4), f(2, 3)),
    "MLPConvolution2D": (lambda: L.MLPConvolution2D(3, (4, 2), 3), f(2, 3, 5, 4)),
    "NaryTreeLSTM": (lambda: L.NaryTreeLSTM(3, 4, 2), f(2, 4), f(2, 4), f(2, 4), f(2, 4), f(2, 3)),
    "NStepBiGRU": (lambda: L.NStepBiGRU(2, 3, 4, 0.0), None, sequences),
    "NStepBiLSTM": (lambda: L.NStepBiLSTM(2, 3, 4, 0.0), None, None, sequences),
    "NStepBiRNNReLU": (lambda: L.NStepBiRNNReLU(2, 3, 4, 0.0), None, sequences),
    "NStepBiRNNTanh": (lambda: L.NStepBiRNNTanh(2, 3, 4, 0.0), None, sequences),
    "NStepGRU": (lambda: L.NStepGRU(2, 3, 4, 0.0), None, sequences),
    "NStepLSTM": (lambda: L.NStepLSTM(2, 3, 4, 0.0), None, None, sequences),
    "NStepRNNReLU": (lambda: L.NStepRNNReLU(2, 3, 4, 0.0), None, sequences),
    "NStepRNNTanh": (lambda: L.NStepRNNTanh(2, 3, 4, 0.0), None, sequences),
    "Parameter": (lambda: L.Parameter(np.arange(6, dtype="f").reshape(2, 3)),),
    "Scale": (lambda: L.Scale(1, (3,), True), f(2, 3, 4)),
    "StatefulGRU": (lambda: L.StatefulGRU(3, 4), f(2, 3)),
    "StatelessGRU": (lambda: L.StatelessGRU(3, 4), f(2, 4), f(2, 3)),
    "StatefulMGU": (lambda: L.StatefulMGU(3, 4), f(2, 3)),
    "StatelessMGU": (lambda: L.StatelessMGU(3, 4), f(2, 4), f(2, 3)),
    "StatefulPeepholeLSTM": (lambda: L.StatefulPeepholeLSTM(3, 4), f(2, 3)),
    "StatefulZoneoutLSTM": (lambda: L.StatefulZoneoutLSTM(3, 4, 0.0, 0.0), f(2, 3)),
    "StatelessLSTM": (lambda: L.StatelessLSTM(3, 4), f(2, 4), f(2, 4), f(2, 3)),
    "BatchNormalization": (lambda: L.BatchNormalization(3), f(4, 3, 2, 2)),
    "BatchRenormalization": (lambda: L.BatchRenormalization(3), f(4, 3, 2)),
    "DecorrelatedBatchNormalization": (lambda: L.DecorrelatedBatchNormalization(4, 2), f(6, 4, 2)),
    "GroupNormalization": (lambda: L.GroupNormalization(2), f(3, 4, 2)),
    "LayerNormalization": (lambda: L.LayerNormalization(4), f(3, 4)),
    "Maxout": (lambda: L.Maxout(3, 4, 2), f(2, 3)),
    "PReLU": (lambda: L.PReLU((4,)), f(3, 4)),
    "Swish": (lambda: L.Swish((4,)), f(3, 4)),
    "CRF1d": (lambda: _CRF(), f(2, 3), f(2, 3), f(1, 3), i(3, 2), i(3, 2), i(3, 1)),
    "BinaryHierarchicalSoftmax": (
        lambda: L.BinaryHierarchicalSoftmax(3, ((0, 1), (2, (3, 4)))),
        f(6, 3),
        i(5, 6),
    ),
    "Classifier": (lambda: L.Classifier(L.Linear(3, 4)), f(5, 3), i(4, 5)),
}

# Their samples are random, or what they need is not here.
ELSEWHERE = {
    "BlackOut": "test_links_that_sample",
    "NegativeSampling": "test_links_that_sample",
    "SimplifiedDropconnect": "test_simplified_dropconnect",
    "TheanoFunction": "Theano",
}
VISION = {
    "GoogLeNet",
    "ResNet50Layers",
    "ResNet101Layers",
    "ResNet152Layers",
    "VGG16Layers",
    "VGG19Layers",
}


class _CRF(L.CRF1d):
    def __init__(self):
        super().__init__(3, initial_cost=np.arange(9, dtype="f").reshape(3, 3) / 9)

    def forward(self, *xs):
        return super().forward(list(xs[:3]), list(xs[3:]))


def test_all_links_are_here():
    classes = {name for name, value in vars(L).items() if inspect.isclass(value)}
    assert classes == LINKS.keys() | ELSEWHERE.keys() | VISION


def outputs(result):
    if isinstance(result, chainer.Variable):
        return [result]
    return [y for part in result if part is not None for y in outputs(part)]


def variable(x, place):
    if isinstance(x, list):
        return [variable(part, place) for part in x]
    return chainer.Variable(place.send(x), requires_grad=x.dtype.kind == "f")


def to_host(array):
    return chainer.get_device("@numpy").send(array)


def run(link, inputs, place, seed):
    rng = np.random.default_rng(seed)
    link.to_device(place)
    sent = [None if x is None else variable(x, place) for x in inputs]
    with chainer.using_device(place):
        ys = outputs(link(*sent))
        link.cleargrads()
        loss = 0
        for y in ys:
            loss = loss + F.sum(y * place.send(rng.uniform(-1, 1, y.shape).astype(y.dtype)))
        loss.backward()
    found = {f"output {n}": y.array for n, y in enumerate(ys)}
    found |= {
        f"grad {n}": x.grad
        for n, x in enumerate(sent)
        if isinstance(x, chainer.Variable) and x.requires_grad
    }
    found |= {f"grad {name}": p.grad for name, p in link.namedparams()}
    for child in link.links():
        found |= {f"{type(child).__name__}.{n}": getattr(child, n) for n in child._persistent}
    return {name: None if a is None else to_host(a) for name, a in found.items()}


@pytest.mark.parametrize("name", LINKS)
def test_like_numpy(name, rng, device):
    make, *inputs = LINKS[name]
    seed = int(rng.integers(2**31))
    inputs = [x and x(np.random.default_rng(seed + n)) for n, x in enumerate(inputs)]
    link = make()
    remote = link.copy("copy")  # before its parameters are initialized, if they wait for an input
    np.random.seed(seed)
    expected = run(link, inputs, chainer.get_device("@numpy"), seed)
    if not all(p.is_initialized for p in remote.params()):
        # Initialized on the device, with other numbers.
        with chainer.using_device(device):
            remote.to_device(device)
            remote(*[device.send(x) for x in inputs])
    remote.copyparams(link, copy_persistent=False)
    assert any(name.startswith("grad") for name in expected)
    actual = run(remote, inputs, device, seed)
    assert actual.keys() == expected.keys()
    for key, value in expected.items():
        if value is None:
            assert actual[key] is None
        else:
            assert np.shape(actual[key]) == np.shape(value)
            # Behind several batch normalizations small gradients are differences of larger ones.
            atol = 1e-5 + 5e-5 * np.max(np.abs(value), initial=0)
            np.testing.assert_allclose(actual[key], value, 1e-4, atol, err_msg=key)
    assert chx.chainer.fallbacks() == {}


@pytest.mark.parametrize("make", [L.NegativeSampling, L.BlackOut])
def test_links_that_sample(make, rng, device):
    link = make(3, [10] * 40, 2)
    link.W.array[...] = rng.uniform(-1, 1, link.W.shape)
    link.to_device(device)
    x = chainer.Variable(device.send(f(5, 3)(rng)))
    loss = link(x, device.send(i(40, 5)(rng)))
    link.cleargrads()
    loss.backward()
    assert np.isfinite(float(loss.array)) and to_host(link.W.grad).any() and to_host(x.grad).any()


def test_simplified_dropconnect(rng, device):
    link = L.SimplifiedDropconnect(3, 4).to_device(device)
    x = device.send(f(5, 3)(rng))
    y = link(x)
    F.sum(y).backward()
    assert y.shape == (5, 4) and to_host(link.W.grad).any()
