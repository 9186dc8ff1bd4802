"""chainer.backends.cuda.elementwise, reduce and raw where there is no CuPy: on the daemon's arrays.

Functions call them in forward_chainerx, or anywhere on arrays. What is refused, see chx.kernels.
"""

from chainer.backends import cuda

from chx import kernels

_elementwise, _reduce, _raw = cuda.elementwise, cuda.reduce, cuda.raw

# Of CuPy's options those that only say how it compiles.
_IGNORED = ("reduce_dims", "options")


def _preamble(name, options):
    """The one of CuPy's options that changes what is computed."""
    preamble = options.pop("preamble", "")
    for option in _IGNORED:
        options.pop(option, None)
    if options:
        raise ValueError(f"[{name}] expects no options but preamble, got {', '.join(options)}")
    return preamble


def elementwise(in_params, out_params, operation, name, **kwargs):
    """A chx.kernels.ElementwiseKernel; CuPy's where that is installed."""
    if cuda.available:
        return _elementwise(in_params, out_params, operation, name, **kwargs)
    return kernels.elementwise(in_params, out_params, operation, name, _preamble(name, kwargs))


def reduce(in_params, out_params, map_expr, reduce_expr, post_map_expr, identity, name, **kwargs):
    """A chx.kernels.ReductionKernel; CuPy's where that is installed."""
    args = in_params, out_params, map_expr, reduce_expr, post_map_expr, identity, name
    if cuda.available:
        return _reduce(*args, **kwargs)
    reduce_type = kwargs.pop("reduce_type", None)
    return kernels.reduce(*args, reduce_type, _preamble(name, kwargs))


def raw(code, name, *args, **kwargs):
    """A chx.kernels.RawKernel; CuPy's where that is installed."""
    if cuda.available:
        return _raw(code, name, *args, **kwargs)
    return kernels.raw(code, name, *args, **kwargs)


def adapt(chainer):
    cuda.elementwise, cuda.reduce, cuda.raw = elementwise, reduce, raw
