"""Random arrays of float64 by NumPy's global generator, as ChainerX makes them.

numpy.random.seed() makes them repeatable. chx.random makes them in the daemon.
"""

from typing import Any as _Any

import numpy as _numpy

import chx as _chx
from chx._core import ndarray as _ndarray
from chx._types import DeviceLike as _DeviceLike


def normal(*args: _Any, device: _DeviceLike = None, **kwargs: _Any) -> _ndarray:
    """As numpy.random.normal(loc=0.0, scale=1.0, size=None)."""
    return _chx.array(_numpy.random.normal(*args, **kwargs), copy=False, device=device)


def uniform(*args: _Any, device: _DeviceLike = None, **kwargs: _Any) -> _ndarray:
    """As numpy.random.uniform(low=0.0, high=1.0, size=None)."""
    return _chx.array(_numpy.random.uniform(*args, **kwargs), copy=False, device=device)
