"""Linear algebra: systems of equations and decompositions, stacked along leading axes."""

from __future__ import annotations

import functools as _functools
import inspect as _inspect
import math as _math
import operator as _operator
import typing as _typing
from collections.abc import Callable as _Callable, Sequence as _Sequence
from types import SimpleNamespace as _SimpleNamespace
from typing import Any as _Any

import numpy as _np

from chx import _core
from chx._core import ndarray as _ndarray
from chx._numpy.arguments import (
    array_like as _array_like,
    arrays_like as _arrays_like,
    checked_axis as _checked_axis,
)
from chx._types import is_float as _is_float

if _typing.TYPE_CHECKING:
    from chx import _linalg_ops as _generated
else:
    _generated = _SimpleNamespace(**_core._submodules["linalg"])

# What these functions raise where a matrix has no solution, inverse or decomposition.
LinAlgError = _core.ChainerxError


def _floating(a: _ndarray) -> _ndarray:
    """As NumPy's: of integers and bools as float64."""
    is_float = not isinstance(a, _core.ndarray) or _is_float(a.dtype)
    return a if is_float else a.astype("float64")


def _of_floats(operator: _Callable[..., _Any]) -> _Callable[..., _Any]:
    """An operator of one matrix that takes integers too."""

    def function(a: _ndarray, *args: _Any, **kwargs: _Any) -> _Any:
        return operator(_floating(a), *args, **kwargs)

    function.__name__ = function.__qualname__ = operator.__name__
    function.__doc__ = operator.__doc__
    setattr(function, "__signature__", _inspect.signature(operator))  # noqa: B010
    return function


# The operators of this module, from the table.
_operators = _core._submodules["linalg"]
globals().update({name: _of_floats(operator) for name, operator in _operators.items()})


def solve(a: _Any, b: _Any) -> _ndarray:
    """x with matmul(a, x) = b, for square matrices a; b has vectors, or matrices of them."""
    a, b = _arrays_like("solve", a, b)
    if _is_float(a.dtype) and _is_float(b.dtype):
        return _generated.solve(a, b)
    dtype = _np.promote_types(a.dtype, b.dtype)
    dtype = _np.promote_types(dtype, "float64")
    return _generated.solve(a.astype(dtype, copy=False), b.astype(dtype, copy=False))


def pinv(a: _ndarray, rcond: _Any = 1e-15) -> _ndarray:
    """The pseudo-inverse: singular values up to rcond times the largest one count as 0.

    `rcond` may be an array, with one for each of stacked matrices.
    """
    a = _floating(a)
    if not isinstance(rcond, (list, _np.ndarray, _core.ndarray)) or _np.ndim(rcond) == 0:
        return _generated.pinv(a, rcond)
    u, s, vt = _svd(a)
    rcond = _array_like(rcond, a).astype(a.dtype, copy=False)
    counts = _core.greater(s, _core.amax(s, -1, True) * rcond.reshape(*rcond.shape, 1))
    inverse = _core.where(counts, 1.0 / _core.where(counts, s, 1), 0)
    scaled = inverse.reshape(*inverse.shape, 1) * _core.swapaxes(u, -1, -2)
    return _core.matmul(_core.swapaxes(vt, -1, -2), scaled)


def matrix_power(a: _ndarray, n: int) -> _ndarray:
    """The product of n copies of square matrices; of their inverse if n is negative.

    Integers stay integers, unless n is negative.
    """
    n = _operator.index(n)
    if _is_float(a.dtype) or n < 0 or a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        return _generated.matrix_power(_floating(a), n)
    result: _ndarray | None = None
    square = a
    while n:
        if n % 2:
            result = square if result is None else _core.matmul(result, square)
        n //= 2
        square = _core.matmul(square, square) if n else square
    if result is None:
        one = _core.identity(a.shape[-1], a.dtype, device=a.device)
        return _core.copy(_core.broadcast_to(one, a.shape))
    return _core.copy(a) if result is a else result


