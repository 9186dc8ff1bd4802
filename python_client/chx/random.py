"""Random arrays, made on the device from the session's seed and a counter.

    chx.random.seed(0)
    x = chx.random.normal(size=(100, 4), dtype="float32")
    rng = chx.random.default_rng()
    batch = rng.permutation(60000)

All are float64 unless a dtype is given; sizes are shapes, () without one.
"""

import numpy as np

from chx import _core


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


class Generator:
    """The distributions of numpy.random.Generator that have a closed form, on the device.

    Every generator draws from the session's one stream of numbers, which seed() restarts.
    """

    def random(self, size=None, dtype="float64", device=None):
        """Uniform values in [0, 1)."""
        return uniform(0.0, 1.0, size, dtype=dtype, device=device)

    def uniform(self, low=0.0, high=1.0, size=None, dtype="float64", device=None):
        """Uniform values in [low, high)."""
        return uniform(low, high, size, dtype=dtype, device=device)

    def normal(self, loc=0.0, scale=1.0, size=None, dtype="float64", device=None):
        """Normal values with mean `loc` and deviation `scale`."""
        return normal(loc, scale, size, dtype=dtype, device=device)

    def standard_normal(self, size=None, dtype="float64", device=None):
        """Normal values with mean 0 and deviation 1."""
        return normal(0.0, 1.0, size, dtype=dtype, device=device)

    def lognormal(self, mean=0.0, sigma=1.0, size=None, dtype="float64", device=None):
        """exp() of normal values."""
        return _core.exp(normal(mean, sigma, size, dtype=dtype, device=device))

    def exponential(self, scale=1.0, size=None, dtype="float64", device=None):
        """Exponential values with mean `scale`."""
        return self._exponential(size, dtype, device) * scale

    def _exponential(self, size, dtype, device):
        # 1 - u is in (0, 1]: the logarithm is finite.
        return -_core.log1p(-self.random(size, dtype, device))

    def weibull(self, a, size=None, dtype="float64", device=None):
        """Weibull values with shape `a` and scale 1."""
        return self._exponential(size, dtype, device) ** (1.0 / a)

    def rayleigh(self, scale=1.0, size=None, dtype="float64", device=None):
        """Rayleigh values."""
        return _core.sqrt(self._exponential(size, dtype, device) * 2.0) * scale

    def pareto(self, a, size=None, dtype="float64", device=None):
        """Pareto values (Lomax's, from 0 on) with shape `a`."""
        return _core.expm1(self._exponential(size, dtype, device) * (1.0 / a))

    def gumbel(self, loc=0.0, scale=1.0, size=None, dtype="float64", device=None):
        """Gumbel values."""
        # Never log(0): the least exponential value that is not 0 stands for it.
        waits = _core.maximum(self._exponential(size, dtype, device), np.finfo(dtype).tiny)
        return loc - _core.log(waits) * scale

    def logistic(self, loc=0.0, scale=1.0, size=None, dtype="float64", device=None):
        """Logistic values."""
        u = _core.maximum(self.random(size, dtype, device), np.finfo(dtype).tiny)
        return (_core.log(u) - _core.log1p(-u)) * scale + loc

    def laplace(self, loc=0.0, scale=1.0, size=None, dtype="float64", device=None):
        """Laplace values."""
        first = self._exponential(size, dtype, device)
        return (first - self._exponential(size, dtype, device)) * scale + loc

    def standard_cauchy(self, size=None, dtype="float64", device=None):
        """Cauchy values."""
        return _core.tan((self.random(size, dtype, device) - 0.5) * np.pi)

    def bernoulli(self, p, size=None, device=None):
        """True with probability p."""
        return self.random(size, device=device) < p

    def binomial(self, n, p, size=None, device=None):
        """How many of n trials succeed with probability p, as int64. Draws n numbers for each."""
        shape = (size,) if isinstance(size, int) else tuple(_size(size))
        return _core.sum(self.bernoulli(p, (*shape, n), device), axis=-1)

    def integers(self, low, high=None, size=None, dtype="int64", endpoint=False, device=None):
        """Integers in [low, high), or in [0, low) without high; with `endpoint`, high too.

        Raises:
          ValueError: there are none, or more than 2**53.
        """
        low, high = (0, low) if high is None else (low, high)
        count = high - low + bool(endpoint)
        if not 0 < count <= 2**53:
            raise ValueError(f"[integers] expects 1 to 2**53 numbers, got {count}")
        # A product that was rounded up to `count` is one too many.
        numbers = _core.floor(self.random(size, device=device) * count)
        return (_core.minimum(numbers, count - 1) + low).astype(dtype)

    def permutation(self, x, axis=0, device=None):
        """range(x), or the parts of an array along an axis, in random order."""
        if not isinstance(x, _core.ndarray):
            return _core.argsort(self.random(x, device=device))
        order = _core.argsort(self.random(x.shape[axis], device=x.device))
        return _core.take(x, order, axis=axis)

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
        shape = (size,) if isinstance(size, int) else tuple(_size(size))
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

        shape = (size,) if isinstance(size, int) else tuple(_size(size))
        z = self.standard_normal((*shape, len(mean)), dtype, mean.device)
        return _core.matmul(z, linalg.cholesky(cov.astype(dtype)).T) + mean


def default_rng(seed=None):
    """A Generator; with a seed, what follows is repeatable."""
    if seed is not None:
        globals()["seed"](seed)
    return Generator()
