"""Products of arrays but einsum(). One of them is an array of chx; the other may be a list, a number
or a NumPy array. Gradients come from the operators.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from chx import _core
from chx._compat import zip_strict
from chx._core import ndarray
from chx._numpy.arguments import arrays_like, checked_axis
from chx._types import DtypeLike


def outer(a: Any, b: Any) -> ndarray:
    """The products of all pairs of elements, (a.size, b.size)."""
    a, b = arrays_like("outer", a, b)
    result: ndarray = _core.ravel(a).reshape(a.size, 1) * _core.ravel(b)
    return result


def inner(a: Any, b: Any) -> ndarray:
    """Sums of products over the last axes; of a number and an array, their product."""
    a, b = arrays_like("inner", a, b)
    if a.ndim == 0 or b.ndim == 0:
        result: ndarray = a * b
        return result
    return tensordot(a, b, ([-1], [-1]))


def vdot(a: Any, b: Any) -> ndarray:
    """The dot product of the flattened arrays, 0-d."""
    a, b = arrays_like("vdot", a, b)
    return _core.dot(_core.ravel(a), _core.ravel(b))


def kron(a: Any, b: Any) -> ndarray:
    """The Kronecker product."""
    a, b = arrays_like("kron", a, b)
    ndim = max(a.ndim, b.ndim)
    left = (1,) * (ndim - a.ndim) + a.shape
    right = (1,) * (ndim - b.ndim) + b.shape
    apart = a.reshape([n for d in left for n in (d, 1)]) * b.reshape(
        [n for d in right for n in (1, d)]
    )
    result: ndarray = apart.reshape([m * n for m, n in zip_strict(left, right)])
    return result


def tensordot(a: Any, b: Any, axes: Any = 2) -> ndarray:
    """Sums of products over axes: the last of a and the first of b, or two lists of them.

    Raises:
      DimensionError: there are no such axes, or their sizes differ.
      TypeError: the axes are neither a number nor two lists of numbers.
    """
    a, b = arrays_like("tensordot", a, b)
    of_a, of_b = _summed(a, b, axes)
    sizes = [a.shape[i] for i in of_a]
    if sizes != [b.shape[i] for i in of_b]:
        raise _core.DimensionError(
            f"[tensordot] expects axes of equal sizes, got {a.shape} over {of_a} and {b.shape} over {of_b}"
        )
    free_a = [i for i in range(a.ndim) if i not in of_a]
    free_b = [i for i in range(b.ndim) if i not in of_b]
    size = math.prod(sizes)
    shape = [a.shape[i] for i in free_a] + [b.shape[i] for i in free_b]
    left = a.transpose(free_a + of_a).reshape(_size(a, free_a), size)
    right = b.transpose(of_b + free_b).reshape(size, _size(b, free_b))
    return _core.matmul(left, right).reshape(shape)


def _summed(a: ndarray, b: ndarray, axes: Any) -> tuple[list[int], list[int]]:
    """The axes of a and b as two lists of numbers from 0 on."""
    try:
        if not isinstance(axes, (list, tuple, np.ndarray)):
            count = operator.index(axes)
            if not 0 <= count <= min(a.ndim, b.ndim):
                raise _core.DimensionError(
                    f"[tensordot] expects 0 to {min(a.ndim, b.ndim)} axes of {a.shape} and {b.shape}, "
                    f"got {count}"
                )
            return list(range(a.ndim - count, a.ndim)), list(range(count))
        pair = [[operator.index(i) for i in np.atleast_1d(part)] for part in axes]
    except TypeError:
        raise TypeError(
            f"[tensordot] expects a number of axes, or two lists of axes, got {axes!r}"
        ) from None
    if len(pair) != 2 or len(pair[0]) != len(pair[1]):
        raise _core.DimensionError(
            f"[tensordot] expects two equally long lists of axes, got {axes!r}"
        )
    found = tuple(
        [checked_axis("tensordot", i, x.ndim) for i in part] for part, x in zip_strict(pair, (a, b))
    )
    for part in found:
        if len(set(part)) != len(part):
            raise _core.DimensionError(f"[tensordot] expects each axis once, got {axes!r}")
    return found[0], found[1]


def _size(a: ndarray, axes: Iterable[int]) -> int:
    return math.prod(a.shape[i] for i in axes)


def cross(
    a: Any,
    b: Any,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> ndarray:
    """The cross products of vectors of 2 or 3 elements along an axis; of two 2-vectors, a number.

    Raises:
      ValueError: vectors of another length.
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = arrays_like("cross", a, b)
    a = _core.moveaxis(a, checked_axis("cross", axisa, a.ndim), -1)
    b = _core.moveaxis(b, checked_axis("cross", axisb, b.ndim), -1)
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise ValueError(f"[cross] expects vectors of 2 or 3 elements, got {a.shape} and {b.shape}")
    x1, y1 = a[..., 0], a[..., 1]
    x2, y2 = b[..., 0], b[..., 1]
    z: ndarray = x1 * y2 - y1 * x2
    if a.shape[-1] == b.shape[-1] == 2:
        return z
    if a.shape[-1] == 2:
        x, y = y1 * b[..., 2], -(x1 * b[..., 2])
    elif b.shape[-1] == 2:
        x, y = -(a[..., 2] * y2), a[..., 2] * x2
    else:
        x, y = y1 * b[..., 2] - a[..., 2] * y2, a[..., 2] * x2 - x1 * b[..., 2]
    return _core.moveaxis(_core.stack([x, y, z], -1), -1, checked_axis("cross", axisc, z.ndim + 1))


def trace(
    a: ndarray, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DtypeLike | None = None
) -> ndarray:
    """The sum along a diagonal of two axes, of a dtype if one is given."""
    if dtype is None:
        return _core.trace(a, offset, axis1, axis2)
    return _core.sum(_core.diagonal(a, offset, axis1, axis2), -1, dtype=dtype)
