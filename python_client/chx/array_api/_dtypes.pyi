from typing import Any, NamedTuple

import numpy as np

from .._core import Device
from .._types import DeviceLike

class FloatInfo(NamedTuple):
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]

class IntInfo(NamedTuple):
    bits: int
    max: int
    min: int
    dtype: np.dtype[Any]

class Info:
    def capabilities(self) -> dict[str, bool | int | None]: ...
    def default_device(self) -> Device: ...
    def devices(self) -> list[Device]: ...
    def default_dtypes(self, *, device: DeviceLike = None) -> dict[str, np.dtype[Any] | None]: ...
    def dtypes(
        self, *, device: DeviceLike = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype[Any]]: ...
