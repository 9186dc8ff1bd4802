"""A case of op_bench.py, and the values that cases are measured on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass
class Case:
    """One operator at one size. `inputs()` gives NumPy arrays, which both functions take.

    It makes them when the case is run: some fill 40 MB. `wrt` names the inputs whose gradients are
    measured instead of the operator. Of `random` results only the shapes are compared. Both sides
    cast the arrays to `dtype` before, if there is one.
    """

    group: str
    name: str
    size: str
    inputs: Callable
    ours: Callable
    theirs: Callable
    wrt: tuple = ()
    rtol: float = 2e-5
    random: bool = False
    dtype: str | None = None

    @property
    def title(self):
        return f"{self.group}/{self.name}/{self.size}"


def rng():
    return np.random.default_rng(0)


def normal(*shape):
    return rng().standard_normal(shape, dtype=np.float32)


def positive(*shape):
    return rng().random(shape, dtype=np.float32) + np.float32(0.1)


def distinct(*shape):
    """No two are equal: of equal ones, any may be among the largest to PyTorch."""
    values = np.arange(np.prod(shape), dtype=np.float32)  # exact below 2^24
    return (rng().permutation(values) / np.float32(len(values))).reshape(shape)


def integers(below, *shape):
    return rng().integers(0, below, shape)
