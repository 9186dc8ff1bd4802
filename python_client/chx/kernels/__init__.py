"""Kernels of the user, written as CuPy's: strings of C++ for one element, or for one thread.

    squared_diff = chx.kernels.elementwise("T x, T y", "T z", "z = (x - y) * (x - y)", "squared_diff")
    z = squared_diff(x, y)

Nothing is compiled, and the daemon runs no code of clients: statements become chx's operators, which run
on every device and have gradients (docs/decisions/0011-kernels-of-the-user.md). Loops are limited, and
indexes are checked (docs/decisions/0037-kernels-with-loops-and-indexes.md). What C++ may do beyond that is
refused with an error.
"""

from chx.kernels._kernels import ElementwiseKernel, elementwise
from chx.kernels._raw import RawKernel, raw
from chx.kernels._reduction import ReductionKernel, reduce

__all__ = ["ElementwiseKernel", "RawKernel", "ReductionKernel", "elementwise", "raw", "reduce"]
