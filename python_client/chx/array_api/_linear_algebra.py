"""Linear algebra, on matrices in the last two axes, stacked along the others."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._numpy import products as _products
from chx._types import Axis, Dtype
from chx.array_api import _dtypes

if TYPE_CHECKING:
    from chx import _linalg_ops as _generated
else:
    _generated = SimpleNamespace(**_core._submodules["linalg"])


class EighResult(NamedTuple):
    """What eigh() gives."""

    eigenvalues: ndarray
    eigenvectors: ndarray


class QRResult(NamedTuple):
    """What qr() gives."""

    Q: ndarray
    R: ndarray


class SlogdetResult(NamedTuple):
    """What slogdet() gives."""

    sign: ndarray
    logabsdet: ndarray


class SVDResult(NamedTuple):
    """What svd() gives."""

    U: ndarray
    S: ndarray
    Vh: ndarray


def matmul(x1: ndarray, x2: ndarray, /) -> ndarray:
    """The product of matrices; a one-dimensional array is a row on the left, a column on the right."""
    return _core.matmul(x1, x2)


def matrix_transpose(x: ndarray, /) -> ndarray:
    """The transposes, views. DimensionError of arrays of less than two dimensions."""
    if x.ndim < 2:
        raise _core.DimensionError(f"[matrix_transpose] expects matrices, got shape {x.shape}")
    return _core.swapaxes(x, -2, -1)


def outer(x1: ndarray, x2: ndarray, /) -> ndarray:
    """The products of all pairs of elements of two one-dimensional arrays."""
    if x1.ndim != 1 or x2.ndim != 1:
        raise _core.DimensionError(
            f"[outer] expects arrays of one dimension, got {x1.shape} and {x2.shape}"
        )
    return _products.outer(x1, x2)


def tensordot(x1: ndarray, x2: ndarray, /, *, axes: Any = 2) -> ndarray:
    """Sums of products over axes: the last of x1 and the first of x2, or two lists of them."""
    return _products.tensordot(x1, x2, axes)


def vecdot(x1: ndarray, x2: ndarray, /, *, axis: int = -1) -> ndarray:
    """Sums of products along an axis, which is counted from the end. DimensionError unless equal."""
    for x in (x1, x2):
        if not -x.ndim <= axis < 0:
            raise _core.DimensionError(
                f"[vecdot] expects a negative axis of both, got {axis} of {x1.shape} and {x2.shape}"
            )
    if x1.shape[axis] != x2.shape[axis]:
        raise _core.DimensionError(
            f"[vecdot] expects vectors of one length, got {x1.shape} and {x2.shape} along {axis}"
        )
    products = x1 * x2
    return _core.sum(products, axis).astype(products.dtype, copy=False)


def cross(x1: ndarray, x2: ndarray, /, *, axis: int = -1) -> ndarray:
    """The vector products of vectors of three along an axis, which is counted from the end."""
    for x in (x1, x2):
        if not -x.ndim <= axis < 0 or x.shape[axis] != 3:
            raise _core.DimensionError(
                f"[cross] expects vectors of three, got {x1.shape} and {x2.shape} along {axis}"
            )
    a, b = (_core.moveaxis(x, axis, 0) for x in _broadcast(x1, x2))
    parts = [a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3] for i in range(3)]
    return _core.moveaxis(_core.stack(parts), 0, axis)


def _broadcast(*arrays: ndarray) -> list[ndarray]:
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    return [_core.broadcast_to(x, shape) for x in arrays]


def cholesky(x: ndarray, /, *, upper: bool = False) -> ndarray:
    """The lower triangular L with L L^T = x, or its transpose."""
    lower = _generated.cholesky(x)
    return matrix_transpose(lower) if upper else lower


def det(x: ndarray, /) -> ndarray:
    """The determinants."""
    return _generated.det(x)


def eigh(x: ndarray, /) -> EighResult:
    """Eigenvalues in ascending order and eigenvectors (columns) of symmetric matrices."""
    return EighResult(*_generated.eigh(x))


def eigvalsh(x: ndarray, /) -> ndarray:
    """Eigenvalues in ascending order of symmetric matrices."""
    return _generated.eigvalsh(x)


def inv(x: ndarray, /) -> ndarray:
    """The inverses."""
    return _generated.inv(x)


def matrix_power(x: ndarray, n: int, /) -> ndarray:
    """The n-th powers; of inverses if n is negative."""
    return _generated.matrix_power(x, n)


def pinv(x: ndarray, /, *, rtol: float | ndarray | None = None) -> ndarray:
    """The pseudo-inverses: singular values up to rtol times the greatest count as zero.

    Without it, the greater size times the dtype's eps. It may be an array, one for each matrix.
    """
    u, s, vh = svd(x, full_matrices=False)
    kept = s > _threshold(x, s, rtol)
    inverse = _core.where(kept, 1 / _core.where(kept, s, 1), 0).astype(x.dtype, copy=False)
    return _core.matmul(matrix_transpose(vh) * inverse[..., None, :], matrix_transpose(u))


def matrix_rank(x: ndarray, /, *, rtol: float | ndarray | None = None) -> ndarray:
    """How many singular values are above rtol times the greatest, as int64: see pinv()."""
    s = svdvals(x)
    return _core.sum(s > _threshold(x, s, rtol), -1)


def _threshold(x: ndarray, s: ndarray, rtol: float | ndarray | None) -> ndarray:
    if rtol is None:
        rtol = max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)
    if isinstance(rtol, ndarray):
        rtol = rtol[..., None]
    greatest = _core.amax(s, -1, True) if s.shape[-1] else _core.zeros((1,), s.dtype, s.device)
    return greatest * rtol


def qr(x: ndarray, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """Orthonormal Q and upper triangular R with Q R = x; Q is square if the mode is 'complete'."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"[qr] expects mode 'reduced' or 'complete', got {mode!r}")
    return QRResult(*_generated.qr(x, mode))


