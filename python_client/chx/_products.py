"""NumPy's products of arrays but einsum(). The first argument is an array of chx, the second one may be
a list, a number or a NumPy array. Gradients come from the operators.
"""

import math
import operator

import numpy as np

from chx import _core
from chx._arranging import _axis, _like


def outer(a, b):
    """The products of all pairs of elements, (a.size, b.size)."""
    return _core.ravel(a).reshape(a.size, 1) * _core.ravel(_like(b, a))


def inner(a, b):
    """Sums of products over the last axes; of a number and an array, their product."""
    b = _like(b, a)
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    return tensordot(a, b, ([-1], [-1]))


def vdot(a, b):
    """The dot product of the flattened arrays, 0-d."""
    return _core.dot(_core.ravel(a), _core.ravel(_like(b, a)))


def kron(a, b):
    """The Kronecker product."""
    b = _like(b, a)
    ndim = max(a.ndim, b.ndim)
    left = (1,) * (ndim - a.ndim) + a.shape
    right = (1,) * (ndim - b.ndim) + b.shape
    apart = a.reshape([n for d in left for n in (d, 1)]) * b.reshape(
        [n for d in right for n in (1, d)]
    )
    return apart.reshape([m * n for m, n in zip(left, right, strict=True)])


def tensordot(a, b, axes=2):
    """Sums of products over axes: the last of a and the first of b, or two lists of them.

    Raises:
      DimensionError: there are no such axes, or their sizes differ.
      TypeError: the axes are neither a number nor two lists of numbers.
    """
    b = _like(b, a)
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


def _summed(a, b, axes):
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
    found = [
        [_axis("tensordot", i, x.ndim) for i in part] for part, x in zip(pair, (a, b), strict=True)
    ]
    for part in found:
        if len(set(part)) != len(part):
            raise _core.DimensionError(f"[tensordot] expects each axis once, got {axes!r}")
    return found


def _size(a, axes):
    return math.prod(a.shape[i] for i in axes)
