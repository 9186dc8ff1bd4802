"""NumPy-like arrays with gradients, held by a chxd daemon.

    import chx

    chx.connect()  # or chx.connect("unix:/run/chxd/chxd.sock")
    w = chx.array([[1.0, 2.0], [3.0, 4.0]]).require_grad()
    loss = chx.sum(chx.tanh(w @ w))
    loss.backward()
    print(w.grad)

An operator returns at once; wrong shapes and dtypes raise at its own line; reading a value waits.
"""

import numpy as _numpy
from numpy import (  # noqa: F401
    bool_,
    dtype,
    e,
    euler_gamma,
    float16,
    float32,
    float64,
    inf,
    int8,
    int16,
    int32,
    int64,
    nan,
    newaxis,
    pi,
    uint8,
)

from chx import (  # noqa: F401
    _core,
    _forms,
    _indexing,
    _routines,
    _support,
    kernels,
    linalg,
    optimizers,
    random,
)
from chx._along import put_along_axis  # noqa: F401
from chx._arranging import (  # noqa: F401
    append,
    array_split,
    block,
    column_stack,
    delete,
    diag_indices,
    diag_indices_from,
    indices,
    insert,
    ix_,
    ndim,
    ravel_multi_index,
    resize,
    rot90,
    row_stack,
    shape,
    size,
    tril_indices,
    tril_indices_from,
    trim_zeros,
    triu_indices,
    triu_indices_from,
    unravel_index,
    vander,
)
from chx._averages import (  # noqa: F401
    average,
    corrcoef,
    cov,
    nanmedian,
    nanpercentile,
    nanquantile,
    percentile,
    quantile,
)
from chx._calculus import (  # noqa: F401
    conj,
    conjugate,
    convolve,
    correlate,
    cross,
    divmod,
    ediff1d,
    gradient,
    imag,
    interp,
    isneginf,
    isposinf,
    modf,
    real,
    trapz,
    unwrap,
)
from chx._choosing import (  # noqa: F401
    argpartition,
    choose,
    compress,
    extract,
    fill_diagonal,
    lexsort,
    partition,
    piecewise,
    place,
    put,
    putmask,
    select,
)
from chx._config import config  # noqa: F401
from chx._context import (  # noqa: F401
    Backend,
    Context,
    ContextScope,
    DeviceScope,
    context_scope,
    get_backend,
    get_default_context,
    get_device,
    get_global_default_context,
    set_default_context,
    set_global_default_context,
    using_device,
)
from chx._core import (  # noqa: F401
    BackendError,
    CancelledError,
    ChainerxError,
    ContextError,
    Device,
    DeviceError,
    DimensionError,
    DtypeError,
    GradientCheckError,
    GradientError,
    NotImplementedError,
    OutOfMemoryError,
    get_default_device,
    ndarray,
    set_default_device,
)
from chx._einsum import einsum  # noqa: F401
from chx._forms import nancumprod, nancumsum  # noqa: F401
from chx._functions import (  # noqa: F401
    argwhere,
    array_equal,
    bincount,
    diff,
    digitize,
    flatnonzero,
    histogram,
    searchsorted,
    unique,
)
from chx._install import install_chainerx  # noqa: F401
from chx._padding import pad  # noqa: F401
from chx._products import (  # noqa: F401
    inner,
    kron,
    outer,
    tensordot,
    vdot,
)
from chx._recurrent import (  # noqa: F401
    n_step_bigru,
    n_step_bilstm,
    n_step_birnn,
    n_step_gru,
    n_step_lstm,
    n_step_rnn,
)
from chx._routines import (  # noqa: F401
    asanyarray,
    ascontiguousarray,
    broadcast_arrays,
    clip,
    fix,
    from_dlpack,
    frombuffer,
    fromfile,
    fromfunction,
    fromiter,
    fromstring,
    load,
    loadtxt,
    save,
    savez,
)
from chx._sets import (  # noqa: F401
    in1d,
    intersect1d,
    isin,
    setdiff1d,
    setxor1d,
    union1d,
)
from chx._support import (  # noqa: F401
    AnyGraph,
    BackpropId,
    Session,
    anygraph,
    array,
    asarray,
    backprop_scope,
    backward,
    cancel,
    check_backward,
    check_double_backward,
    connect,
    force_backprop_mode,
    grad,
    is_backprop_required,
    no_backprop_mode,
    to_numpy,
)

__version__ = "0.1.0"

all_dtypes = (bool_, int8, int16, int32, int64, uint8, float16, float32, float64)
Inf = Infinity = PINF = infty = inf
NaN = NAN = nan
# NumPy's objects, where it still has them.
NINF = getattr(_numpy, "NINF", -inf)
PZERO = getattr(_numpy, "PZERO", 0.0)
NZERO = getattr(_numpy, "NZERO", -0.0)


def is_available():
    """Always true: the compiled module is there."""
    return True


# The operators, from the table.
for _name in _core._operators:
    globals()[_name] = getattr(_core, _name)
# Those whose arguments have another form than in the table.
split = _support.split
nonzero = _indexing.nonzero
for _name in ("copyto", "dsplit", "hsplit", "meshgrid", "tree_lstm", "vsplit"):
    globals()[_name] = getattr(_routines, _name)
for _name in vars(_forms):
    if _name in _core._operators:
        globals()[_name] = getattr(_forms, _name)
del _name

# After the operators, which they are made of.
from chx import _async, _methods, array_api  # noqa: E402, F401
from chx._async import synchronize_async  # noqa: E402, F401
