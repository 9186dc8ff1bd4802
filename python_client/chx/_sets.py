"""Set operations on the elements of arrays. Results whose size depends on values are waited for."""

import numpy as np

import chx
from chx import _core
from chx._arranging import _like


def in1d(ar1, ar2, assume_unique=False, invert=False):
    """Whether each element of the flattened ar1 is in ar2 (or is not, with `invert`), as bool."""
    flat, others = _core.ravel(ar1), _core.ravel(_like(ar2, ar1))
    if others.size == 0:
        return _core.full(flat.shape, bool(invert), "bool", device=ar1.device)
    dtype = np.promote_types(flat.dtype, others.dtype)
    flat, others = flat.astype(dtype, copy=False), others.astype(dtype, copy=False)
    ordered = _core.sort(others)
    place = chx.clip(chx.searchsorted(ordered, flat), 0, others.size - 1)
    found = _core.take(ordered, place, 0)
    return _core.not_equal(found, flat) if invert else _core.equal(found, flat)


def isin(element, test_elements, assume_unique=False, invert=False):
    """Whether each element is in another array (or is not, with `invert`), as bool of its shape."""
    return in1d(element, test_elements, assume_unique, invert).reshape(element.shape)


def union1d(ar1, ar2):
    """The sorted distinct elements of both."""
    return chx.unique(_core.concatenate([_core.ravel(ar1), _core.ravel(_like(ar2, ar1))], 0))


def intersect1d(ar1, ar2, assume_unique=False, return_indices=False):
    """The sorted distinct elements that are in both; with `return_indices` also the first place of
    each in either.
    """
    ar2 = _like(ar2, ar1)
    if not return_indices:
        first = chx.unique(ar1)
        return first[in1d(first, ar2)]
    first, place1 = chx.unique(ar1, return_index=True)
    second, place2 = chx.unique(ar2, return_index=True)
    in_both, in_second = in1d(first, second), in1d(second, first)
    return first[in_both], place1[in_both], place2[in_second]


def setdiff1d(ar1, ar2, assume_unique=False):
    """The sorted distinct elements of ar1 that are not in ar2; in ar1's order if it is unique."""
    first = _core.ravel(ar1) if assume_unique else chx.unique(ar1)
    return first[in1d(first, ar2, invert=True)]


def setxor1d(ar1, ar2, assume_unique=False):
    """The sorted distinct elements that are in exactly one of both."""
    first, second = chx.unique(ar1), chx.unique(_like(ar2, ar1))
    only = [first[in1d(first, second, invert=True)], second[in1d(second, first, invert=True)]]
    return _core.sort(_core.concatenate(only, 0))
