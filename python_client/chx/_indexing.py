"""Indexing by arrays, lists and masks: through NumPy, on the client."""

import numpy as np

from chx import _core


def _values(item):
    from chx import _support

    return _support.to_numpy(item) if isinstance(item, _core.ndarray) else item


def _numpy_key(key):
    return tuple(map(_values, key)) if isinstance(key, tuple) else _values(key)


def getitem_by_arrays(array, key):
    from chx import _support

    return _support.asarray(np.asarray(_values(array)[_numpy_key(key)]), device=array.device)


def setitem_by_arrays(array, key, value):
    from chx import _support

    values = _support.to_numpy(array)
    values[_numpy_key(key)] = _values(value)
    _core.copyto(array, _support.asarray(values, device=array.device))
