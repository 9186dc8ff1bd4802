"""Which threads run: all of them (None), none (False), or those of a mask of bools."""

from __future__ import annotations

from typing import Any

import numpy as np

from chx._compat import TypeAlias
from chx.kernels._values import Arithmetic, Data, is_array

Mask: TypeAlias = Any  # None, False, numpy.ndarray or chx.ndarray


class Masks:
    """Combines masks; what is known here to be all or none of the threads becomes None or False."""

    def __init__(self, arithmetic: Arithmetic) -> None:
        self._do = arithmetic

    def both(self, mask: Mask, condition: Data) -> Mask:
        """Threads of a mask for which a condition holds; the mask itself if it does for all."""
        if mask is False:
            return False
        if not is_array(condition):
            if np.all(condition):
                return mask
            if not np.any(condition):
                return False
        if mask is None:
            return condition
        joined = self._do.apply("logical_and", mask, condition)
        if not is_array(joined):
            if not joined.any():
                return False
            if not is_array(mask) and np.array_equal(joined, mask):
                return mask
        return joined

    def either(self, one: Mask, other: Mask) -> Mask:
        if one is None or other is None:
            return None
        if one is False or other is False:
            return other if one is False else one
        joined = self._do.apply("logical_or", one, other)
        return None if not is_array(joined) and joined.all() else joined

    def without(self, mask: Mask, other: Mask) -> Mask:
        """Threads of a mask that are not in the other."""
        if other is None:
            return False
        return mask if other is False else self.both(mask, self.inverse(other))

    def inverse(self, condition: Data) -> Data:
        return self._do.apply("logical_not", condition)
