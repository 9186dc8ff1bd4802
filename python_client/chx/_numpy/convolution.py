"""Convolution and correlation of vectors."""

from typing import Any

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._numpy import creation
from chx._numpy.arguments import array_like
from chx._types import is_float


def convolve(a: Any, v: Any, mode: str = "full") -> ndarray:
    """The convolution of two vectors: all of it, of the longer one's length, or without the edges.

    As NumPy's, of bool vectors it is logical.
    """
    a, v = _sequences("convolve", a, v, mode)
    if v.size > a.size:
        a, v = v, a
    result = _correlated(a, _core.flip(v, 0), mode)
    return result.astype("bool") if a.dtype == v.dtype == np.bool_ else result


def correlate(a: Any, v: Any, mode: str = "valid") -> ndarray:
    """The cross-correlation of two vectors: sums of a[n + k] * v[n], for each k."""
    a, v = _sequences("correlate", a, v, mode)
    swapped = v.size > a.size
    result = _correlated(v, a, mode) if swapped else _correlated(a, v, mode)
    result = _core.flip(result, 0) if swapped else result
    return result.astype("bool") if a.dtype == v.dtype == np.bool_ else result


def _sequences(name: str, a: Any, v: Any, mode: str) -> tuple[ndarray, ndarray]:
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"[{name}] expects mode 'full', 'same' or 'valid', got {mode!r}")
    a = creation.asarray(a) if not isinstance(v, _core.ndarray) else array_like(a, v)
    v = array_like(v, a)
    if a.ndim > 1 or v.ndim > 1 or a.size == 0 or v.size == 0:
        raise ValueError(f"[{name}] expects two vectors with elements, got {a.shape} and {v.shape}")
    return _core.ravel(a), _core.ravel(v)


def _correlated(long: ndarray, short: ndarray, mode: str) -> ndarray:
    """The sums of products of `short` with the windows of `long`, which reach beyond the ends."""
    n, m = long.size, short.size
    before = {"full": m - 1, "same": m // 2, "valid": 0}[mode]
    after = {"full": m - 1, "same": (m - 1) // 2, "valid": 0}[mode]
    dtype = np.promote_types(long.dtype, short.dtype)
    dtype = np.dtype("int64") if dtype == np.bool_ else dtype
    long, short = long.astype(dtype, copy=False), short.astype(dtype, copy=False)
    padded = _core.constant_pad(long, [before, after])
    if is_float(dtype):
        return _core.conv(padded.reshape(1, 1, -1), short.reshape(1, 1, m)).reshape(-1)
    windows = np.arange(n + before + after - m + 1)[:, None] + np.arange(m)
    return _core.matmul(_core.take(padded, creation.array(windows, device=long.device), 0), short)