def _is_lapack_available() -> bool:
    """Always true: the daemon has it."""
    return True


def _svd(a: _ndarray) -> tuple[_ndarray, _ndarray, _ndarray]:
    u, s, vt = _generated.svd(a, full_matrices=False)
    return u, s, vt


def _singular_values(a: _ndarray) -> _ndarray:
    values: _ndarray = _generated.svd(a, compute_uv=False)
    return values


def norm(
    x: _ndarray, ord: float | str | None = None, axis: _Any = None, keepdims: bool = False
) -> _ndarray:
    """The norm of vectors along one axis, or of matrices along two; of all elements by default.

    `ord` is a number as for numpy.linalg.norm, or for matrices 'fro' (the default) or 'nuc', the sum
    of the singular values. Of x's dtype; of integers float64.

    Raises:
      ValueError: an `ord` that vectors or matrices don't have.
    """
    x = _floating(x)
    if not isinstance(ord, str):
        return _generated.norm(x, ord, axis, keepdims)
    axes = range(x.ndim) if axis is None else _np.atleast_1d(axis).tolist()
    axes = [_checked_axis("norm", i, x.ndim) for i in axes]
    if ord not in ("fro", "nuc") or len(axes) != 2:
        raise ValueError(
            f"[norm] expects 'fro' or 'nuc', and two axes with it, got {ord!r}, {axis}"
        )
    if ord == "fro":
        return _generated.norm(x, None, axis, keepdims)
    _, s, _ = _svd(_core.moveaxis(x, list(axes), (-2, -1)))
    total = _core.sum(s, -1)
    if not keepdims:
        return total
    return total.reshape([1 if i in axes else n for i, n in enumerate(x.shape)])


def cond(x: _ndarray, p: float | str | None = None) -> _ndarray:
    """The condition number of matrices: the ratio of the singular values for p None, 2 and -2, else
    norm(x, p) * norm(inv(x), p). A singular matrix gives infinity (a ChainerxError with other p).
    """
    x = _floating(x)
    if p in (None, 2, -2):
        _, s, _ = _svd(x)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    inverse = _generated.inv(x)
    return norm(x, p, (-2, -1)) * norm(inverse, p, (-2, -1))


def matrix_rank(A: _ndarray, tol: _Any = None, hermitian: bool = False) -> _ndarray:
    """The number (int64) of singular values above `tol`; of a vector, whether it is not zero.

    By default `tol` is the largest singular value times the larger dimension times the dtype's
    epsilon.
    """
    if A.ndim < 2:
        return _core.any(_core.not_equal(A, 0)).astype("int64")
    A = _floating(A)
    s = _core.abs(_generated.eigvalsh(A)) if hermitian else _singular_values(A)
    if tol is None:
        largest = _core.amax(s, -1, True)
        tol = largest * (max(A.shape[-2:]) * float(_np.finfo(A.dtype).eps))
    elif isinstance(tol, _core.ndarray):
        tol = tol.reshape(*tol.shape, 1)
    return _core.sum(_core.greater(s, tol), -1)


