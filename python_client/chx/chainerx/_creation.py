"""Creation as ChainerX has it: an array like another is on the default device, not the other's."""

from collections.abc import Callable

import chx
from chx._core import ndarray
from chx._types import DeviceLike, Scalar


def _like(
    a: ndarray,
    make: Callable[..., ndarray],
    make_like: Callable[[ndarray], ndarray],
    device: DeviceLike,
) -> ndarray:
    device = chx.get_device(device)
    return make_like(a) if device is a.device else make(a.shape, dtype=a.dtype, device=device)


def empty_like(a: ndarray, device: DeviceLike = None) -> ndarray:
    """An array of a's shape and dtype, on the default device if none is given."""
    return _like(a, chx.empty, chx.empty_like, device)


def zeros_like(a: ndarray, device: DeviceLike = None) -> ndarray:
    """Zeros in a's shape and dtype, on the default device if none is given."""
    return _like(a, chx.zeros, chx.zeros_like, device)


def ones_like(a: ndarray, device: DeviceLike = None) -> ndarray:
    """Ones in a's shape and dtype, on the default device if none is given."""
    return _like(a, chx.ones, chx.ones_like, device)


def full_like(a: ndarray, fill_value: Scalar, device: DeviceLike = None) -> ndarray:
    """fill_value in a's shape and dtype, on the default device if none is given."""
    return chx.full(a.shape, fill_value, a.dtype, device)
