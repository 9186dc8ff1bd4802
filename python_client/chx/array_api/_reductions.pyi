from typing import NamedTuple

from .._core import ndarray

class UniqueAll(NamedTuple):
    values: ndarray
    indices: ndarray
    inverse_indices: ndarray
    counts: ndarray

class UniqueCounts(NamedTuple):
    values: ndarray
    counts: ndarray

class UniqueInverse(NamedTuple):
    values: ndarray
    inverse_indices: ndarray
