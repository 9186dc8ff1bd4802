"""Where threads are: their positions in the shape of a call."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from chx import _core
from chx._core import Device
from chx._types import Shape
from chx.kernels._values import Value

# Up to this number of threads, what depends on their positions alone is computed by this process, which
# then knows it. For more it would send too much.
MAX_KNOWN = 32_768


class Positions:
    """The positions of all threads of a call, by names such as i and threadIdx.x.

    Args:
      shape: of the threads.
      device: where arrays are.
    """

    def __init__(self, shape: Shape, device: Device) -> None:
        self.shape = shape
        self._device = device
        self._makers: dict[str, Callable[[], Value]] = {}
        self._made: dict[str, Value] = {}

    def add(self, name: str, make: Callable[[], Value]) -> None:
        self._makers[name] = make

    def get(self, name: str) -> Value | None:
        """What a name stands for; made once."""
        if name not in self._made and name in self._makers:
            self._made[name] = self._makers[name]()
        return self._made.get(name)

    def flat(self) -> Value:
        """In C order."""
        return self._counted(math.prod(self.shape), self.shape, "int64")

    def along(self, axis: int, name: str = "int64") -> Value:
        """Along one axis, as a type that int64 holds."""
        shape = [1] * len(self.shape)
        shape[axis] = self.shape[axis]
        return self._counted(self.shape[axis], tuple(shape), name)

    def _counted(self, count: int, shape: Shape, name: str) -> Value:
        if math.prod(self.shape) <= MAX_KNOWN:
            return Value(name, np.arange(count, dtype="int64").reshape(shape))
        counted = _core.arange(count, dtype="int64", device=self._device)
        return Value(name, counted.reshape(shape))

    def constant(self, value: int, name: str) -> Value:
        """The same number for all threads, as a type that int64 holds."""
        return Value(name, np.int64(value))
