"""What ChainerX shares with CuPy."""

from typing import NoReturn

import chx


def cupy_share_allocator(owner: str = "chainerx") -> NoReturn:
    """CuPy cannot allocate in the daemon's process.

    Raises:
      NotImplementedError (chx's): always.
    """
    raise chx.NotImplementedError(
        "[cupy_share_allocator] expects memory of this process; a daemon's arrays are in another"
    )
