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

from . import random as random
from ._core import (
    BackendError as BackendError,
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
from ._ops import *  # noqa: F403
from ._support import (  # type: ignore[assignment]
    AnyGraph as AnyGraph,
    Backend as Backend,
    BackpropId as BackpropId,
    Session as Session,
    anygraph as anygraph,
    array as array,
    asarray as asarray,
    backprop_scope as backprop_scope,
    backward as backward,
    check_backward as check_backward,
    check_double_backward as check_double_backward,
    connect as connect,
    force_backprop_mode as force_backprop_mode,
    get_backend as get_backend,
    get_device as get_device,
    grad as grad,
    is_backprop_required as is_backprop_required,
    no_backprop_mode as no_backprop_mode,
    split as split,
    to_numpy as to_numpy,
    using_device as using_device,
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
