"""Random arrays, made on the device from a seed and the number of draws before.

    chx.random.seed(0)
    x = chx.random.normal(size=(100, 4), dtype="float32")
    rng = chx.random.default_rng(1)
    batch = rng.permutation(60000)

Floats are float64 unless a dtype is given; sizes are shapes, () without one, or that of parameters
which are arrays. numpy.random's functions are here too: they are the methods of one RandomState.

This module's functions, and Generator() and RandomState() without arguments, draw from the session's
stream, which seed() restarts; default_rng() and RandomState(seed) make streams of their own.
"""

import copy
import operator

import numpy as np

import chx
from chx import _core, _functions, _streams, linalg
from chx._arranging import _axis, _like
from chx._continuous import Continuous, shape_of
from chx._discrete import Discrete


def _size(size):
    return () if size is None else size


def normal(loc=0.0, scale=1.0, size=None, *, dtype="float64", device=None):
    """Normal values with mean `loc` and deviation `scale`, in the shape `size`."""
    return _streams.draw(None, "random_normal", _size(size), loc, scale, dtype, device)


def uniform(low=0.0, high=1.0, size=None, *, dtype="float64", device=None):
    """Uniform values in [low, high), in the shape `size`."""
    return _streams.draw(None, "random_uniform", _size(size), low, high, dtype, device)


def seed(seed=None):
    """Makes what follows of the session's stream repeatable, on every device; or not, without a seed."""
    from chx import _support

    (_core._get_default_session() or _support.connect_default()).seed(seed)


class Generator(Continuous, Discrete):
    """The distributions of numpy.random.Generator, on the device.

    It draws from a stream of numbers, which copying and pickling keep: the same ones on every device,
    whatever else is drawn in between. default_rng() makes one with a stream of its own; without one it
    is the session's, which seed() restarts.
    """

    def __init__(self, stream=None):
        if stream is not None and not isinstance(stream, _streams.Stream):
            raise TypeError(
                f"[Generator] expects a stream, got {type(stream).__name__}: default_rng()"
            )
        self._stream = stream

    def __copy__(self):
        return copy.deepcopy(self)

    def permutation(self, x, axis=0, device=None):
        """range(x), or the parts of an array along an axis, in random order."""
        if not isinstance(x, _core.ndarray):
            if np.ndim(x) == 0:
                return _core.argsort(self.random(operator.index(x), device=device))
            x = chx.array(np.asarray(x), device=device)
        axis = _axis("permutation", axis, x.ndim)
        order = _core.argsort(self.random(x.shape[axis], device=x.device))
        return _core.take(x, order, axis=axis)

    def permuted(self, x, axis=None):
        """A copy in which the parts along an axis are each in a random order of its own."""
        if not isinstance(x, _core.ndarray):
            x = chx.array(np.asarray(x))
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

    def choice(self, a, size=None, replace=True, p=None, axis=0, shuffle=True, device=None):
        """Parts of a along an axis, or numbers of range(a), with probabilities p (uniform by default).

        Without replacement they are in random order in any case. Probabilities on a device are taken as
        they are, in proportion.

        Raises:
          ValueError: more than there are, without replacement; p that are no probabilities, or of
            another number.
        """
        if isinstance(a, (list, tuple, np.ndarray)) and np.ndim(a) > 0:
            a = chx.array(np.asarray(a), device=device)
        is_array = isinstance(a, _core.ndarray) and a.ndim > 0
        if is_array:
            axis = _axis("choice", axis, a.ndim)
            device = a.device
        length = a.shape[axis] if is_array else operator.index(a)
        shape = shape_of(size)
        count = int(np.prod(shape, dtype=np.int64))
        if length < 0 or (length == 0 and count > 0):
            raise ValueError(f"[choice] expects something to choose from, got {length} elements")
        if device is None and isinstance(p, _core.ndarray):
            device = p.device
        if p is not None:
            p = _probabilities(p, length, 0 if replace else count, device)
        if not replace:
            if count > length:
                raise ValueError(f"[choice] expects at most {length} elements, got {count}")
            # The largest of independent Gumbel values: weighted, and without replacement.
            keys = self.gumbel(size=length, device=device)
            if p is not None:
                keys = keys + _core.log(p)
            chosen = _core.argsort(-keys)[:count].reshape(shape)
        elif count == 0:
            chosen = _core.zeros(shape, "int64", device=device)
        elif p is None:
            chosen = self.integers(length, size=shape, device=device)
        else:
            edges = _core.cumsum(p)
            u = self.random(shape, device=device) * edges[-1]
            chosen = _core.minimum(_functions.searchsorted(edges, u, "right"), length - 1)
        return _core.take(a, chosen, axis=axis) if is_array else chosen

    def multivariate_normal(self, mean, cov, size=None, dtype="float64"):
        """Normal vectors with a mean (n,) and a covariance matrix (n, n), either of which may be a list.

        ValueError: they are of other shapes.
        """
        array = next((x for x in (mean, cov) if isinstance(x, _core.ndarray)), None)
        cov = chx.array(np.asarray(cov), dtype) if array is None else _like(cov, array)
        mean = _like(mean, cov)
        if mean.ndim != 1 or cov.shape != mean.shape * 2:
            raise ValueError(
                f"[multivariate_normal] expects shapes (n,) and (n, n), got {mean.shape} and {cov.shape}"
            )
        z = self.standard_normal((*shape_of(size), len(mean)), dtype, mean.device)
        return _core.matmul(z, linalg.cholesky(cov.astype(dtype)).T) + mean.astype(dtype)


def _probabilities(p, length, fewest, device):
    """Probabilities as a float64 array; those on the client are checked."""
    if np.shape(p) != (length,):
        raise ValueError(f"[choice] expects {length} probabilities, got shape {np.shape(p)}")
    if isinstance(p, _core.ndarray):
        return p.astype("float64")
    p = np.asarray(p, np.float64)
    if not (p >= 0).all() or abs(p.sum() - 1) > np.sqrt(np.finfo(np.float64).eps):
        raise ValueError(f"[choice] expects probabilities that sum to 1, got {p}")
    if np.count_nonzero(p) < fewest:
        raise ValueError(
            f"[choice] expects at most {np.count_nonzero(p)} elements, which have probabilities, got "
            f"{fewest}"
        )
    return chx.array(p, device=device)


def default_rng(seed=None):
    """A Generator with a stream of its own, by a seed as numpy.random's; a Generator is given back."""
    return seed if isinstance(seed, Generator) else Generator(_streams.seeded("default_rng", seed))


class RandomState(Generator):
    """The names of numpy.random.RandomState that Generator has not.

    With a seed it has a stream of its own; without one it draws from the session's.
    """

    def __init__(self, seed=None):
        super().__init__(None if seed is None else _streams.seeded("RandomState", seed))

    def seed(self, seed=None):
        """Restarts the stream: its own, or the session's, as chx.random.seed()."""
        if self._stream is None:
            globals()["seed"](seed)
        else:
            self._stream = _streams.seeded("seed", seed)

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
