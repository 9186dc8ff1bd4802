from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ._core import ndarray
from ._types import DeviceLike, DtypeLike

_Size: TypeAlias = int | tuple[int, ...] | None
_Parameter: TypeAlias = float | ndarray | Sequence[Any] | np.ndarray[Any, Any]

class Continuous:
    def random(
        self, size: _Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
    ) -> ndarray: ...
    def uniform(
        self,
        low: _Parameter = 0.0,
        high: _Parameter = 1.0,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def normal(
        self,
        loc: _Parameter = 0.0,
        scale: _Parameter = 1.0,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def standard_normal(
        self, size: _Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
    ) -> ndarray: ...
    def lognormal(
        self,
        mean: _Parameter = 0.0,
        sigma: _Parameter = 1.0,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def standard_exponential(
        self, size: _Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
    ) -> ndarray: ...
    def exponential(
        self,
        scale: _Parameter = 1.0,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def weibull(
        self,
        a: _Parameter,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def rayleigh(
        self,
        scale: _Parameter = 1.0,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def pareto(
        self,
        a: _Parameter,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def power(
        self,
        a: _Parameter,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def gumbel(
        self,
        loc: _Parameter = 0.0,
        scale: _Parameter = 1.0,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def logistic(
        self,
        loc: _Parameter = 0.0,
        scale: _Parameter = 1.0,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def laplace(
        self,
        loc: _Parameter = 0.0,
        scale: _Parameter = 1.0,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def standard_cauchy(
        self, size: _Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
    ) -> ndarray: ...
    def triangular(
        self,
        left: _Parameter,
        mode: _Parameter,
        right: _Parameter,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def standard_gamma(
        self,
        shape: _Parameter,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def gamma(
        self,
        shape: _Parameter,
        scale: _Parameter = 1.0,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def chisquare(
        self,
        df: _Parameter,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def noncentral_chisquare(
        self,
        df: _Parameter,
        nonc: _Parameter,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def f(
        self,
        dfnum: _Parameter,
        dfden: _Parameter,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def noncentral_f(
        self,
        dfnum: _Parameter,
        dfden: _Parameter,
        nonc: _Parameter,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def standard_t(
        self,
        df: _Parameter,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def beta(
        self,
        a: _Parameter,
        b: _Parameter,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def dirichlet(
        self,
        alpha: Any,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def wald(
        self,
        mean: _Parameter,
        scale: _Parameter,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def vonmises(
        self,
        mu: _Parameter,
        kappa: float,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
