"""Linear algebra: systems of equations and decompositions, stacked along leading axes."""

from chx import _core

# The operators of this module, from the table.
globals().update(_core._submodules["linalg"])


def _is_lapack_available():
    """Always true: the daemon has it."""
    return True
