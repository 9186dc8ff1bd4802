"""What the examples share."""

import gzip
import math
import os

import chx
import numpy as np

_DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


def init_mlp(sizes, seed):
    """Weights ~ N(0, 1/fan_in) and zero biases for a multi-layer perceptron, as leaves.

    client/examples/mnist.cc draws the same numbers in the same order.
    """
    chx.random.seed(seed)
    params = []
    for fan_in, fan_out in zip(sizes[:-1], sizes[1:], strict=True):
        scale = 1.0 / math.sqrt(fan_in)
        w = chx.random.normal(0.0, scale, (fan_out, fan_in), dtype="float32")
        b = chx.zeros((fan_out,))
        params += [w.require_grad(), b.require_grad()]
    return params


def mlp(x, params):
    """Linear layers with relu between them."""
    for i in range(0, len(params), 2):
        x = chx.linear(x, params[i], params[i + 1])
        if i + 2 < len(params):
            x = chx.relu(x)
    return x


def sgd(params, lr):
    """p -= lr * grad for all parameters, outside of the graph: one command."""
    values = [p.as_grad_stopped() for p in params]
    chx.optimizers.sgd_update(values, [p.grad for p in params], lr)
    for p in params:
        p.cleargrad()


def load_idx(path):
    """An IDX file of unsigned bytes as a NumPy array."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        data = file.read()
    ndim = data[3]
    shape = np.frombuffer(data, ">i4", ndim, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * ndim).reshape(shape)


def add_digits(parser):
    """The arguments that say where digits() finds them."""
    for name in ("images", "labels"):
        parser.add_argument(
            f"--{name}",
            default=os.path.join(_DATA, f"mnist-{name}.gz"),
            help="an IDX file of MNIST, plain or gzipped; default: 3,000 of its test set",
        )


def digits(args, held_out):
    """Two pairs of images (N, 1, 28, 28) uint8 and labels (N,) int32: to train with, and the last ones."""
    images, labels = load_idx(args.images)[:, None], load_idx(args.labels).astype(np.int32)
    split = len(labels) - held_out
    return (images[:split], labels[:split]), (images[split:], labels[split:])


def scaled(images):
    """Pixels in [0, 1], float32."""
    return images.astype(np.float32) / np.float32(255)


class Shuffler:
    """Fisher-Yates with a 64-bit linear congruential generator that goes on from call to call.

    The same as client/examples/shuffle.h, which says the formula: simple enough for any language.
    """

    def __init__(self, seed):
        self._state = seed % 2**64

    def shuffle(self, values):
        """Permutes a list in place."""
        for i in range(len(values) - 1, 0, -1):
            self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
            j = (self._state >> 33) % (i + 1)
            values[i], values[j] = values[j], values[i]
