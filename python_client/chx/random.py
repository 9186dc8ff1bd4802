"""Random arrays, made on the device from the session's seed and a counter.

    chx.random.seed(0)
    x = chx.random.normal(size=(100, 4), dtype="float32")
    rng = chx.random.default_rng()
    batch = rng.permutation(60000)

Floats are float64 unless a dtype is given; sizes are shapes, () without one, or that of parameters
which are arrays. numpy.random's functions are here too: they are the methods of one RandomState.
"""

import numpy as np

from chx import _core
from chx._continuous import Continuous, shape_of
from chx._discrete import Discrete


def _size(size):
    return () if size is None else size


def normal(loc=0.0, scale=1.0, size=None, *, dtype="float64", device=None):
    """Normal values with mean `loc` and deviation `scale`, in the shape `size`."""
    return _core._random("random_normal", _size(size), loc, scale, dtype, device)


def uniform(low=0.0, high=1.0, size=None, *, dtype="float64", device=None):
    """Uniform values in [low, high), in the shape `size`."""
    return _core._random("random_uniform", _size(size), low, high, dtype, device)


def seed(seed):
    """Makes what follows repeatable, on every device."""
    from chx import _support

    (_core._get_default_session() or _support.connect_default()).seed(seed)


class Generator(Continuous, Discrete):
    """The distributions of numpy.random.Generator, on the device.

    Every generator draws from the session's one stream of numbers, which seed() restarts.
    """

    def permutation(self, x, axis=0, device=None):
        """range(x), or the parts of an array along an axis, in random order."""
        if not isinstance(x, _core.ndarray):
            return _core.argsort(self.random(x, device=device))
        order = _core.argsort(self.random(x.shape[axis], device=x.device))
        return _core.take(x, order, axis=axis)

    def permuted(self, x, axis=None):
        """A copy in which the parts along an axis are each in a random order of its own."""
        if axis is None:
            flat = _core.ravel(x)
            return self.permutation(flat).reshape(x.shape)
        order = _core.argsort(self.random(x.shape, device=x.device), axis)
        return _core.take_along_axis(x, order, axis)

    def bytes(self, length):
        """Random bytes; waits."""
        from chx import _support

        return _support.to_numpy(self.integers(256, size=length, dtype="uint8")).tobytes()

    def shuffle(self, x, axis=0):
        """Brings the parts of an array along an axis into random order, in place."""
        _core.copyto(x, self.permutation(x, axis))

    def choice(self, a, size=None, replace=True, p=None, device=None):
        """Elements of a, or of range(a), with probabilities p (uniform by default).

        Raises:
          ValueError: more elements than there are, without replacement.
        """
        is_array = isinstance(a, _core.ndarray)
        device = a.device if is_array else device
        length = len(a) if is_array else a
        shape = shape_of(size)
        count = int(np.prod(shape, dtype=np.int64))
        if not replace:
            if count > length:
                raise ValueError(f"[choice] expects at most {length} elements, got {count}")
            # The largest of independent Gumbel values: weighted, and without replacement.
            keys = self.gumbel(size=length, device=device)
            if p is not None:
                keys = keys + _core.log(p.astype("float64"))
            chosen = _core.argsort(-keys)[:count].reshape(shape)
        elif p is None:
            chosen = self.integers(length, size=shape, device=device)
        else:
            from chx import _functions

            edges = _core.cumsum(p.astype("float64"))
            u = self.random(shape, device=device) * edges[-1]
            chosen = _core.minimum(_functions.searchsorted(edges, u, "right"), length - 1)
        return _core.take(a, chosen, axis=0) if is_array else chosen

    def multivariate_normal(self, mean, cov, size=None, dtype="float64"):
        """Normal vectors with a mean (n,) and a covariance matrix (n, n)."""
        from chx import linalg

        shape = shape_of(size)
        z = self.standard_normal((*shape, len(mean)), dtype, mean.device)
        return _core.matmul(z, linalg.cholesky(cov.astype(dtype)).T) + mean


def default_rng(seed=None):
    """A Generator; with a seed, what follows is repeatable."""
    if seed is not None:
        globals()["seed"](seed)
    return Generator()


class RandomState(Generator):
    """The names of numpy.random.RandomState that Generator has not; one stream for all, as there."""

    def __init__(self, seed=None):
        if seed is not None:
            globals()["seed"](seed)

    def seed(self, seed):
        """As chx.random.seed()."""
        globals()["seed"](seed)

    def rand(self, *shape):
        """Uniform values in [0, 1)."""
        return self.random(shape)

    def randn(self, *shape):
        """Normal values with mean 0 and deviation 1."""
        return self.standard_normal(shape)

    def randint(self, low, high=None, size=None, dtype="int64"):
        """Integers in [low, high), or in [0, low) without high."""
        return self.integers(low, high, size, dtype)

    def random_sample(self, size=None):
        """Uniform values in [0, 1)."""
        return self.random(size)


# NumPy's functions of this module, which normal(), uniform() and seed() above are the first of.
_state = RandomState()
for _name in dir(_state):
    if not _name.startswith("_") and _name not in ("normal", "uniform", "seed"):
        globals()[_name] = getattr(_state, _name)
del _name
