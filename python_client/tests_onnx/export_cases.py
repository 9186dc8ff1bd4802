"""Functions to export, at least one for each operator that has a form in ONNX.

CASES: name of an operator[/variant] -> (function, inputs). An input is a shape, for float32 numbers,
or a function of a random generator.
"""

import chx
import numpy as np
from export_cases_networks import NETWORK_CASES


def of(dtype, *shape, low=-3, high=4):
    def make(rng):
        if dtype == "bool":
            return rng.integers(0, 2, shape).astype("bool")
        if dtype.startswith("float"):
            return rng.uniform(low, high, shape).astype(dtype)
        return rng.integers(max(low, 0) if dtype == "uint8" else low, high, shape).astype(dtype)

    return make


def near(low, high, *shape):
    return lambda rng: rng.uniform(low, high, shape).astype("f")


A = (3, 4)
B = of("bool", 3, 4)
I = of("int64", 3, 4)  # noqa: E741
POSITIVE = near(0.5, 2, 3, 4)
IMAGE = (2, 3, 7, 8)


def _batch_norm(axis):
    def normalize(x):
        shape = [n for i, n in enumerate(x.shape) if i not in axis]
        mean, var = chx.zeros(shape, dtype="float32"), chx.ones(shape, dtype="float32")
        gamma = chx.full(shape, 1.5, dtype="float32")
        beta = chx.full(shape, 0.25, dtype="float32")
        return chx.batch_norm(x, gamma, beta, mean, var, axis=axis)

    return normalize


def _fixed(axis):
    def normalize(x, gamma, beta, mean, var):
        return chx.fixed_batch_norm(x, gamma, beta, mean, var, axis=axis)

    return normalize


