"""Values of many arrays of a daemon's, in few waits."""

from __future__ import annotations

import collections

import numpy as np

import chx
from chx._compat import zip_strict


def packed(arrays):
    """Copies of arrays' elements behind each other, in no graph: one command for them all.

    Args:
      arrays: arrays of any shape on one device; their dtypes are promoted.
    """
    with chx.no_backprop_mode():
        return chx.concatenate(arrays, axis=None)


def read(arrays):
    """Arrays' values as new NumPy arrays, with one wait for each device and dtype.

    The daemon needs as much memory again: large arrays are better read one by one.
    """
    groups = collections.defaultdict(list)
    for i, array in enumerate(arrays):
        groups[array.device, array.dtype].append(i)
    values = [None] * len(arrays)
    for indices in groups.values():
        if len(indices) == 1:
            values[indices[0]] = chx.to_numpy(arrays[indices[0]])
            continue
        row = chx.to_numpy(packed([arrays[i] for i in indices]))
        ends = np.cumsum([arrays[i].size for i in indices])
        for i, part in zip_strict(indices, np.split(row, ends[:-1])):
            values[i] = part.reshape(arrays[i].shape)
    return values
