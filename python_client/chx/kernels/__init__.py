"""Kernels of the user, written as CuPy's: strings of C++ for one element.

    squared_diff = chx.kernels.elementwise("T x, T y", "T z", "z = (x - y) * (x - y)", "squared_diff")
    z = squared_diff(x, y)

Nothing is compiled, and the daemon runs no code of clients: the expressions become chx's operators,
which run on every device and have gradients (docs/decisions/0011-kernels-of-the-user.md). What C++ may
do beyond that, loops, indexes and calls, is refused with an error.
"""

from chx.kernels._kernels import ElementwiseKernel, ReductionKernel, elementwise, reduce

__all__ = ["ElementwiseKernel", "ReductionKernel", "elementwise", "reduce"]
