from typing import TypeAlias

from ._core import ndarray
from ._types import DeviceLike, DtypeLike

_Size: TypeAlias = int | tuple[int, ...] | None

def normal(
    loc: float = 0.0,
    scale: float = 1.0,
    size: int | tuple[int, ...] | None = None,
    *,
    dtype: DtypeLike = "float64",
    device: DeviceLike = None,
) -> ndarray: ...
def uniform(
    low: float = 0.0,
    high: float = 1.0,
    size: int | tuple[int, ...] | None = None,
    *,
    dtype: DtypeLike = "float64",
    device: DeviceLike = None,
) -> ndarray: ...
def seed(seed: int) -> None: ...

class Generator:
    def random(
        self, size: _Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
    ) -> ndarray: ...
    def uniform(
        self,
        low: float = 0.0,
        high: float = 1.0,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def normal(
        self,
        loc: float = 0.0,
        scale: float = 1.0,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def standard_normal(
        self, size: _Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
    ) -> ndarray: ...
    def lognormal(
        self,
        mean: float = 0.0,
        sigma: float = 1.0,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def exponential(
        self,
        scale: float = 1.0,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def weibull(
        self, a: float, size: _Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
    ) -> ndarray: ...
    def rayleigh(
        self,
        scale: float = 1.0,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def pareto(
        self, a: float, size: _Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
    ) -> ndarray: ...
    def gumbel(
        self,
        loc: float = 0.0,
        scale: float = 1.0,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def logistic(
        self,
        loc: float = 0.0,
        scale: float = 1.0,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def laplace(
        self,
        loc: float = 0.0,
        scale: float = 1.0,
        size: _Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray: ...
    def standard_cauchy(
        self, size: _Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
    ) -> ndarray: ...
    def bernoulli(self, p: float, size: _Size = None, device: DeviceLike = None) -> ndarray: ...
    def binomial(
        self, n: int, p: float, size: _Size = None, device: DeviceLike = None
    ) -> ndarray: ...
    def integers(
        self,
        low: int,
        high: int | None = None,
        size: _Size = None,
        dtype: DtypeLike = "int64",
        endpoint: bool = False,
        device: DeviceLike = None,
    ) -> ndarray: ...
    def permutation(
        self, x: int | tuple[int, ...] | ndarray, axis: int = 0, device: DeviceLike = None
    ) -> ndarray: ...
    def shuffle(self, x: ndarray, axis: int = 0) -> None: ...
    def choice(
        self,
        a: int | ndarray,
        size: _Size = None,
        replace: bool = True,
        p: ndarray | None = None,
        device: DeviceLike = None,
    ) -> ndarray: ...
    def multivariate_normal(
        self, mean: ndarray, cov: ndarray, size: _Size = None, dtype: DtypeLike = "float64"
    ) -> ndarray: ...

def default_rng(seed: int | None = None) -> Generator: ...