CASES = {
    "abs": (chx.abs, [A]),
    "abs/int": (chx.abs, [I]),
    "absolute": (chx.absolute, [A]),
    "absolute_error": (chx.absolute_error, [A, A]),
    "add": (chx.add, [A, (4,)]),
    "add/scalar": (lambda x: 1.5 + x, [A]),
    "add/int": (lambda x: x + 2, [I]),
    "add/mixed": (chx.add, [A, I]),
    "add/float64": (lambda x: x + 1, [of("float64", 2, 2)]),
    "all": (lambda x: chx.all(x, axis=0), [B]),
    "amax": (lambda x: chx.amax(x, axis=(0, 1)), [A]),
    "amin": (lambda x: chx.amin(x, axis=-1, keepdims=True), [A]),
    "any": (chx.any, [B]),
    "arccos": (chx.arccos, [near(-0.9, 0.9, 3, 4)]),
    "arccosh": (chx.arccosh, [near(1.1, 3, 3, 4)]),
    "arcsin": (chx.arcsin, [near(-0.9, 0.9, 3, 4)]),
    "arcsinh": (chx.arcsinh, [A]),
    "arctan": (chx.arctan, [A]),
    "arctanh": (chx.arctanh, [near(-0.9, 0.9, 3, 4)]),
    "argmax": (lambda x: chx.argmax(x, axis=1), [A]),
    "argmax/flat": (chx.argmax, [A]),
    "argmin": (lambda x: chx.argmin(x, axis=0, keepdims=True), [A]),
    "argsort": (lambda x: chx.argsort(x, axis=0), [A]),
    "astype": (lambda x: x.astype("int32"), [A]),
    "astype/bool": (lambda x: x.astype("bool"), [I]),
    "atleast_1d": (lambda x: chx.atleast_1d(chx.sum(x)), [A]),
    "atleast_2d": (chx.atleast_2d, [(3,)]),
    "atleast_3d": (chx.atleast_3d, [A]),
    "average_pool": (lambda x: chx.average_pool(x, 3, 2, 1), [IMAGE]),
    "average_pool/zero": (lambda x: chx.average_pool(x, (3, 2), 2, 1, "zero"), [IMAGE]),
    "batch_norm": (_batch_norm((0, 2, 3)), [IMAGE]),
    "batch_norm/0": (_batch_norm((0,)), [(5, 3)]),
    "bitwise_and": (chx.bitwise_and, [I, I]),
    "bitwise_and/bool": (lambda x, y: x & y, [B, B]),
    "bitwise_not": (lambda x: ~x, [I]),
    "bitwise_or": (chx.bitwise_or, [I, I]),
    "bitwise_xor": (chx.bitwise_xor, [B, B]),
    "broadcast_to": (lambda x: chx.broadcast_to(x, (2, 3, 4)), [A]),
    "ceil": (chx.ceil, [A]),
    "clipped_relu": (lambda x: chx.clipped_relu(x, 0.5), [A]),
    "concatenate": (lambda x, y: chx.concatenate([x, y], 1), [A, (3, 2)]),
    "concatenate/flat": (lambda x, y: chx.concatenate([x, y], None), [A, (3, 2)]),
    "constant_pad": (lambda x: chx.pad(x, ((1, 0), (2, 1)), constant_values=2), [A]),
    "conv": (lambda x, w, b: chx.conv(x, w, b, 2, 1), [IMAGE, (4, 3, 3, 3), (4,)]),
    "conv/cover_all": (lambda x, w: chx.conv(x, w, None, 3, 0, True), [IMAGE, (4, 3, 3, 3)]),
    "conv/1d": (lambda x, w: chx.conv(x, w), [(2, 3, 9), (4, 3, 3)]),
    "conv_transpose": (
        lambda x, w, b: chx.conv_transpose(x, w, b, 2, 1),
        [(2, 3, 4, 5), (3, 2, 3, 3), (2,)],
    ),
    "conv_transpose/outsize": (
        lambda x, w: chx.conv_transpose(x, w, None, 2, 1, (8, 10)),
        [(2, 3, 4, 5), (3, 2, 3, 3)],
    ),
    "copy": (lambda x: x.copy(), [A]),
    "cos": (chx.cos, [A]),
    "cosh": (chx.cosh, [A]),
    "count_nonzero": (lambda x: chx.count_nonzero(x, axis=1), [I]),
    "crelu": (chx.crelu, [A]),
    "cumsum": (lambda x: chx.cumsum(x, axis=1), [A]),
    "cumsum/flat": (chx.cumsum, [A]),
    "deg2rad": (chx.deg2rad, [A]),
    "degrees": (chx.degrees, [A]),
    "diagonal": (lambda x: chx.diagonal(x, 1), [A]),
    "divide": (chx.divide, [A, POSITIVE]),
    "dot": (chx.dot, [A, (4, 2)]),
    "dstack": (lambda x, y: chx.dstack([x, y]), [A, A]),
    "elu": (lambda x: chx.elu(x, 0.5), [A]),
    "equal": (chx.equal, [I, I]),
    "equal/bool": (chx.equal, [B, B]),
    "erf": (chx.erf, [A]),
    "exp": (chx.exp, [A]),
    "exp2": (chx.exp2, [A]),
    "expand_dims": (lambda x: chx.expand_dims(x, 1), [A]),
    "expm1": (chx.expm1, [near(-1e-3, 1e-3, 3, 4)]),
    "expm1/large": (chx.expm1, [A]),
    "fabs": (chx.fabs, [A]),
    "fixed_batch_norm": (_fixed((0, 2, 3)), [IMAGE, (3,), (3,), (3,), near(0.5, 2, 3)]),
    "fixed_batch_norm/0": (_fixed((0,)), [(5, 3), (3,), (3,), (3,), near(0.5, 2, 3)]),
    "fixed_batch_norm/last": (
        _fixed((0, 1, 2)),
        [(2, 3, 4, 5), (5,), (5,), (5,), near(0.5, 2, 5)],
    ),
    "flip": (lambda x: chx.flip(x, 0), [A]),
    "fliplr": (chx.fliplr, [A]),
    "flipud": (chx.flipud, [A]),
    "floor": (chx.floor, [A]),
    "floor_divide": (chx.floor_divide, [A, POSITIVE]),
    "floor_divide/int": (chx.floor_divide, [I, of("int64", 3, 4, low=1)]),
    "fmod": (chx.fmod, [A, POSITIVE]),
    "getitem": (lambda x: x[1, None, 0:2, ::-1], [(3, 4, 5)]),
    "getitem/ellipsis": (lambda x: x[..., -2:, 1], [(3, 4, 5)]),
    "getitem/back": (lambda x: x[::-2, 3:0:-1], [A]),
    "getitem/empty": (lambda x: x[2:2], [A]),
    "greater": (chx.greater, [A, I]),
    "greater_equal": (lambda x: x >= 0.5, [A]),
    "huber_loss": (lambda x, y: chx.huber_loss(x, y, 0.75), [A, A]),
    "huber_loss/mixed": (lambda x, y: chx.huber_loss(x, y, 2.0), [of("float64", 3, 1), I]),
    "hstack": (lambda x, y: chx.hstack([x, y]), [A, (3, 1)]),
    "hstack/1": (lambda x, y: chx.hstack([x, y]), [(3,), (2,)]),
    "invert": (chx.invert, [B]),
    "isfinite": (lambda x: chx.isfinite(1 / x), [lambda rng: np.array([0, 1, np.nan], "f")]),
    "isinf": (lambda x: chx.isinf(1 / x), [lambda rng: np.array([0, 1, np.nan], "f")]),
    "isnan": (chx.isnan, [lambda rng: np.array([0, 1, np.nan], "f")]),
    "leaky_relu": (lambda x: chx.leaky_relu(x, 0.1), [A]),
    "less": (lambda x: x < 1, [A]),
    "less_equal": (chx.less_equal, [I, I]),
    "linear": (chx.linear, [A, (5, 4), (5,)]),
    "linear/batch": (lambda x, w: chx.linear(x, w, None, 2), [(2, 3, 4), (5, 4)]),
    "linear/flat": (chx.linear, [(2, 2, 3), (5, 6), (5,)]),
    "log": (chx.log, [POSITIVE]),
    "log10": (chx.log10, [POSITIVE]),
    "log1p": (chx.log1p, [near(-1e-3, 1e-3, 3, 4)]),
    "log1p/large": (chx.log1p, [near(-0.9, 9, 3, 4)]),
    "log2": (chx.log2, [POSITIVE]),
    "log_softmax": (chx.log_softmax, [A]),
    "logaddexp": (chx.logaddexp, [A, A]),
    "logical_and": (chx.logical_and, [B, I]),
    "logical_not": (chx.logical_not, [I]),
    "logical_or": (chx.logical_or, [B, B]),
    "logical_xor": (chx.logical_xor, [B, B]),
    "logsumexp": (lambda x: chx.logsumexp(x, axis=0), [A]),
    "matmul": (chx.matmul, [A, (4, 2)]),
    "matmul/batch": (lambda x, y: x @ y, [(2, 3, 4), (4, 5)]),
    "matmul/vector": (lambda x, y: x @ y, [(4,), (2, 4, 3)]),
    "max": (lambda x: chx.max(x, axis=0), [A]),
    "max_pool": (lambda x: chx.max_pool(x, 3, 2, 1), [IMAGE]),
    "max_pool/cover_all": (lambda x: chx.max_pool(x, 2, 2, 0, True), [IMAGE]),
    "max_pool/beyond": (lambda x: chx.max_pool(x, 3, 2, 1, True), [IMAGE]),
    "maximum": (chx.maximum, [A, A]),
    "maximum/scalar": (lambda x: chx.maximum(x, 0.5), [A]),
    "mean": (chx.mean, [A]),
    "mean/int": (lambda x: chx.mean(x, axis=0), [I]),
    "min": (chx.min, [A]),
    "minimum": (chx.minimum, [I, I]),
    "mod": (chx.mod, [I, of("int64", 3, 4, low=1)]),
    "moveaxis": (lambda x: chx.moveaxis(x, (0, 1), (-1, 0)), [(2, 3, 4)]),
    "multiply": (chx.multiply, [A, (3, 1)]),
    "multiply/bool": (chx.multiply, [B, B]),
    "negative": (lambda x: -x, [I]),
    "not_equal": (lambda x: x != 1, [I]),
    "positive": (lambda x: +x, [A]),
    "power": (lambda x: x**2.5, [POSITIVE]),
    "prod": (lambda x: chx.prod(x, axis=1), [A]),
    "ptp": (lambda x: chx.ptp(x, axis=1), [A]),
    "rad2deg": (chx.rad2deg, [A]),
    "radians": (chx.radians, [A]),
    "ravel": (lambda x: x.ravel(), [A]),
    "reciprocal": (chx.reciprocal, [POSITIVE]),
    "relu": (chx.relu, [A]),
    "remainder": (lambda x, y: x % y, [A, POSITIVE]),
    "repeat": (lambda x: chx.repeat(x, 2, axis=1), [A]),
    "repeat/each": (lambda x: chx.repeat(x, [1, 0, 2], axis=0), [A]),
    "reshape": (lambda x: x.reshape(2, -1), [A]),
    "rint": (chx.rint, [A]),
    "roll": (lambda x: chx.roll(x, (1, 2), (0, 1)), [A]),
    "roll/flat": (lambda x: chx.roll(x, 5), [A]),
    "rollaxis": (lambda x: chx.rollaxis(x, 2, 0), [(2, 3, 4)]),
    "sigmoid": (chx.sigmoid, [A]),
    "sigmoid_cross_entropy": (chx.sigmoid_cross_entropy, [A, of("int32", 3, 4, low=-1, high=2)]),
    "sign": (chx.sign, [A]),
    "sin": (chx.sin, [A]),
    "sinh": (chx.sinh, [A]),
    "softmax": (lambda x: chx.softmax(x, axis=0), [A]),
    "softmax/axes": (lambda x: chx.softmax(x, axis=(0, 2)), [(2, 3, 4)]),
    "softmax_cross_entropy": (chx.softmax_cross_entropy, [A, of("int32", 3, low=-1)]),
    "softplus": (chx.softplus, [A]),
    "softplus/beta": (lambda x: chx.softplus(x, 2.5), [A]),
    "sort": (lambda x: chx.sort(x, axis=0), [A]),
    "split": (lambda x: chx.split(x, [1, 3], 1), [A]),
    "split/one": (lambda x: chx.split(x, 1), [A]),
    "sqrt": (chx.sqrt, [POSITIVE]),
    "square": (chx.square, [A]),
    "squared_difference": (chx.squared_difference, [A, A]),
    "squared_error": (chx.squared_error, [A, A]),
    "squeeze": (lambda x: x.squeeze(1), [(3, 1, 2)]),
    "stack": (lambda x, y: chx.stack([x, y], -1), [A, A]),
    "std": (lambda x: chx.std(x, axis=0), [A]),
    "subtract": (lambda x: 1 - x, [A]),
    "sum": (lambda x: x.sum(axis=(0, 2), keepdims=True), [(2, 3, 4)]),
    "sum/int": (lambda x: x.sum(axis=0), [of("int32", 3, 4)]),
    "sum/0d": (lambda x: chx.sum(chx.sum(x)), [A]),
    "swapaxes": (lambda x: chx.swapaxes(x, 0, -1), [(2, 3, 4)]),
    "take": (lambda x, i: chx.take(x, i, axis=1), [A, of("int64", 2, 2, low=-4)]),
    "take/constant": (lambda x: x[:, [0, 2, -1]], [A]),
    "take/clip": (
        lambda x, i: chx.take(x, i, axis=0, mode="clip"),
        [A, of("int64", 5, low=-9, high=9)],
    ),
    "take/wrap": (
        lambda x, i: chx.take(x, i, axis=0, mode="wrap"),
        [A, of("int64", 5, low=-9, high=9)],
    ),
    "take_along_axis": (
        lambda x, i: chx.take_along_axis(x, i, axis=1),
        [A, of("int64", 3, 4, low=-4, high=4)],
    ),
    "tan": (chx.tan, [near(-1, 1, 3, 4)]),
    "tanh": (chx.tanh, [A]),
    "tile": (lambda x: chx.tile(x, (2, 1, 3)), [A]),
    "topk": (lambda x: chx.topk(x, 3), [A]),
    "topk/smallest": (lambda x: chx.topk(x, 2, 0, False), [(4, 3, 2)]),
    "topk/equal": (lambda x: chx.topk(x, 7, 1), [of("int64", 3, 9, high=3)]),
    "topk/bool": (lambda x: chx.topk(x, 4, 0), [of("bool", 5, 2)]),
    "topk/float16": (lambda x: chx.topk(x, 2, -2), [of("float16", 4, 3)]),
    "transpose": (lambda x: x.transpose(1, 2, 0), [(2, 3, 4)]),
    "transpose/all": (lambda x: x.T, [(2, 3, 4)]),
    "tril": (lambda x: chx.tril(x, 1), [A]),
    "triu": (lambda x: chx.triu(x, -1), [A]),
    "true_divide": (lambda x: x / 3, [I]),
    "trunc": (chx.trunc, [A]),
    "var": (lambda x: chx.var(x, axis=1, ddof=1), [A]),
    "view": (lambda x: x.view(), [A]),
    "vstack": (lambda x, y: chx.vstack([x, y]), [A, (2, 4)]),
    "vstack/1": (lambda x, y: chx.vstack([x, y]), [(4,), (4,)]),
    "where": (lambda c, x, y: chx.where(c, x, y), [B, A, (4,)]),
    "where/bool": (lambda c, x: chx.where(c, x, False), [B, B]),
    "where/int16": (chx.where, [B, of("int16", 3, 4), of("int16", 3, 4)]),
    "where/scalar": (lambda x: chx.where(x > 0, x, -1), [A]),
}
CASES |= NETWORK_CASES
