from collections.abc import Sequence
from typing import Any

import numpy as np

from ._autograd import (
    AnyGraph as AnyGraph,
    BackpropId as BackpropId,
    anygraph as anygraph,
    as_grad_stopped as as_grad_stopped,
    backprop_scope as backprop_scope,
    backward as backward,
    force_backprop_mode as force_backprop_mode,
    grad as grad,
    is_backprop_required as is_backprop_required,
    no_backprop_mode as no_backprop_mode,
)
from ._core import ndarray
from ._gradient_check import (
    check_backward as check_backward,
    check_double_backward as check_double_backward,
)
from ._sessions import Session as Session, cancel as cancel, connect as connect
from ._types import DeviceLike, DtypeLike

def array(
    object: Any, dtype: DtypeLike | None = None, copy: bool = True, device: DeviceLike = None
) -> ndarray: ...
def asarray(object: Any, dtype: DtypeLike | None = None, device: DeviceLike = None) -> ndarray: ...
def to_numpy(array: ndarray, copy: bool = True) -> np.ndarray[Any, Any]: ...
def split(
    ary: ndarray, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[ndarray]: ...
