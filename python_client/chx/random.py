"""Random arrays, made on the device from the session's seed and a counter."""

from chx import _core


def _size(size):
    return () if size is None else size


def normal(loc=0.0, scale=1.0, size=None, *, dtype="float64", device=None):
    """Normal values with mean `loc` and deviation `scale`, in the shape `size`."""
    return _core._random("random_normal", _size(size), loc, scale, dtype, device)


def uniform(low=0.0, high=1.0, size=None, *, dtype="float64", device=None):
    """Uniform values in [low, high), in the shape `size`."""
    return _core._random("random_uniform", _size(size), low, high, dtype, device)


def seed(seed):
    """Makes what follows repeatable, on every device."""
    from chx import _support

    (_core._get_default_session() or _support.connect_default()).seed(seed)
