from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Self

import numpy as np

from . import _core
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
from ._types import DeviceLike, DtypeLike

class Session(_core.Session):
    def seed(self, seed: int | None = None) -> None: ...
    def configure(
        self,
        *,
        use_cudnn: bool = ...,
        cudnn_deterministic: bool = ...,
        autotune: bool = ...,
        max_workspace_size: int = ...,
    ) -> None: ...
    @property
    def settings(self) -> dict[str, bool | int]: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: object) -> None: ...

def connect(
    address: str | None = None,
    *,
    token: str | None = None,
    tls_roots: str | None = None,
    devices: str | None = None,
    client_name: str | None = None,
    plugins: Mapping[str, str | PathLike[str]] | None = None,
) -> Session: ...
def array(
    object: Any, dtype: DtypeLike | None = None, copy: bool = True, device: DeviceLike = None
) -> ndarray: ...
def asarray(object: Any, dtype: DtypeLike | None = None, device: DeviceLike = None) -> ndarray: ...
def to_numpy(array: ndarray, copy: bool = True) -> np.ndarray[Any, Any]: ...
def split(
    ary: ndarray, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[ndarray]: ...
