"""Generators of random arrays, each with a stream of numbers or the session's."""

from __future__ import annotations

import builtins
import copy
import operator
from typing import Any

import numpy as np

from chx import _core, linalg
from chx._compat import Self
from chx._core import ndarray
from chx._numpy import creation, sorting, transfer
from chx._numpy.arguments import array_like, checked_axis
from chx._runtime import connection, random_streams
from chx._types import DeviceLike, DtypeLike, Size
from chx.random._continuous import Continuous
from chx.random._discrete import Discrete
from chx.random._parameters import shape_of


class Generator(Continuous, Discrete):
    """The distributions of numpy.random.Generator, on the device.

    It draws from a stream of numbers, which copying and pickling keep: the same ones on every device,
    whatever else is drawn in between. default_rng() makes one with a stream of its own; without one it
    is the session's, which seed() restarts.
    """

    __module__ = "chx.random"  # which pickles name

    def __init__(self, stream: Any = None) -> None:
        if stream is not None and not isinstance(stream, random_streams.Stream):
            raise TypeError(
                f"[Generator] expects a stream, got {type(stream).__name__}: default_rng()"
            )
        self._stream = stream

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    def permutation(self, x: Any, axis: int = 0, device: DeviceLike = None) -> ndarray:
        """range(x), or the parts of an array along an axis, in random order."""
        if not isinstance(x, _core.ndarray):
            if np.ndim(x) == 0:
                return _core.argsort(self.random(operator.index(x), device=device))
            x = creation.array(np.asarray(x), device=device)
        axis = checked_axis("permutation", axis, x.ndim)
        order = _core.argsort(self.random(x.shape[axis], device=x.device))
        return _core.take(x, order, axis=axis)

    def permuted(self, x: Any, axis: int | None = None) -> ndarray:
        """A copy in which the parts along an axis are each in a random order of its own."""
        if not isinstance(x, _core.ndarray):
            x = creation.array(np.asarray(x))
        if axis is None:
            flat = _core.ravel(x)
            return self.permutation(flat).reshape(x.shape)
        order = _core.argsort(self.random(x.shape, device=x.device), axis)
        return _core.take_along_axis(x, order, axis)

    def bytes(self, length: int) -> builtins.bytes:
        """Random bytes; waits."""
        return transfer.to_numpy(self.integers(256, size=length, dtype="uint8")).tobytes()

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Brings the parts of an array along an axis into random order, in place."""
        _core.copyto(x, self.permutation(x, axis))

    def choice(
        self,
        a: Any,
        size: Size = None,
        replace: bool = True,
        p: Any = None,
        axis: int = 0,
        shuffle: bool = True,
        device: DeviceLike = None,
    ) -> ndarray:
        """Parts of a along an axis, or numbers of range(a), with probabilities p (uniform by default).

        Without replacement they are in random order in any case. Probabilities on a device are taken as
        they are, in proportion.

        Raises:
          ValueError: more than there are, without replacement; p that are no probabilities, or of
            another number.
        """
        if isinstance(a, (list, tuple, np.ndarray)) and np.ndim(a) > 0:
            a = creation.array(np.asarray(a), device=device)
        is_array = isinstance(a, _core.ndarray) and a.ndim > 0
        if is_array:
            axis = checked_axis("choice", axis, a.ndim)
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
            chosen = _core.minimum(sorting.searchsorted(edges, u, "right"), length - 1)
        return _core.take(a, chosen, axis=axis) if is_array else chosen

    def multivariate_normal(
        self, mean: Any, cov: Any, size: Size = None, dtype: DtypeLike = "float64"
    ) -> ndarray:
        """Normal vectors with a mean (n,) and a covariance matrix (n, n), either of which may be a list.

        ValueError: they are of other shapes.
        """
        array = next((x for x in (mean, cov) if isinstance(x, _core.ndarray)), None)
        cov = creation.array(np.asarray(cov), dtype) if array is None else array_like(cov, array)
        mean = array_like(mean, cov)
        if mean.ndim != 1 or cov.shape != mean.shape * 2:
            raise ValueError(
                f"[multivariate_normal] expects shapes (n,) and (n, n), got {mean.shape} and {cov.shape}"
            )
        z = self.standard_normal((*shape_of(size), len(mean)), dtype, mean.device)
        result: ndarray = _core.matmul(z, linalg.cholesky(cov.astype(dtype)).T) + mean.astype(dtype)
        return result


def _probabilities(p: Any, length: int, fewest: int, device: DeviceLike) -> ndarray:
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
    return creation.array(p, device=device)


def default_rng(seed: Any = None) -> Generator:
    """A Generator with a stream of its own, by a seed as numpy.random's; a Generator is given back."""
    return (
        seed
        if isinstance(seed, Generator)
        else Generator(random_streams.seeded("default_rng", seed))
    )


class RandomState(Generator):
    """The names of numpy.random.RandomState that Generator has not.

    With a seed it has a stream of its own; without one it draws from the session's.
    """

    __module__ = "chx.random"

    def __init__(self, seed: Any = None) -> None:
        super().__init__(None if seed is None else random_streams.seeded("RandomState", seed))

    def seed(self, seed: Any = None) -> None:
        """Restarts the stream: its own, or the session's, as chx.random.seed()."""
        if self._stream is None:
            connection.connect_default().seed(seed)
        else:
            self._stream = random_streams.seeded("seed", seed)

    def rand(self, *shape: int) -> ndarray:
        """Uniform values in [0, 1)."""
        return self.random(shape)

    def randn(self, *shape: int) -> ndarray:
        """Normal values with mean 0 and deviation 1."""
        return self.standard_normal(shape)

    def randint(
        self, low: Any, high: Any = None, size: Size = None, dtype: DtypeLike = "int64"
    ) -> ndarray:
        """Integers in [low, high), or in [0, low) without high."""
        return self.integers(low, high, size, dtype)

    def random_sample(self, size: Size = None) -> ndarray:
        """Uniform values in [0, 1)."""
        return self.random(size)
