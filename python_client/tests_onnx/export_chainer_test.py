"""Models of Chainer's on the daemon, exported by chx.onnx.export, against onnxruntime."""

import chainer
import chainer.functions as F
import chainer.links as L
import chx
import chx.chainer
import chx.onnx
import numpy as np
import onnxruntime
import pytest

onnxruntime.set_default_logger_severity(3)


class Mlp(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(None, 8)  # made in the call
            self.l2 = L.Linear(8, 3, nobias=True)

    def forward(self, x):
        return self.l2(F.dropout(F.relu(self.l1(x)), 0.5))


class Convolutions(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv = L.Convolution2D(4, 6, 3, stride=2, pad=1, groups=2)
            self.norm = L.BatchNormalization(6)
            self.dilated = L.DilatedConvolution2D(6, 4, 3, pad=2, dilate=2)
            self.deconv = L.Deconvolution2D(4, 2, 2, stride=2)
            self.prelu = L.PReLU()

    def forward(self, x):
        h = F.elu(self.norm(self.conv(x)))
        h = F.average_pooling_2d(F.max_pooling_2d(self.dilated(h), 2), 2)
        h = self.prelu(self.deconv(h))
        return F.softmax(F.flatten(F.concat([h, F.sigmoid(h)], axis=1))[None]), F.tanh(h)


class Mixed(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(11, 6)
            self.norm = L.LayerNormalization(6)

    def forward(self, ids, x):
        h = self.norm(F.sum(self.embed(ids), axis=1))
        h = F.matmul(h, x, transb=True) * 0.5 + F.exp(-F.square(F.max(x, axis=1)))
        return {"scores": F.log_softmax(h), "best": F.argmax(h, axis=1)}


CASES = {
    "mlp": (Mlp, [(5, 4)]),
    "convolutions": (Convolutions, [(2, 4, 15, 17)]),
    "mixed": (Mixed, [(11, 3, 5), (4, 6)]),
}


# Of those that an operator takes as they are.
PARAMETERS = {
    "mlp": ["l1.W", "l1.b", "l2.W"],
    "convolutions": ["norm.gamma", "norm.beta", "deconv.W", "deconv.b"],
    "mixed": ["embed.W"],
}


@pytest.mark.parametrize("name", CASES)
def test_a_model_is_onnxruntimes(name, rng):
    make, shapes = CASES[name]
    device = chainer.get_device("native:0")
    model = make().to_device(device)
    arrays = [
        rng.integers(0, s[0], s[1:]).astype("i") if len(s) == 3 else rng.normal(size=s).astype("f")
        for s in shapes
    ]
    if name == "convolutions":  # statistics that are not those it began with
        model(device.send(arrays[0]))
    exported = chx.onnx.export(model, [device.send(a) for a in arrays])
    with chainer.using_config("train", False):
        result = model(*[device.send(a) for a in arrays])
    result = list(result.values()) if isinstance(result, dict) else result
    result = result if isinstance(result, (list, tuple)) else [result]
    session = onnxruntime.InferenceSession(
        exported.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    found = session.run(None, {f"input_{i}": a for i, a in enumerate(arrays)})
    for got, want in zip(found, result, strict=True):
        want = chx.to_numpy(want.array)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    stored = {t.name: tuple(t.dims) for t in exported.graph.initializer}
    shapes = {path[1:].replace("/", "."): p.shape for path, p in model.namedparams()}
    for parameter in PARAMETERS[name]:
        assert stored[parameter] == shapes[parameter]
    assert not chx.chainer.fallbacks()
