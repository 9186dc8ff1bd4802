"""Random arrays of float64 by NumPy's global generator, as ChainerX makes them.

numpy.random.seed() makes them repeatable. chx.random makes them in the daemon.
"""

import numpy as _numpy

import chx as _chx


def normal(*args, device=None, **kwargs):
    """As numpy.random.normal(loc=0.0, scale=1.0, size=None)."""
    return _chx.array(_numpy.random.normal(*args, **kwargs), copy=False, device=device)


def uniform(*args, device=None, **kwargs):
    """As numpy.random.uniform(low=0.0, high=1.0, size=None)."""
    return _chx.array(_numpy.random.uniform(*args, **kwargs), copy=False, device=device)