def lstsq(a: _Any, b: _Any, rcond: float | None = None) -> tuple[_ndarray, _ndarray, int, _ndarray]:
    """x that minimizes |a x - b| for a matrix a (m, n) and b (m,) or (m, k).

    Returns:
      (x, residuals, rank, s): x is (n,) or (n, k); residuals, the sums of squared differences, are (k,)
      or (1,), and (0,) if the rank is below n or m <= n; rank is an int, which is waited for; s are
      the singular values. x is differentiable where the rank is constant, and so are the residuals.
    """
    a, b = _arrays_like("lstsq", a, b)
    if a.ndim != 2 or b.ndim not in (1, 2) or a.shape[0] != b.shape[0]:
        raise _core.DimensionError(
            f"[lstsq] expects a matrix and as many right sides' rows, got {a.shape} and {b.shape}"
        )
    m, n = a.shape
    dtype = _np.promote_types(a.dtype, b.dtype)
    dtype = dtype if _is_float(dtype) else _np.dtype("float64")
    a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
    if rcond is None:
        rcond = float(_np.finfo(dtype).eps) * max(m, n)
    elif rcond < 0:
        rcond = float(_np.finfo(dtype).eps)
    if min(m, n) == 0:
        s, rank = _core.zeros((0,), dtype, device=a.device), 0
        x = _core.zeros((n, *b.shape[1:]), dtype, device=a.device)
    else:
        s = _singular_values(a)
        rank = int(_core.sum(_core.greater(s, s[0] * rcond)))
        x = _core.matmul(_generated.pinv(a, rcond), b)
    if rank < n or m <= n:
        residuals = _core.zeros((0,), dtype, device=a.device)
    else:
        residuals = _core.sum(_core.square(_core.matmul(a, x) - b), 0).reshape(-1)
    return x, residuals, rank, s


def multi_dot(arrays: _Sequence[_Any]) -> _ndarray:
    """The product of matrices, in the order that takes the fewest multiplications.

    The first and the last may be vectors.

    Raises:
      DimensionError: others don't have two dimensions, or sizes don't agree.
    """
    arrays = _arrays_like("multi_dot", *arrays)
    if len(arrays) < 2:
        raise ValueError(f"[multi_dot] expects at least two arrays, got {len(arrays)}")
    first, last = arrays[0].ndim == 1, arrays[-1].ndim == 1
    if first:
        arrays[0] = arrays[0].reshape(1, -1)
    if last:
        arrays[-1] = arrays[-1].reshape(-1, 1)
    for a, b in zip(arrays, arrays[1:]):
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            raise _core.DimensionError(
                f"[multi_dot] expects matrices that can be multiplied, got {a.shape} and {b.shape}"
            )
    sizes = [a.shape[0] for a in arrays] + [arrays[-1].shape[1]]

    @_functools.cache
    def best(i: int, j: int) -> tuple[int, int]:
        """The fewest multiplications for arrays[i:j + 1], and where the last product is."""
        if i == j:
            return 0, i
        return min(
            (best(i, k)[0] + best(k + 1, j)[0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
            for k in range(i, j)
        )

    def product(i: int, j: int) -> _ndarray:
        if i == j:
            factor: _ndarray = arrays[i]
            return factor
        k = best(i, j)[1]
        return _core.matmul(product(i, k), product(k + 1, j))

    result = product(0, len(arrays) - 1)
    if first and last:
        return result.reshape(())
    return result.reshape(-1) if first or last else result


def tensorinv(a: _ndarray, ind: int = 2) -> _ndarray:
    """The inverse of a for tensordot over its first `ind` axes."""
    if not 0 < ind <= a.ndim:
        raise ValueError(f"[tensorinv] expects ind in [1, {a.ndim}], got {ind}")
    inner = _math.prod(a.shape[ind:])
    inverse = _generated.inv(_floating(a).reshape(_math.prod(a.shape[:ind]), inner))
    return inverse.reshape(*a.shape[ind:], *a.shape[:ind])


def tensorsolve(a: _Any, b: _Any, axes: _Sequence[int] | None = None) -> _ndarray:
    """x with tensordot(a, x, x.ndim) = b; the axes are moved to the end of a first."""
    a, b = _arrays_like("tensorsolve", a, b)
    if axes is not None:
        axes = [_checked_axis("tensorsolve", i, a.ndim) for i in axes]
        a = a.transpose([i for i in range(a.ndim) if i not in axes] + axes)
    shape = a.shape[b.ndim :]
    size = _math.prod(shape)
    x = solve(a.reshape(b.size, size), _core.ravel(b))
    return x.reshape(shape)


if _typing.TYPE_CHECKING:
    from chx._linalg_ops import *  # type: ignore[assignment]  # noqa: F403
