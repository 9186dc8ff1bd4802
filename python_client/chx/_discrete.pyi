from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ._core import ndarray
from ._types import DeviceLike, DtypeLike

_Size: TypeAlias = int | tuple[int, ...] | None
_Parameter: TypeAlias = float | ndarray | Sequence[Any] | np.ndarray[Any, Any]

class Discrete:
    def bernoulli(
        self, p: _Parameter, size: _Size = None, device: DeviceLike = None
    ) -> ndarray: ...
    def binomial(
        self, n: _Parameter, p: _Parameter, size: _Size = None, device: DeviceLike = None
    ) -> ndarray: ...
    def poisson(
        self, lam: _Parameter = 1.0, size: _Size = None, device: DeviceLike = None
    ) -> ndarray: ...
    def geometric(
        self, p: _Parameter, size: _Size = None, device: DeviceLike = None
    ) -> ndarray: ...
    def negative_binomial(
        self, n: _Parameter, p: _Parameter, size: _Size = None, device: DeviceLike = None
    ) -> ndarray: ...
    def hypergeometric(
        self, ngood: int, nbad: int, nsample: int, size: _Size = None, device: DeviceLike = None
    ) -> ndarray: ...
    def logseries(
        self, p: _Parameter, size: _Size = None, device: DeviceLike = None
    ) -> ndarray: ...
    def zipf(self, a: float, size: _Size = None, device: DeviceLike = None) -> ndarray: ...
    def multinomial(
        self, n: _Parameter, pvals: Any, size: _Size = None, device: DeviceLike = None
    ) -> ndarray: ...
    def integers(
        self,
        low: Any,
        high: Any = None,
        size: _Size = None,
        dtype: DtypeLike = "int64",
        endpoint: bool = False,
        device: DeviceLike = None,
    ) -> ndarray: ...
