"""Creation as ChainerX has it: an array like another is on the default device, not the other's."""

import chx


def _like(a, make, make_like, device):
    device = chx.get_device(device)
    return make_like(a) if device is a.device else make(a.shape, dtype=a.dtype, device=device)


def empty_like(a, device=None):
    """An array of a's shape and dtype, on the default device if none is given."""
    return _like(a, chx.empty, chx.empty_like, device)


def zeros_like(a, device=None):
    """Zeros in a's shape and dtype, on the default device if none is given."""
    return _like(a, chx.zeros, chx.zeros_like, device)


def ones_like(a, device=None):
    """Ones in a's shape and dtype, on the default device if none is given."""
    return _like(a, chx.ones, chx.ones_like, device)


def full_like(a, fill_value, device=None):
    """fill_value in a's shape and dtype, on the default device if none is given."""
    return chx.full(a.shape, fill_value, a.dtype, device)
