"""The standard's linear algebra, on matrices in the last two axes, stacked along the others."""

import math
from typing import NamedTuple

import numpy as np

from chx import _core, _products
from chx._core import ndarray
from chx.array_api import _dtypes

_ops = _core._submodules["linalg"]


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


# --- Products ------------------------------------------------------------------------------------


def matmul(x1, x2, /):
    """The product of matrices; a one-dimensional array is a row on the left, a column on the right."""
    return _core.matmul(x1, x2)


def matrix_transpose(x, /):
    """The transposes, views. DimensionError of arrays of less than two dimensions."""
    if x.ndim < 2:
        raise _core.DimensionError(f"[matrix_transpose] expects matrices, got shape {x.shape}")
    return _core.swapaxes(x, -2, -1)


def outer(x1, x2, /):
    """The products of all pairs of elements of two one-dimensional arrays."""
    if x1.ndim != 1 or x2.ndim != 1:
        raise _core.DimensionError(
            f"[outer] expects arrays of one dimension, got {x1.shape} and {x2.shape}"
        )
    return _products.outer(x1, x2)


def tensordot(x1, x2, /, *, axes=2):
    """Sums of products over axes: the last of x1 and the first of x2, or two lists of them."""
    return _products.tensordot(x1, x2, axes)


def vecdot(x1, x2, /, *, axis=-1):
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


def cross(x1, x2, /, *, axis=-1):
    """The vector products of vectors of three along an axis, which is counted from the end."""
    for x in (x1, x2):
        if not -x.ndim <= axis < 0 or x.shape[axis] != 3:
            raise _core.DimensionError(
                f"[cross] expects vectors of three, got {x1.shape} and {x2.shape} along {axis}"
            )
    a, b = (_core.moveaxis(x, axis, 0) for x in _broadcast(x1, x2))
    parts = [a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3] for i in range(3)]
    return _core.moveaxis(_core.stack(parts), 0, axis)


def _broadcast(*arrays):
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    return [_core.broadcast_to(x, shape) for x in arrays]


# --- Decompositions and equations ----------------------------------------------------------------


def cholesky(x, /, *, upper=False):
    """The lower triangular L with L L^T = x, or its transpose."""
    lower = _ops["cholesky"](x)
    return matrix_transpose(lower) if upper else lower


def det(x, /):
    """The determinants."""
    return _ops["det"](x)


def eigh(x, /):
    """Eigenvalues in ascending order and eigenvectors (columns) of symmetric matrices."""
    return EighResult(*_ops["eigh"](x))


def eigvalsh(x, /):
    """Eigenvalues in ascending order of symmetric matrices."""
    return _ops["eigvalsh"](x)


def inv(x, /):
    """The inverses."""
    return _ops["inv"](x)


def matrix_power(x, n, /):
    """The n-th powers; of inverses if n is negative."""
    return _ops["matrix_power"](x, n)


def pinv(x, /, *, rtol=None):
    """The pseudo-inverses: singular values up to rtol times the greatest count as zero.

    Without it, the greater size times the dtype's eps. It may be an array, one for each matrix.
    """
    u, s, vh = svd(x, full_matrices=False)
    kept = s > _threshold(x, s, rtol)
    inverse = _core.where(kept, 1 / _core.where(kept, s, 1), 0).astype(x.dtype, copy=False)
    return _core.matmul(matrix_transpose(vh) * inverse[..., None, :], matrix_transpose(u))


def matrix_rank(x, /, *, rtol=None):
    """How many singular values are above rtol times the greatest, as int64: see pinv()."""
    s = svdvals(x)
    return _core.sum(s > _threshold(x, s, rtol), -1)


def _threshold(x, s, rtol):
    if rtol is None:
        rtol = max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)
    if isinstance(rtol, ndarray):
        rtol = rtol[..., None]
    greatest = _core.amax(s, -1, True) if s.shape[-1] else _core.zeros((1,), s.dtype, s.device)
    return greatest * rtol


def qr(x, /, *, mode="reduced"):
    """Orthonormal Q and upper triangular R with Q R = x; Q is square if the mode is 'complete'."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"[qr] expects mode 'reduced' or 'complete', got {mode!r}")
    return QRResult(*_ops["qr"](x, mode))


def slogdet(x, /):
    """The sign of the determinants, and the logarithm of their absolute values."""
    return SlogdetResult(*_ops["slogdet"](x))


def solve(x1, x2, /):
    """What x1 has to be multiplied with for x2: a vector if x2 has one dimension, else matrices."""
    if x2.ndim == 1:
        return _core.squeeze(solve(x1, x2[:, None]), -1)
    stack = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    dtype = _dtypes.result_type(x1, x2)
    a, b = (_core.broadcast_to(x, stack + x.shape[-2:]).astype(dtype, copy=False) for x in (x1, x2))
    return _ops["solve"](a, b)


def svd(x, /, *, full_matrices=True):
    """U, the singular values in descending order, and the transpose of V. U diag(S) Vh = x."""
    return SVDResult(*_ops["svd"](x, full_matrices))


def svdvals(x, /):
    """The singular values in descending order."""
    return _ops["svd"](x, False, False)


# --- Diagonals and norms -------------------------------------------------------------------------


def diagonal(x, /, *, offset=0):
    """The diagonals, or those next to them, along the last axis."""
    if x.ndim < 2:
        raise _core.DimensionError(f"[diagonal] expects matrices, got shape {x.shape}")
    return _core.diagonal(x, offset, -2, -1)


def trace(x, /, *, offset=0, dtype=None):
    """The sums of the diagonals; of integers as int64 unless a dtype is named."""
    lines = diagonal(x, offset=offset)
    if dtype is None:
        return _core.sum(lines, -1)
    dtype = _dtypes.dtype_of(dtype)
    return _core.sum(lines.astype(dtype, copy=False), -1).astype(dtype, copy=False)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
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


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
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
