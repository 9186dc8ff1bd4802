"""The public names of chx and their types; _ops.pyi is generated from the operator table."""

from typing import Any

from numpy import (
    bool_ as bool_,
    dtype as dtype,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    uint8 as uint8,
)

from . import (
    array_api as array_api,
    kernels as kernels,
    linalg as linalg,
    optimizers as optimizers,
    random as random,
)
from ._along import put_along_axis as put_along_axis
from ._arranging import (
    append as append,
    array_split as array_split,
    block as block,
    column_stack as column_stack,
    delete as delete,
    diag_indices as diag_indices,
    diag_indices_from as diag_indices_from,
    indices as indices,
    insert as insert,
    ix_ as ix_,
    ndim as ndim,
    ravel_multi_index as ravel_multi_index,
    resize as resize,
    rot90 as rot90,
    row_stack as row_stack,
    shape as shape,
    size as size,
    tril_indices as tril_indices,
    tril_indices_from as tril_indices_from,
    trim_zeros as trim_zeros,
    triu_indices as triu_indices,
    triu_indices_from as triu_indices_from,
    unravel_index as unravel_index,
    vander as vander,
)
from ._async import synchronize_async as synchronize_async
from ._averages import (
    average as average,
    corrcoef as corrcoef,
    cov as cov,
    nanmedian as nanmedian,
    nanpercentile as nanpercentile,
    nanquantile as nanquantile,
    percentile as percentile,
    quantile as quantile,
)
from ._calculus import (
    conj as conj,
    conjugate as conjugate,
    convolve as convolve,
    correlate as correlate,
    cross as cross,
    divmod as divmod,
    ediff1d as ediff1d,
    gradient as gradient,
    imag as imag,
    interp as interp,
    isneginf as isneginf,
    isposinf as isposinf,
    modf as modf,
    real as real,
    trapz as trapz,
    unwrap as unwrap,
)
from ._choosing import (
    argpartition as argpartition,
    choose as choose,
    compress as compress,
    extract as extract,
    fill_diagonal as fill_diagonal,
    lexsort as lexsort,
    partition as partition,
    piecewise as piecewise,
    place as place,
    put as put,
    putmask as putmask,
    select as select,
)
from ._config import config as config
from ._context import (
    Backend as Backend,
    Context as Context,
    ContextScope as ContextScope,
    DeviceScope as DeviceScope,
    context_scope as context_scope,
    get_backend as get_backend,
    get_default_context as get_default_context,
    get_device as get_device,
    get_global_default_context as get_global_default_context,
    set_default_context as set_default_context,
    set_global_default_context as set_global_default_context,
    using_device as using_device,
)
from ._core import (
    BackendError as BackendError,
    CancelledError as CancelledError,
    ChainerxError as ChainerxError,
    ContextError as ContextError,
    Device as Device,
    DeviceError as DeviceError,
    DimensionError as DimensionError,
    DtypeError as DtypeError,
    GradientCheckError as GradientCheckError,
    GradientError as GradientError,
    NotImplementedError as NotImplementedError,
    OutOfMemoryError as OutOfMemoryError,
    get_default_device as get_default_device,
    ndarray as ndarray,
    set_default_device as set_default_device,
)
from ._einsum import einsum as einsum
from ._forms import (  # type: ignore[assignment]
    allclose as allclose,
    argsort as argsort,
    atleast_1d as atleast_1d,
    atleast_2d as atleast_2d,
    atleast_3d as atleast_3d,
    expand_dims as expand_dims,
    flip as flip,
    isclose as isclose,
    median as median,
    nancumprod as nancumprod,
    nancumsum as nancumsum,
    roll as roll,
    sort as sort,
    std as std,
    take_along_axis as take_along_axis,
    trace as trace,
    var as var,
    where as where,
)
from ._functions import (
    argwhere as argwhere,
    array_equal as array_equal,
    bincount as bincount,
    diff as diff,
    digitize as digitize,
    flatnonzero as flatnonzero,
    histogram as histogram,
    searchsorted as searchsorted,
    unique as unique,
)
from ._indexing import nonzero as nonzero
from ._install import install_chainerx as install_chainerx
from ._ops import *  # noqa: F403
from ._padding import pad as pad
from ._products import (
    inner as inner,
    kron as kron,
    outer as outer,
    tensordot as tensordot,
    vdot as vdot,
)
from ._recurrent import (
    n_step_bigru as n_step_bigru,
    n_step_bilstm as n_step_bilstm,
    n_step_birnn as n_step_birnn,
    n_step_gru as n_step_gru,
    n_step_lstm as n_step_lstm,
    n_step_rnn as n_step_rnn,
)
from ._routines import (  # type: ignore[assignment]
    asanyarray as asanyarray,
    ascontiguousarray as ascontiguousarray,
    broadcast_arrays as broadcast_arrays,
    clip as clip,
    copyto as copyto,
    dsplit as dsplit,
    fix as fix,
    from_dlpack as from_dlpack,
    frombuffer as frombuffer,
    fromfile as fromfile,
    fromfunction as fromfunction,
    fromiter as fromiter,
    fromstring as fromstring,
    hsplit as hsplit,
    load as load,
    loadtxt as loadtxt,
    meshgrid as meshgrid,
    save as save,
    savez as savez,
    tree_lstm as tree_lstm,
    vsplit as vsplit,
)
from ._sets import (
    in1d as in1d,
    intersect1d as intersect1d,
    isin as isin,
    setdiff1d as setdiff1d,
    setxor1d as setxor1d,
    union1d as union1d,
)
from ._support import (  # type: ignore[assignment]
    AnyGraph as AnyGraph,
    BackpropId as BackpropId,
    Session as Session,
    anygraph as anygraph,
    array as array,
    asarray as asarray,
    backprop_scope as backprop_scope,
    backward as backward,
    cancel as cancel,
    check_backward as check_backward,
    check_double_backward as check_double_backward,
    connect as connect,
    force_backprop_mode as force_backprop_mode,
    grad as grad,
    is_backprop_required as is_backprop_required,
    no_backprop_mode as no_backprop_mode,
    split as split,
    to_numpy as to_numpy,
)

__version__: str
all_dtypes: tuple[type[Any], ...]
pi: float
e: float
euler_gamma: float
inf: float
Inf: float
Infinity: float
PINF: float
infty: float
nan: float
NaN: float
NAN: float
NINF: float
PZERO: float
NZERO: float
newaxis: None

def is_available() -> bool: ...
