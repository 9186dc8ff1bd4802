"""NumPy's chapter "Indexing routines": functions that make arrays of indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np

from chx import _core
from chx._compat import zip_strict
from chx._core import ndarray
from chx._numpy import creation, mathematics
from chx._types import DeviceLike, DtypeLike, Shape


def nonzero(a: ndarray) -> tuple[ndarray, ...]:
    """Indices (int64) of the elements that are not zero: an array for each axis. Waits for a count.

    Raises:
      DimensionError: the array has no dimensions.
    """
    if a.ndim == 0:
        raise _core.DimensionError("[nonzero] expects at least one dimension, got ()")
    positions = _core.nonzero_positions(a, int(_core.count_nonzero(a)))
    indices = []
    for size in reversed(a.shape):
        indices.append(_core.remainder(positions, max(size, 1)))
        positions = _core.floor_divide(positions, max(size, 1))
    return tuple(reversed(indices))


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """x where a condition holds, else y; without them nonzero(), which waits."""
    if x is None and y is None:
        return nonzero(condition)
    if x is None or y is None:
        raise ValueError("[where] expects both x and y, or neither")
    return _core.where(condition, x, y)


def indices(
    dimensions: Sequence[int],
    dtype: DtypeLike = "int64",
    sparse: bool = False,
    device: DeviceLike = None,
) -> Any:
    """The coordinates of a grid's points: an array (ndim, *dimensions), or a tuple if `sparse`."""
    ndim = len(dimensions)
    parts = [
        _core.arange(n, dtype=dtype, device=device).reshape(
            [-1 if d == i else 1 for d in range(ndim)]
        )
        for i, n in enumerate(dimensions)
    ]
    if sparse:
        return tuple(parts)
    if not parts:
        return _core.empty((0,), dtype, device=device)
    return _core.stack([_core.broadcast_to(part, tuple(dimensions)) for part in parts])


def ix_(*args: Any) -> tuple[ndarray, ...]:
    """One-dimensional index arrays shaped so that together they select a grid; masks count too."""
    results = []
    for i, a in enumerate(args):
        a = creation.asarray(a)
        if a.ndim != 1:
            raise ValueError(f"[ix_] expects one dimension, got shape {a.shape}")
        if a.dtype == np.bool_:
            (a,) = nonzero(a)
        results.append(a.reshape([-1 if d == i else 1 for d in range(len(args))]))
    return tuple(results)


def tril_indices(
    n: int, k: int = 0, m: int | None = None, device: DeviceLike = None
) -> tuple[ndarray, ndarray]:
    """The indices (two int64 arrays) of an (n, m) array's elements up to diagonal k."""
    rows, columns = np.tril_indices(n, k, m)
    return creation.array(rows, device=device), creation.array(columns, device=device)


def triu_indices(
    n: int, k: int = 0, m: int | None = None, device: DeviceLike = None
) -> tuple[ndarray, ndarray]:
    """The indices (two int64 arrays) of an (n, m) array's elements from diagonal k on."""
    rows, columns = np.triu_indices(n, k, m)
    return creation.array(rows, device=device), creation.array(columns, device=device)


def _matrix(name: str, arr: ndarray) -> Shape:
    if arr.ndim != 2:
        raise _core.DimensionError(f"[{name}] expects two dimensions, got shape {arr.shape}")
    return arr.shape


def tril_indices_from(arr: ndarray, k: int = 0) -> tuple[ndarray, ndarray]:
    """tril_indices() of a matrix, on its device."""
    rows, columns = _matrix("tril_indices_from", arr)
    return tril_indices(rows, k, columns, arr.device)


def triu_indices_from(arr: ndarray, k: int = 0) -> tuple[ndarray, ndarray]:
    """triu_indices() of a matrix, on its device."""
    rows, columns = _matrix("triu_indices_from", arr)
    return triu_indices(rows, k, columns, arr.device)


def diag_indices(n: int, ndim: int = 2, device: DeviceLike = None) -> tuple[ndarray, ...]:
    """The indices of the diagonal of an array with `ndim` axes of n elements."""
    return (_core.arange(n, dtype="int64", device=device),) * ndim


def diag_indices_from(arr: ndarray) -> tuple[ndarray, ...]:
    """diag_indices() of an array whose axes are equally long, on its device."""
    if arr.ndim < 2 or len(set(arr.shape)) != 1:
        raise ValueError(f"[diag_indices_from] expects axes of one length, got {arr.shape}")
    return diag_indices(arr.shape[0], arr.ndim, arr.device)


def _check_index(name: str, index: ndarray, size: int) -> None:
    """ValueError if an index array has elements outside of [0, size). Waits."""
    bad = _core.logical_or(index < 0, index >= size)
    if index.size and bool(_core.any(bad)):
        raise ValueError(f"[{name}] expects indices in [0, {size})")


def unravel_index(indices: Any, shape: int | Sequence[int], order: str = "C") -> tuple[Any, ...]:
    """Flat indices as a tuple of indices along the axes of a shape.

    Numbers give numbers. ValueError: out of range; for an array, that waits.
    """
    if order not in ("C", "F"):
        raise ValueError(f"[unravel_index] expects order 'C' or 'F', got {order!r}")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if not isinstance(indices, _core.ndarray):
        found = np.unravel_index(indices, shape, cast(Literal["C", "F"], order))
        return tuple(int(i) if np.ndim(i) == 0 else creation.array(i) for i in found)
    _check_index("unravel_index", indices, int(np.prod(shape, dtype=np.int64)))
    rest, parts = indices.astype("int64", copy=False), []
    for size in shape if order == "F" else reversed(shape):
        parts.append(_core.remainder(rest, size))
        rest = _core.floor_divide(rest, size)
    return tuple(parts if order == "F" else reversed(parts))


def ravel_multi_index(
    multi_index: Sequence[Any],
    dims: int | Sequence[int],
    mode: str | Sequence[str] = "raise",
    order: str = "C",
) -> ndarray:
    """The flat indices (int64) of a tuple of index arrays: the inverse of unravel_index().

    `mode`, for all axes or one for each: 'raise' (ValueError; waits), 'wrap' or 'clip'.
    """
    if order not in ("C", "F"):
        raise ValueError(f"[ravel_multi_index] expects order 'C' or 'F', got {order!r}")
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    modes = (mode,) * len(dims) if isinstance(mode, str) else tuple(mode)
    if not len(multi_index) == len(modes) == len(dims):
        raise ValueError(f"[ravel_multi_index] expects {len(dims)} indices, got {len(multi_index)}")
    flat: Any = None
    stride = 1
    axes = list(zip_strict(multi_index, dims, modes))
    for index, size, how in axes if order == "F" else reversed(axes):
        index = creation.asarray(index).astype("int64", copy=False)
        if how == "wrap":
            index = _core.remainder(index, size)
        elif how == "clip":
            index = mathematics.clip(index, 0, size - 1)
        elif how == "raise":
            _check_index("ravel_multi_index", index, size)
        else:
            raise ValueError(f"[ravel_multi_index] expects 'raise', 'wrap' or 'clip', got {how!r}")
        flat = index * stride if flat is None else flat + index * stride
        stride *= size
    return cast(ndarray, flat)
