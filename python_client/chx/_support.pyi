from collections.abc import Sequence
from typing import Any, Self, TypeAlias

import numpy as np

from . import _core
from ._core import ndarray
from ._types import DeviceLike, DtypeLike

_Ids: TypeAlias = "BackpropId | Sequence[BackpropId]"

class Session(_core.Session):
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: object) -> None: ...

class BackpropId:
    name: str

class backprop_scope:
    def __init__(self, backprop_name: str) -> None: ...
    def __enter__(self) -> BackpropId: ...
    def __exit__(self, *args: object) -> None: ...

class no_backprop_mode:
    def __init__(self, ids: _Ids | None = None) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: object) -> None: ...

class force_backprop_mode:
    def __init__(self, ids: _Ids | None = None) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: object) -> None: ...

def connect(
    address: str | None = None,
    *,
    token: str | None = None,
    tls_roots: str | None = None,
    devices: str | None = None,
    client_name: str | None = None,
) -> Session: ...
def array(
    object: Any, dtype: DtypeLike | None = None, copy: bool = True, device: DeviceLike = None
) -> ndarray: ...
def asarray(object: Any, dtype: DtypeLike | None = None, device: DeviceLike = None) -> ndarray: ...
def to_numpy(array: ndarray, copy: bool = True) -> np.ndarray[Any, Any]: ...
def split(
    ary: ndarray, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[ndarray]: ...
def is_backprop_required(backprop_id: BackpropId | None = None) -> bool: ...
def backward(
    outputs: ndarray | Sequence[ndarray],
    backprop_id: BackpropId | None = None,
    enable_double_backprop: bool = False,
    loss_scale: float | None = None,
) -> None: ...
def grad(
    outputs: Sequence[ndarray],
    inputs: Sequence[ndarray],
    backprop_id: BackpropId | None = None,
    enable_double_backprop: bool = False,
    set_grad: bool = False,
    retain_grad: bool = False,
    grad_outputs: Sequence[ndarray | None] = (),
    loss_scale: float | None = None,
) -> list[ndarray | None]: ...
