"""ChainerX's compiled module, as Chainer and tests use it."""

import chx as _chx

globals().update({name: getattr(_chx, name) for name in vars(_chx) if not name.startswith("_")})


def _is_debug():
    """Whether ChainerX was built or started for debugging."""
    return False


def _refuse(name):
    raise _chx.NotImplementedError(
        f"[{name}] expects memory of this process; a daemon's arrays are in another"
    )


def _fromrawpointer(ptr, shape, dtype, strides, device, offset, base):
    """An array cannot be of this process's memory.

    Raises:
      NotImplementedError (chx's): always.
    """
    _refuse("_fromrawpointer")


def _to_cupy(array):
    """A CuPy array cannot be of the daemon's memory.

    Raises:
      NotImplementedError (chx's): always.
    """
    _refuse("_to_cupy")
