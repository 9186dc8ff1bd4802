"""Models for onnx_chainer, one or more for each of its converters.

CASES: name -> (make, shapes): `make()` gives a model or a function, `shapes` are those of its
inputs, or functions of a random generator that make one.
"""

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from onnx_chainer.replace_func import WrappedFunctionNode


def ints(high, *shape):
    return lambda rng: rng.integers(0, high, shape).astype("i")


def positive(*shape):
    return lambda rng: rng.uniform(0.5, 2, shape).astype("f")


def small(*shape):
    return lambda rng: rng.uniform(-0.9, 0.9, shape).astype("f")


class Of(chainer.Chain):
    """A function as a model, with links."""

    def __init__(self, function, **links):
        super().__init__()
        self.function = function
        with self.init_scope():
            for name, link in links.items():
                setattr(self, name, link)

    def forward(self, *xs):
        return self.function(*[getattr(self, n) for n in sorted(self._children)], *xs)


class Network(chainer.Chain):
    """Several layers, with a value that a function makes and nothing keeps."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv = L.Convolution2D(3, 6, 3, pad=1)
            self.norm = L.BatchNormalization(6)
            self.plain = L.BatchNormalization(6, use_gamma=False, use_beta=False)
            self.linear = L.Linear(6 * 4 * 4, 5)

    def forward(self, x):
        h = F.relu(self.norm(self.conv(x)))
        h = F.max_pooling_2d(self.plain(h), 2)
        h = F.dropout(h + F.sigmoid(h) * 2, 0.3)
        return F.softmax(self.linear(F.reshape(h, (len(h), -1))))


def _gru(hx, xs):
    n = 2
    ws = [[chainer.Variable(_weight(hx, i, j, n)) for j in range(6)] for i in range(n)]
    bs = [[chainer.Variable(_weight(hx, i, j, n)[:, 0]) for j in range(6)] for i in range(n)]
    hy, ys = F.n_step_gru(n, 0.0, hx, ws, bs, xs)
    return (hy, *ys)


def _weight(hx, layer, gate, layers):
    hidden = hx.shape[2]
    columns = 3 if layer == 0 and gate < 3 else hidden
    values = np.sin(np.arange(hidden * columns) + 10 * layer + gate).astype("f")
    return hx.device.send(values.reshape(hidden, columns))


def _cross_entropy(x, t):
    return F.softmax_cross_entropy(x, t)


def _group_norm(x):
    device = x.device
    gamma = chainer.Variable(device.send(np.linspace(0.5, 1.5, 4).astype("f")))
    beta = chainer.Variable(device.send(np.linspace(-1, 1, 4).astype("f")))
    return F.group_normalization(x, 2, gamma, beta)


def mask(*shape):
    return lambda rng: rng.integers(0, 2, shape).astype("?")


def order(n):
    return lambda rng: rng.permutation(n).astype("i")


def wrapped(name, function, **attributes):
    """A converter's function that nothing in Chainer makes on a CPU: a node with its name."""

    def call(x):
        node = WrappedFunctionNode(name, function, [x], {}, [x], attributes)
        (y,) = node.apply([x])
        return y

    return call


A = (2, 3)
IMAGE = (2, 3, 6, 6)

