"""NumPy-like arrays with gradients, held by a chxd daemon.

    import chx

    chx.connect()  # or chx.connect("unix:/run/chxd/chxd.sock")
    w = chx.array([[1.0, 2.0], [3.0, 4.0]]).require_grad()
    loss = chx.sum(chx.tanh(w @ w))
    loss.backward()
    print(w.grad)

An operator returns at once; wrong shapes and dtypes raise at its own line; reading a value waits.
"""

import contextlib as _contextlib
import sys as _sys
import typing as _typing

import numpy as _np
from numpy import (
    bool_ as bool_,
    dtype as dtype,
    e as e,
    euler_gamma as euler_gamma,
    finfo as finfo,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    iinfo as iinfo,
    inf as inf,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    nan as nan,
    newaxis as newaxis,
    pi as pi,
    uint8 as uint8,
)

# Before whatever else imports chx._core.
from chx import _loading as _loading

# isort: split
from chx import (
    _array_attributes as _array_attributes,
    _callbacks as _callbacks,
    _core as _core,
    admin as admin,
    array_api as array_api,
    data as data,
    distributed as distributed,
    kernels as kernels,
    linalg as linalg,
    optimizers as optimizers,
    random as random,
    runs as runs,
    safetensors as safetensors,
    schedules as schedules,
)
from chx._autograd.autocast import (
    autocast as autocast,
    autocast_dtype as autocast_dtype,
)
from chx._autograd.backward import (
    backward as backward,
    grad as grad,
)
from chx._autograd.checkpointing import (
    checkpoint as checkpoint,
)
from chx._autograd.gradient_check import (
    check_backward as check_backward,
    check_double_backward as check_double_backward,
)
from chx._autograd.modes import (
    AnyGraph as AnyGraph,
    anygraph as anygraph,
    backprop_scope as backprop_scope,
    force_backprop_mode as force_backprop_mode,
    is_backprop_required as is_backprop_required,
    no_backprop_mode as no_backprop_mode,
)
from chx._config import (
    config as config,
)
from chx._core import (
    AuthenticationError as AuthenticationError,
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
from chx._functions.attention import (
    scaled_dot_product_attention as scaled_dot_product_attention,
)
from chx._functions.convolution import (
    conv1d as conv1d,
    conv2d as conv2d,
    conv3d as conv3d,
)
from chx._functions.dropout import (
    dropout as dropout,
)
from chx._functions.normalization import (
    group_norm as group_norm,
    layer_norm as layer_norm,
    rms_norm as rms_norm,
)
from chx._install import (
    install_chainerx as install_chainerx,
)
from chx._numpy import interoperability as _interoperability
from chx._numpy.calculus import (
    diff as diff,
    ediff1d as ediff1d,
    gradient as gradient,
    interp as interp,
    trapz as trapz,
    unwrap as unwrap,
)
from chx._numpy.convolution import (
    convolve as convolve,
    correlate as correlate,
)
from chx._numpy.creation import (
    array as array,
    asanyarray as asanyarray,
    asarray as asarray,
    ascontiguousarray as ascontiguousarray,
    frombuffer as frombuffer,
    fromfunction as fromfunction,
    fromiter as fromiter,
    geomspace as geomspace,
    logspace as logspace,
    meshgrid as meshgrid,
    vander as vander,
)
from chx._numpy.dlpack import (
    from_dlpack as from_dlpack,
)
from chx._numpy.dtypes import (
    can_cast as can_cast,
    result_type as result_type,
)
from chx._numpy.einsum import (
    einsum as einsum,
)
from chx._numpy.functional import (
    apply_along_axis as apply_along_axis,
    piecewise as piecewise,
)
from chx._numpy.histograms import (
    bincount as bincount,
    digitize as digitize,
    histogram as histogram,
)
from chx._numpy.index_arrays import (
    diag_indices as diag_indices,
    diag_indices_from as diag_indices_from,
    indices as indices,
    ix_ as ix_,
    nonzero as nonzero,
    ravel_multi_index as ravel_multi_index,
    tril_indices as tril_indices,
    tril_indices_from as tril_indices_from,
    triu_indices as triu_indices,
    triu_indices_from as triu_indices_from,
    unravel_index as unravel_index,
    where as where,
)
from chx._numpy.indexing import (
    choose as choose,
    compress as compress,
    fill_diagonal as fill_diagonal,
    place as place,
    put as put,
    put_along_axis as put_along_axis,
    putmask as putmask,
    select as select,
    take_along_axis as take_along_axis,
)
from chx._numpy.io import (
    fromfile as fromfile,
    fromstring as fromstring,
    load as load,
    loadtxt as loadtxt,
    save as save,
    savez as savez,
    savez_compressed as savez_compressed,
)
from chx._numpy.logic import (
    allclose as allclose,
    array_equal as array_equal,
    isclose as isclose,
    isneginf as isneginf,
    isposinf as isposinf,
)
from chx._numpy.manipulation import (
    append as append,
    array_split as array_split,
    atleast_1d as atleast_1d,
    atleast_2d as atleast_2d,
    atleast_3d as atleast_3d,
    block as block,
    broadcast_arrays as broadcast_arrays,
    column_stack as column_stack,
    copyto as copyto,
    delete as delete,
    dsplit as dsplit,
    expand_dims as expand_dims,
    flip as flip,
    hsplit as hsplit,
    insert as insert,
    ndim as ndim,
    resize as resize,
    roll as roll,
    rot90 as rot90,
    row_stack as row_stack,
    shape as shape,
    size as size,
    split as split,
    trim_zeros as trim_zeros,
    vsplit as vsplit,
)
from chx._numpy.mathematics import (
    clip as clip,
    conj as conj,
    conjugate as conjugate,
    divmod as divmod,
    fix as fix,
    imag as imag,
    modf as modf,
    nancumprod as nancumprod,
    nancumsum as nancumsum,
    real as real,
)
from chx._numpy.padding import (
    pad as pad,
)
from chx._numpy.polynomials import (
    polyfit as polyfit,
    polyval as polyval,
)
from chx._numpy.products import (
    cross as cross,
    inner as inner,
    kron as kron,
    outer as outer,
    tensordot as tensordot,
    trace as trace,
    vdot as vdot,
)
from chx._numpy.sets import (
    in1d as in1d,
    intersect1d as intersect1d,
    isin as isin,
    setdiff1d as setdiff1d,
    setxor1d as setxor1d,
    union1d as union1d,
    unique as unique,
)
from chx._numpy.sorting import (
    argpartition as argpartition,
    argsort as argsort,
    argwhere as argwhere,
    extract as extract,
    flatnonzero as flatnonzero,
    lexsort as lexsort,
    partition as partition,
    searchsorted as searchsorted,
    sort as sort,
)
from chx._numpy.statistics import (
    average as average,
    corrcoef as corrcoef,
    cov as cov,
    median as median,
    nanmedian as nanmedian,
    nanpercentile as nanpercentile,
    nanquantile as nanquantile,
    percentile as percentile,
    quantile as quantile,
    std as std,
    var as var,
)
from chx._numpy.transfer import (
    to_numpy as to_numpy,
)
from chx._overrides import OVERRIDES as _OVERRIDES
from chx._programs import jit as jit
from chx._published import PublishedProgram as PublishedProgram
from chx._recurrent import (
    n_step_bigru as n_step_bigru,
    n_step_bilstm as n_step_bilstm,
    n_step_birnn as n_step_birnn,
    n_step_gru as n_step_gru,
    n_step_lstm as n_step_lstm,
    n_step_rnn as n_step_rnn,
    tree_lstm as tree_lstm,
)
from chx._runtime.asynchronous import (
    synchronize_async as synchronize_async,
)
from chx._runtime.connection import (
    cancel as cancel,
    connect as connect,
)
from chx._runtime.context import (
    BackpropId as BackpropId,
    Context as Context,
    ContextScope as ContextScope,
    context_scope as context_scope,
    get_default_context as get_default_context,
    get_global_default_context as get_global_default_context,
    set_default_context as set_default_context,
    set_global_default_context as set_global_default_context,
)
from chx._runtime.devices import (
    Backend as Backend,
    DeviceScope as DeviceScope,
    get_backend as get_backend,
    get_device as get_device,
    using_device as using_device,
)
from chx._runtime.session import (
    Session as Session,
)
from chx._runtime.sharing import (
    Capability as Capability,
    PublishedName as PublishedName,
    lookup as lookup,
    names as names,
    open as open,
)
from chx._runtime.tracing import (
    tracing as tracing,
)
from chx._runtime.versions import (
    show_versions as show_versions,
)
from chx._version import (
    __version__ as __version__,
)

if _typing.TYPE_CHECKING:
    from chx._ops import *  # type: ignore[assignment]  # noqa: F403

with _contextlib.suppress(ImportError):  # of chx[bfloat16]
    from ml_dtypes import bfloat16 as bfloat16

all_dtypes = (bool_, int8, int16, int32, int64, uint8, float16, float32, float64)
Inf = Infinity = PINF = infty = inf
NaN = NAN = nan
# NumPy's objects, where it still has them.
NINF = getattr(_np, "NINF", -inf)
PZERO = getattr(_np, "PZERO", 0.0)
NZERO = getattr(_np, "NZERO", -0.0)


def is_available() -> bool:
    """Always true: the compiled module is there."""
    return True


# The operators, from their table, but for those that are another function here.
globals().update({_name: getattr(_core, _name) for _name in _core._operators} | _OVERRIDES)

# NumPy's functions, given arrays of chx, call those of the same names here.
_interoperability.register_namespaces(_sys.modules[__name__], linalg)
