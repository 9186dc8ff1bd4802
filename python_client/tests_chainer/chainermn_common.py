"""What the scenarios of chainermn_ranks.py share: numbers, networks and data by names and ranks."""

import zlib

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


def rng_of(name, rank=0):
    return np.random.RandomState(zlib.crc32(f"{name} {rank}".encode()))


class MLP(chainer.Chain):
    def __init__(self, units, outputs, inputs=None):
        super().__init__()
        with self.init_scope():
            self.a = L.Linear(inputs, units)
            self.b = L.Linear(units, outputs)

    def forward(self, x):
        return self.b(F.tanh(self.a(x)))


def seeded(link, name, rank=0):
    """Parameters from the name: they are the same on chx and NumPy, whose initializers differ."""
    rng = rng_of(name, rank)
    for _, param in sorted(link.namedparams()):
        if param.array is not None:
            param.array[...] = (rng.randn(*param.shape) / 4).astype("f")
    return link


def values_of(link, device):
    host = chainer.get_device("@numpy")
    return {name: host.send(param.array) for name, param in sorted(link.namedparams())}


def points(n, inputs=6, classes=3):
    rng = rng_of("points")
    x = rng.randn(n, inputs).astype("f")
    t = (x @ rng.randn(inputs, classes)).argmax(1).astype("i")
    return chainer.datasets.TupleDataset(x, t)