CASES = {
    # activation
    "ClippedReLU": (lambda: lambda x: F.clipped_relu(x, 0.5), [A]),
    "ELU": (lambda: lambda x: F.elu(x, 0.7), [A]),
    "HardSigmoid": (lambda: F.hard_sigmoid, [A]),
    "LeakyReLU": (lambda: lambda x: F.leaky_relu(x, 0.1), [A]),
    "LogSoftmax": (lambda: F.log_softmax, [A]),
    "LogSoftmax/axis": (lambda: lambda x: F.log_softmax(x, axis=1), [(2, 3, 4)]),
    "PReLUFunction": (lambda: Of(lambda link, x: link(x), link=L.PReLU()), [A]),
    "ReLU": (lambda: F.relu, [A]),
    "Selu": (lambda: wrapped("Selu", F.selu, alpha=1.6, scale=1.1), [A]),
    "Selu/ELU": (lambda: F.selu, [A]),
    "Sigmoid": (lambda: F.sigmoid, [A]),
    "Softmax": (lambda: F.softmax, [A]),
    "Softmax/axis": (lambda: lambda x: F.softmax(x, axis=0), [(2, 3, 4)]),
    "Softplus": (lambda: F.softplus, [A]),
    "Tanh": (lambda: F.tanh, [A]),
    # array
    "Cast": (lambda: lambda x: F.cast(x, "d"), [A]),
    "Concat": (lambda: lambda x, y: F.concat([x, y], axis=1), [A, (2, 4)]),
    "Copy": (lambda: lambda x: F.copy(x, x.device), [A]),
    "Depth2Space": (lambda: lambda x: F.depth2space(x, 2), [(2, 8, 3, 3)]),
    "Dstack": (lambda: lambda x, y: F.dstack([x, y]), [A, A]),
    "Dstack/1": (lambda: lambda x, y: F.dstack([x, y]), [(3,), (3,)]),
    "ExpandDims": (lambda: lambda x: F.expand_dims(x, -1), [A]),
    "GetItem": (lambda: lambda x: x[None, 0, 1:3, ::2], [(2, 4, 5)]),
    "GetItem/ellipsis": (lambda: lambda x: x[..., -1], [(2, 4, 5)]),
    "GetItem/list": (lambda: lambda x: F.get_item(x, (slice(None), [0, 2, 1])), [(2, 4, 5)]),
    "GetItem/lists": (lambda: lambda x: F.get_item(x, ([0, 1], [2, 1])), [(2, 4, 5)]),
    "Hstack": (lambda: lambda x, y: F.hstack([x, y]), [A, (2, 1)]),
    "Hstack/1": (lambda: lambda x, y: F.hstack([x, y]), [(3,), (2,)]),
    "Moveaxis": (lambda: lambda x: F.moveaxis(x, (0, 1), (-1, 0)), [(2, 3, 4)]),
    "Pad": (lambda: lambda x: F.pad(x, ((1, 0), (0, 2)), "constant"), [A]),
    "Pad/value": (lambda: lambda x: F.pad(x, 1, "constant", constant_values=2), [A]),
    "Pad/edge": (lambda: lambda x: F.pad(x, ((1, 0), (0, 2)), "edge"), [A]),
    "Permutate": (lambda: lambda x, i: F.permutate(x, i, axis=1), [A, order(3)]),
    "Permutate/inv": (lambda: lambda x, i: F.permutate(x, i, 1, inv=True), [A, order(3)]),
    "Repeat": (lambda: lambda x: F.repeat(x, 2, axis=1), [A]),
    "Repeat/flat": (lambda: lambda x: F.repeat(x, 2), [A]),
    "Reshape": (lambda: lambda x: F.reshape(x, (3, -1)), [A]),
    "ResizeImages": (lambda: lambda x: F.resize_images(x, (9, 4)), [IMAGE]),
    "Rollaxis": (lambda: lambda x: F.rollaxis(x, 2, 0), [(2, 3, 4)]),
    "SelectItem": (lambda: F.select_item, [A, ints(3, 2)]),
    "Separate": (lambda: lambda x: F.separate(x, 1), [A]),
    "Separate/one": (lambda: lambda x: F.separate(x, 0), [(1, 3)]),
    "Shape": (
        lambda: wrapped("Shape", lambda x: x.device.send(np.array(x.shape, "q"))),
        [A],
    ),
    "Space2Depth": (lambda: lambda x: F.space2depth(x, 2), [(2, 2, 4, 4)]),
    "SplitAxis": (lambda: lambda x: F.split_axis(x, 3, 1), [(2, 6)]),
    "SplitAxis/indices": (lambda: lambda x: F.split_axis(x, [1, 3], 1), [(2, 6)]),
    "Squeeze": (lambda: lambda x: F.squeeze(x), [(2, 1, 3, 1)]),
    "Squeeze/axis": (lambda: lambda x: F.squeeze(x, 1), [(2, 1, 3, 1)]),
    "Stack": (lambda: lambda x, y: F.stack([x, y], -1), [A, A]),
    "Swapaxes": (lambda: lambda x: F.swapaxes(x, 0, 2), [(2, 3, 4)]),
    "Tile": (lambda: lambda x: F.tile(x, (2, 1, 3)), [A]),
    "Transpose": (lambda: lambda x: F.transpose(x, (1, 2, 0)), [(2, 3, 4)]),
    "Transpose/all": (lambda: lambda x: F.transpose(x), [(2, 3, 4)]),
    "TransposeSequence": (lambda: lambda x, y: F.transpose_sequence([x, y]), [(3, 2), (3, 2)]),
    "Vstack": (lambda: lambda x, y: F.vstack([x, y]), [A, A]),
    "Vstack/1": (lambda: lambda x, y: F.vstack([x, y]), [(3,), (3,)]),
    "Where": (lambda: F.where, [mask(2, 3), A, A]),
    # connection
    "Convolution2DFunction": (
        lambda: Of(
            lambda link, x: link(x), link=L.Convolution2D(4, 6, 3, stride=2, pad=1, groups=2)
        ),
        [(2, 4, 7, 7)],
    ),
    "Convolution2DFunction/dilated": (
        lambda: Of(
            lambda link, x: link(x), link=L.DilatedConvolution2D(3, 2, 2, dilate=2, nobias=True)
        ),
        [IMAGE],
    ),
    "ConvolutionND": (
        lambda: Of(lambda link, x: link(x), link=L.ConvolutionND(3, 2, 4, 2, pad=1)),
        [(1, 2, 4, 4, 4)],
    ),
    "Deconvolution2DFunction": (
        lambda: Of(lambda link, x: link(x), link=L.Deconvolution2D(3, 2, 3, stride=2, pad=1)),
        [IMAGE],
    ),
    "DeconvolutionND": (
        lambda: Of(lambda link, x: link(x), link=L.DeconvolutionND(1, 3, 2, 3, stride=2)),
        [(2, 3, 5)],
    ),
    "EmbedIDFunction": (lambda: Of(lambda link, x: link(x), link=L.EmbedID(7, 3)), [ints(7, 2, 4)]),
    "LinearFunction": (lambda: Of(lambda link, x: link(x), link=L.Linear(3, 4)), [A]),
    "LinearFunction/nobias": (
        lambda: Of(lambda link, x: link(x), link=L.Linear(3, 4, nobias=True)),
        [A],
    ),
    # loss
    "SoftmaxCrossEntropy": (lambda: _cross_entropy, [(4, 5), ints(5, 4)]),
    # math
    "Absolute": (lambda: abs, [A]),
    "Add": (lambda: lambda x, y: x + y, [A, A]),
    "AddConstant": (lambda: lambda x: x + 1.5, [A]),
    "Arccos": (lambda: F.arccos, [small(2, 3)]),
    "Arcsin": (lambda: F.arcsin, [small(2, 3)]),
    "Arctan": (lambda: F.arctan, [A]),
    "ArgMax": (lambda: lambda x: F.argmax(x, axis=1), [A]),
    "ArgMax/flat": (lambda: F.argmax, [A]),
    "ArgMin": (lambda: lambda x: F.argmin(x, axis=0), [A]),
    "BroadcastTo": (lambda: lambda x: F.broadcast_to(x, (4, 2, 3)), [A]),
    "Clip": (lambda: lambda x: F.clip(x, -0.5, 0.25), [A]),
    "Cos": (lambda: F.cos, [A]),
    "Cosh": (lambda: F.cosh, [A]),
    "Div": (lambda: lambda x, y: x / y, [A, positive(2, 3)]),
    "DivFromConstant": (lambda: lambda x: 2 / x, [positive(2, 3)]),
    "Exp": (lambda: F.exp, [A]),
    "Identity": (lambda: F.identity, [A]),
    "LinearInterpolate": (lambda: F.linear_interpolate, [positive(2, 3), A, A]),
    "Log": (lambda: F.log, [positive(2, 3)]),
    "LogSumExp": (lambda: lambda x: F.logsumexp(x, axis=1), [A]),
    "LogSumExp/all": (lambda: F.logsumexp, [A]),
    "MatMul": (lambda: lambda x, y: F.matmul(x, y, transb=True), [A, (4, 3)]),
    "MatMul/batch": (lambda: F.matmul, [(2, 3, 4), (2, 4, 2)]),
    "Max": (lambda: lambda x: F.max(x, axis=1, keepdims=True), [A]),
    "Maximum": (lambda: F.maximum, [A, A]),
    "Mean": (lambda: lambda x: F.mean(x, axis=0), [A]),
    "Min": (lambda: lambda x: F.min(x), [A]),
    "Minimum": (lambda: F.minimum, [A, A]),
    "Mul": (lambda: lambda x, y: x * y, [A, A]),
    "MulConstant": (lambda: lambda x: x * 3, [A]),
    "Neg": (lambda: lambda x: -x, [A]),
    "PowConstVar": (lambda: lambda x: 2.0**x, [A]),
    "PowVarConst": (lambda: lambda x: x**2.5, [positive(2, 3)]),
    "PowVarVar": (lambda: lambda x, y: x**y, [positive(2, 3), A]),
    "Prod": (lambda: lambda x: F.prod(x, axis=1), [A]),
    "RsqrtGPU": (lambda: wrapped("RsqrtGPU", F.rsqrt), [positive(2, 3)]),
    "RsqrtGPU/CPU": (lambda: F.rsqrt, [positive(2, 3)]),
    "sign": (lambda: lambda x: F.sign(x), [A]),
    "Sin": (lambda: F.sin, [A]),
    "Sinh": (lambda: F.sinh, [A]),
    "Sqrt": (lambda: F.sqrt, [positive(2, 3)]),
    "Square": (lambda: F.square, [A]),
    "Sub": (lambda: lambda x, y: x - y, [A, A]),
    "SubFromConstant": (lambda: lambda x: 1 - x, [A]),
    "Sum": (lambda: lambda x: F.sum(x, axis=(0, 1)), [A]),
    "Tan": (lambda: F.tan, [A]),
    # noise
    "Dropout": (lambda: lambda x: F.dropout(x, 0.3), [A]),
    # normalization
    "BatchNormalization": (
        lambda: Of(lambda link, x: link(x), link=L.BatchNormalization(3)),
        [IMAGE],
    ),
    "FixedBatchNormalization": (
        lambda: Of(lambda link, x: link(x), link=L.BatchNormalization(3)),
        [IMAGE],
    ),
    "GroupNormalization": (lambda: _group_norm, [(2, 4, 3, 3)]),
    "LocalResponseNormalization": (lambda: F.local_response_normalization, [IMAGE]),
    "NormalizeL2": (lambda: lambda x: F.normalize(x, axis=1), [A]),
    # pooling
    "AveragePooling2D": (lambda: lambda x: F.average_pooling_2d(x, 2, 2, 1), [IMAGE]),
    "AveragePoolingND": (lambda: lambda x: F.average_pooling_nd(x, 2), [(1, 2, 4, 4, 4)]),
    "MaxPooling2D": (
        lambda: wrapped(
            "MaxPooling2D",
            lambda x: F.max_pooling_2d(x, 3, 2, 1, cover_all=False),
            **{"kh": 3, "kw": 3, "sy": 2, "sx": 2, "ph": 1, "pw": 1, "cover_all": False},
        ),
        [IMAGE],
    ),
    "MaxPoolingND/2D": (lambda: lambda x: F.max_pooling_2d(x, 3, 2, cover_all=True), [IMAGE]),
    "MaxPoolingND": (lambda: lambda x: F.max_pooling_nd(x, 2, cover_all=False), [(1, 2, 4, 4, 4)]),
    "ROIPooling2D": (
        lambda: lambda x: F.roi_pooling_2d(
            x, x.device.send(np.array([[0, 0, 0, 4, 4], [1, 1, 1, 5, 5]], "f")), 2, 2, 1.0
        ),
        [IMAGE],
    ),
    "Unpooling2D": (lambda: lambda x: F.unpooling_2d(x, 2, cover_all=False), [(2, 3, 3, 3)]),
    # rnn
    "n_step_gru": (
        lambda: lambda hx, x, y: _gru(hx, [x, y]),
        [(2, 2, 4), (2, 3), (2, 3)],
    ),
    # several layers
    "Network": (Network, [(2, 3, 8, 8)]),
}
