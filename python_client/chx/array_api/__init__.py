"""The Python array API standard's names: what `x.__array_namespace__()` gives of a chx array.

    import chx
    from chx import array_api as xp

    chx.connect()
    x = xp.linspace(0.0, 1.0, 5)
    y = xp.matmul(xp.expand_dims(x, axis=0), x)

The arrays are chx.ndarray, with gradients. docs/array_api.md says what is in and what is not.
"""

from math import e, inf, nan, pi  # noqa: F401

from chx.array_api import _methods, linalg  # noqa: F401
from chx.array_api._creation import (  # noqa: F401
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from chx.array_api._dtypes import (  # noqa: F401
    Info as _Info,
    astype,
    bool_ as bool,
    can_cast,
    finfo,
    float16,
    float32,
    float64,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    isdtype,
    result_type,
    uint8,
)
from chx.array_api._elementwise import (  # noqa: F401
    abs,
    acos,
    acosh,
    add,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    ceil,
    clip,
    conj,
    copysign,
    cos,
    cosh,
    divide,
    equal,
    exp,
    expm1,
    floor,
    floor_divide,
    greater,
    greater_equal,
    hypot,
    imag,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    nextafter,
    not_equal,
    positive,
    pow,
    real,
    reciprocal,
    remainder,
    round,
    sign,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
)
from chx.array_api._manipulation import (  # noqa: F401
    broadcast_arrays,
    broadcast_to,
    concat,
    diff,
    expand_dims,
    flip,
    moveaxis,
    permute_dims,
    repeat,
    reshape,
    roll,
    squeeze,
    stack,
    take,
    take_along_axis,
    tile,
    unstack,
    where,
)
from chx.array_api._reductions import (  # noqa: F401
    all,
    any,
    argmax,
    argmin,
    argsort,
    count_nonzero,
    cumulative_prod,
    cumulative_sum,
    max,
    mean,
    min,
    nonzero,
    prod,
    searchsorted,
    sort,
    std,
    sum,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    var,
)
from chx.array_api.linalg import matmul, matrix_transpose, tensordot, vecdot  # noqa: F401

__array_api_version__ = _methods.VERSIONS[-1]
newaxis = None


def __array_namespace_info__():
    """What this namespace can do: capabilities, devices and dtypes, by methods."""
    return _Info()
