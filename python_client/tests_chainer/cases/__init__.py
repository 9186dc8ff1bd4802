"""Calls of chainer.functions, to be compared with what NumPy's Chainer makes of them.

A file is named as a package of chainer.functions, or <package>_<part>.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

CASES = []


@dataclasses.dataclass
class Case:
    """One call of a wrapper.

    Attributes:
      name: Of the wrapper in chainer.functions.
      call: Takes the inputs, as variables if they are of floats; returns a variable or several.
      inputs: Makes the inputs, NumPy arrays or lists of them, from a generator.
      double: Whether NumPy's Chainer can differentiate its gradients.
      grads: Whether it has gradients.
      tolerance: Relative and absolute, for float64.
      single: Whether it takes float32 only.
    """

    name: str
    call: Callable
    inputs: Callable
    double: bool = True
    grads: bool = True
    tolerance: float = 1e-7
    single: bool = False
    label: str = ""

    def __str__(self):
        return f"{self.name}-{self.label}" if self.label else self.name


def case(name, call, inputs, **options):
    """Adds a case. inputs: see Case, or a shape, or a list of shapes of values in (-1, 1)."""
    if isinstance(inputs, tuple):
        inputs = [inputs]
    if isinstance(inputs, list):
        shapes = inputs

        def inputs(rng):
            return [u(rng, *shape) for shape in shapes]

    number = sum(c.name == name for c in CASES)
    CASES.append(Case(name, call, inputs, label=str(number) if number else "", **options))


def u(rng, *shape, low=-1.0, high=1.0):
    """Uniform float64 values."""
    return rng.uniform(low, high, shape)


def grid(rng, *shape):
    """Multiples of a half, with ties and zeros."""
    return rng.integers(-4, 5, shape) / 2.0


def ints(rng, high, *shape, low=0, dtype=np.int32):
    """Integers from low to high - 1."""
    return rng.integers(low, high, shape).astype(dtype)


def positive(rng, *shape):
    """Values in (0.5, 2)."""
    return rng.uniform(0.5, 2.0, shape)


def distinct(rng, *shape):
    """Values that are all different, by 0.1 at least."""
    return rng.permutation(int(np.prod(shape))).reshape(shape) * 0.1 - 1.0


def matrices(rng, *shape):
    """Positive definite matrices (..., n, n)."""
    a = rng.uniform(-1, 1, shape)
    return a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1])