def slogdet(x: ndarray, /) -> SlogdetResult:
    """The sign of the determinants, and the logarithm of their absolute values."""
    return SlogdetResult(*_generated.slogdet(x))


def solve(x1: ndarray, x2: ndarray, /) -> ndarray:
    """What x1 has to be multiplied with for x2: a vector if x2 has one dimension, else matrices."""
    if x2.ndim == 1:
        return _core.squeeze(solve(x1, x2[:, None]), -1)
    stack = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    dtype = _dtypes.result_type(x1, x2)
    a, b = (_core.broadcast_to(x, stack + x.shape[-2:]).astype(dtype, copy=False) for x in (x1, x2))
    return _generated.solve(a, b)


def svd(x: ndarray, /, *, full_matrices: bool = True) -> SVDResult:
    """U, the singular values in descending order, and the transpose of V. U diag(S) Vh = x."""
    return SVDResult(*_generated.svd(x, full_matrices))


def svdvals(x: ndarray, /) -> ndarray:
    """The singular values in descending order."""
    result: ndarray = _generated.svd(x, False, False)
    return result


def diagonal(x: ndarray, /, *, offset: int = 0) -> ndarray:
    """The diagonals, or those next to them, along the last axis."""
    if x.ndim < 2:
        raise _core.DimensionError(f"[diagonal] expects matrices, got shape {x.shape}")
    return _core.diagonal(x, offset, -2, -1)


def trace(x: ndarray, /, *, offset: int = 0, dtype: Dtype | None = None) -> ndarray:
    """The sums of the diagonals; of integers as int64 unless a dtype is named."""
    lines = diagonal(x, offset=offset)
    if dtype is None:
        return _core.sum(lines, -1)
    dtype = _dtypes.dtype_of(dtype)
    return _core.sum(lines.astype(dtype, copy=False), -1).astype(dtype, copy=False)


def matrix_norm(x: ndarray, /, *, keepdims: bool = False, ord: Any = "fro") -> ndarray:
    """Norms of matrices: 'fro', 'nuc', 1, -1, 2, -2, inf or -inf.

    Raises:
      ValueError: the order is another.
    """
    reduce = _core.amax if ord in (1, 2, math.inf) else _core.amin
    if ord == "fro":
        result = _core.sqrt(_core.sum(_core.square(_core.abs(x)), (-2, -1)))
    elif ord == "nuc":
        result = _core.sum(svdvals(x), -1)
    elif ord in (2, -2):
        result = reduce(svdvals(x), -1)
    elif ord in (1, -1):
        result = reduce(_core.sum(_core.abs(x), -2), -1)
    elif ord in (math.inf, -math.inf):
        result = reduce(_core.sum(_core.abs(x), -1), -1)
    else:
        raise ValueError(
            f"[matrix_norm] expects 'fro', 'nuc', 1, 2, inf or these negative, got {ord}"
        )
    return result[..., None, None] if keepdims else result


def vector_norm(
    x: ndarray, /, *, axis: Axis = None, keepdims: bool = False, ord: Any = 2
) -> ndarray:
    """Norms of the vectors along axes, of any order: 0 counts what is not zero."""
    magnitudes = _core.abs(x)
    if ord == math.inf:
        return _core.amax(magnitudes, axis, keepdims)
    if ord == -math.inf:
        return _core.amin(magnitudes, axis, keepdims)
    if ord == 0:
        return _core.count_nonzero(x, axis, keepdims).astype(x.dtype)
    if ord == 1:
        return _core.sum(magnitudes, axis, keepdims)
    if ord == 2:
        return _core.sqrt(_core.sum(_core.square(magnitudes), axis, keepdims))
    return _core.power(_core.sum(_core.power(magnitudes, ord), axis, keepdims), 1 / ord)
