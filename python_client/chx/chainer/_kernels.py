"""chainer.backends.cuda.elementwise and reduce where there is no CuPy: kernels on the daemon's arrays.

Functions call them in forward_chainerx, or anywhere on arrays. What is refused, see chx.kernels.
"""

from chainer.backends import cuda

from chx import kernels

_elementwise, _reduce = cuda.elementwise, cuda.reduce


def _refuse(name, options):
    if options:
        raise ValueError(f"[{name}] expects no options, got {', '.join(options)}")


def elementwise(in_params, out_params, operation, name, **kwargs):
    """A chx.kernels.ElementwiseKernel; CuPy's where that is installed."""
    if cuda.available:
        return _elementwise(in_params, out_params, operation, name, **kwargs)
    _refuse(name, kwargs)
    return kernels.elementwise(in_params, out_params, operation, name)


def reduce(in_params, out_params, map_expr, reduce_expr, post_map_expr, identity, name, **kwargs):
    """A chx.kernels.ReductionKernel; CuPy's where that is installed."""
    args = in_params, out_params, map_expr, reduce_expr, post_map_expr, identity, name
    if cuda.available:
        return _reduce(*args, **kwargs)
    reduce_type = kwargs.pop("reduce_type", None)
    _refuse(name, kwargs)
    return kernels.reduce(*args, reduce_type)


def adapt(chainer):
    cuda.elementwise, cuda.reduce = elementwise, reduce
