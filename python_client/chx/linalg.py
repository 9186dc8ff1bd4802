"""Linear algebra: systems of equations and decompositions, stacked along leading axes."""

import functools as _functools
import math as _math

import numpy as _np

from chx import _core
from chx._arranging import _axis

# The operators of this module, from the table.
globals().update(_core._submodules["linalg"])

# What these functions raise where a matrix has no solution, inverse or decomposition.
LinAlgError = _core.ChainerxError

_norm = _core._submodules["linalg"]["norm"]


def _is_lapack_available():
    """Always true: the daemon has it."""
    return True


def _svd(a):
    return _core._submodules["linalg"]["svd"](a, full_matrices=False)


def norm(x, ord=None, axis=None, keepdims=False):
    """The norm of vectors along one axis, or of matrices along two; of all elements by default.

    `ord` is a number as for numpy.linalg.norm, or for matrices 'fro' (the default) or 'nuc', the sum
    of the singular values. Of x's dtype, which is a float one.

    Raises:
      ValueError: an `ord` that vectors or matrices don't have.
    """
    if not isinstance(ord, str):
        return _norm(x, ord, axis, keepdims)
    axes = range(x.ndim) if axis is None else _np.atleast_1d(axis).tolist()
    axes = [_axis("norm", i, x.ndim) for i in axes]
    if ord not in ("fro", "nuc") or len(axes) != 2:
        raise ValueError(
            f"[norm] expects 'fro' or 'nuc', and two axes with it, got {ord!r}, {axis}"
        )
    if ord == "fro":
        return _norm(x, None, axis, keepdims)
    _, s, _ = _svd(_core.moveaxis(x, list(axes), (-2, -1)))
    total = _core.sum(s, -1)
    if not keepdims:
        return total
    return total.reshape([1 if i in axes else n for i, n in enumerate(x.shape)])


def cond(x, p=None):
    """The condition number of matrices: the ratio of the singular values for p None, 2 and -2, else
    norm(x, p) * norm(inv(x), p). A singular matrix gives infinity (a ChainerxError with other p).
    """
    if p in (None, 2, -2):
        _, s, _ = _svd(x)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    inverse = _core._submodules["linalg"]["inv"](x)
    return norm(x, p, (-2, -1)) * norm(inverse, p, (-2, -1))


def matrix_rank(A, tol=None, hermitian=False):
    """The number (int64) of singular values above `tol`; of a vector, whether it is not zero.

    By default `tol` is the largest singular value times the larger dimension times the dtype's
    epsilon.
    """
    if A.ndim < 2:
        return _core.any(_core.not_equal(A, 0)).astype("int64")
    if hermitian:
        s = _core.abs(_core._submodules["linalg"]["eigvalsh"](A))
    else:
        s = _core._submodules["linalg"]["svd"](A, compute_uv=False)
    if tol is None:
        largest = _core.amax(s, -1, True)
        tol = largest * (max(A.shape[-2:]) * float(_np.finfo(A.dtype).eps))
    elif isinstance(tol, _core.ndarray):
        tol = tol.reshape(*tol.shape, 1)
    return _core.sum(_core.greater(s, tol), -1)


def lstsq(a, b, rcond=None):
    """x that minimizes |a x - b| for a matrix a (m, n) and b (m,) or (m, k).

    Returns:
      (x, residuals, rank, s): x is (n,) or (n, k); residuals, the sums of squared differences, are (k,)
      or (1,), and (0,) if the rank is below n or m <= n; rank is an int, which is waited for; s are
      the singular values. x is differentiable where the rank is constant, and so are the residuals.
    """
    if a.ndim != 2 or b.ndim not in (1, 2) or a.shape[0] != b.shape[0]:
        raise _core.DimensionError(
            f"[lstsq] expects a matrix and as many right sides' rows, got {a.shape} and {b.shape}"
        )
    m, n = a.shape
    dtype = _np.promote_types(a.dtype, b.dtype)
    a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
    if rcond is None:
        rcond = float(_np.finfo(dtype).eps) * max(m, n)
    elif rcond < 0:
        rcond = float(_np.finfo(dtype).eps)
    s = _core._submodules["linalg"]["svd"](a, compute_uv=False)
    rank = int(_core.sum(_core.greater(s, s[0] * rcond)))
    x = _core.matmul(_core._submodules["linalg"]["pinv"](a, rcond), b)
    if rank < n or m <= n:
        residuals = _core.zeros((0,), dtype, device=a.device)
    else:
        residuals = _core.sum(_core.square(_core.matmul(a, x) - b), 0).reshape(-1)
    return x, residuals, rank, s


def multi_dot(arrays):
    """The product of matrices, in the order that takes the fewest multiplications.

    The first and the last may be vectors.

    Raises:
      DimensionError: others don't have two dimensions, or sizes don't agree.
    """
    arrays = list(arrays)
    if len(arrays) < 2:
        raise ValueError(f"[multi_dot] expects at least two arrays, got {len(arrays)}")
    first, last = arrays[0].ndim == 1, arrays[-1].ndim == 1
    if first:
        arrays[0] = arrays[0].reshape(1, -1)
    if last:
        arrays[-1] = arrays[-1].reshape(-1, 1)
    for a, b in zip(arrays, arrays[1:], strict=False):
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            raise _core.DimensionError(
                f"[multi_dot] expects matrices that can be multiplied, got {a.shape} and {b.shape}"
            )
    sizes = [a.shape[0] for a in arrays] + [arrays[-1].shape[1]]

    @_functools.cache
    def best(i, j):
        """The fewest multiplications for arrays[i:j + 1], and where the last product is."""
        if i == j:
            return 0, i
        return min(
            (best(i, k)[0] + best(k + 1, j)[0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
            for k in range(i, j)
        )

    def product(i, j):
        if i == j:
            return arrays[i]
        k = best(i, j)[1]
        return _core.matmul(product(i, k), product(k + 1, j))

    result = product(0, len(arrays) - 1)
    if first and last:
        return result.reshape(())
    return result.reshape(-1) if first or last else result


def tensorinv(a, ind=2):
    """The inverse of a for tensordot over its first `ind` axes."""
    if not 0 < ind <= a.ndim:
        raise ValueError(f"[tensorinv] expects ind in [1, {a.ndim}], got {ind}")
    inner = _math.prod(a.shape[ind:])
    inverse = _core._submodules["linalg"]["inv"](a.reshape(_math.prod(a.shape[:ind]), inner))
    return inverse.reshape(*a.shape[ind:], *a.shape[:ind])


def tensorsolve(a, b, axes=None):
    """x with tensordot(a, x, x.ndim) = b; the axes are moved to the end of a first."""
    if axes is not None:
        axes = [_axis("tensorsolve", i, a.ndim) for i in axes]
        a = a.transpose([i for i in range(a.ndim) if i not in axes] + axes)
    shape = a.shape[b.ndim :]
    size = _math.prod(shape)
    x = _core._submodules["linalg"]["solve"](a.reshape(b.size, size), _core.ravel(b))
    return x.reshape(shape)
