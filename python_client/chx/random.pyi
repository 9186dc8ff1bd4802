import builtins
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ._continuous import Continuous
from ._core import ndarray
from ._discrete import Discrete
from ._types import DeviceLike, DtypeLike

_Size: TypeAlias = int | tuple[int, ...] | None
_Parameter: TypeAlias = float | ndarray | Sequence[Any] | np.ndarray[Any, Any]

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
def seed(seed: int | None = None) -> None: ...

class Generator(Continuous, Discrete):
    def __init__(self, stream: Any = None) -> None: ...
    def permutation(self, x: Any, axis: int = 0, device: DeviceLike = None) -> ndarray: ...
    def permuted(self, x: Any, axis: int | None = None) -> ndarray: ...
    def bytes(self, length: int) -> builtins.bytes: ...
    def shuffle(self, x: Any, axis: int = 0) -> None: ...
    def choice(
        self,
        a: Any,
        size: _Size = None,
        replace: bool = True,
        p: Any = None,
        axis: int = 0,
        shuffle: bool = True,
        device: DeviceLike = None,
    ) -> ndarray: ...
    def multivariate_normal(
        self, mean: Any, cov: Any, size: _Size = None, dtype: DtypeLike = "float64"
    ) -> ndarray: ...

def default_rng(seed: Any = None) -> Generator: ...

class RandomState(Generator):
    def __init__(self, seed: Any = None) -> None: ...
    def seed(self, seed: Any = None) -> None: ...
    def rand(self, *shape: int) -> ndarray: ...
    def randn(self, *shape: int) -> ndarray: ...
    def randint(
        self, low: Any, high: Any = None, size: _Size = None, dtype: DtypeLike = "int64"
    ) -> ndarray: ...
    def random_sample(self, size: _Size = None) -> ndarray: ...

# The methods of one RandomState.
def bernoulli(p: _Parameter, size: _Size = None, device: DeviceLike = None) -> ndarray: ...
def beta(
    a: _Parameter,
    b: _Parameter,
    size: _Size = None,
    dtype: DtypeLike = "float64",
    device: DeviceLike = None,
) -> ndarray: ...
def binomial(
    n: _Parameter, p: _Parameter, size: _Size = None, device: DeviceLike = None
) -> ndarray: ...
def bytes(length: int) -> builtins.bytes: ...
def chisquare(
    df: _Parameter, size: _Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
) -> ndarray: ...
def choice(
    a: Any,
    size: _Size = None,
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    shuffle: bool = True,
    device: DeviceLike = None,
) -> ndarray: ...
def dirichlet(
    alpha: Any, size: _Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
) -> ndarray: ...
def exponential(
    scale: _Parameter = 1.0,
    size: _Size = None,
    dtype: DtypeLike = "float64",
    device: DeviceLike = None,
) -> ndarray: ...
def f(
    dfnum: _Parameter,
    dfden: _Parameter,
    size: _Size = None,
    dtype: DtypeLike = "float64",
    device: DeviceLike = None,
) -> ndarray: ...
def gamma(
    shape: _Parameter,
    scale: _Parameter = 1.0,
    size: _Size = None,
    dtype: DtypeLike = "float64",
    device: DeviceLike = None,
) -> ndarray: ...
def geometric(p: _Parameter, size: _Size = None, device: DeviceLike = None) -> ndarray: ...
def gumbel(
    loc: _Parameter = 0.0,
    scale: _Parameter = 1.0,
    size: _Size = None,
    dtype: DtypeLike = "float64",
    device: DeviceLike = None,
) -> ndarray: ...
def hypergeometric(
    ngood: int, nbad: int, nsample: int, size: _Size = None, device: DeviceLike = None
) -> ndarray: ...
def integers(
    low: Any,
    high: Any = None,
    size: _Size = None,
    dtype: DtypeLike = "int64",
    endpoint: bool = False,
    device: DeviceLike = None,
) -> ndarray: ...
def laplace(
    loc: _Parameter = 0.0,
    scale: _Parameter = 1.0,
    size: _Size = None,
    dtype: DtypeLike = "float64",
    device: DeviceLike = None,
) -> ndarray: ...
def logistic(
    loc: _Parameter = 0.0,
    scale: _Parameter = 1.0,
    size: _Size = None,
    dtype: DtypeLike = "float64",
    device: DeviceLike = None,
) -> ndarray: ...
def lognormal(
    mean: _Parameter = 0.0,
    sigma: _Parameter = 1.0,
    size: _Size = None,
    dtype: DtypeLike = "float64",
    device: DeviceLike = None,
) -> ndarray: ...
def logseries(p: _Parameter, size: _Size = None, device: DeviceLike = None) -> ndarray: ...
def multinomial(
    n: _Parameter, pvals: Any, size: _Size = None, device: DeviceLike = None
) -> ndarray: ...
def multivariate_normal(
    mean: Any, cov: Any, size: _Size = None, dtype: DtypeLike = "float64"
) -> ndarray: ...
def negative_binomial(
    n: _Parameter, p: _Parameter, size: _Size = None, device: DeviceLike = None
) -> ndarray: ...
def noncentral_chisquare(
    df: _Parameter,
    nonc: _Parameter,
    size: _Size = None,
    dtype: DtypeLike = "float64",
    device: DeviceLike = None,
) -> ndarray: ...
def noncentral_f(
    dfnum: _Parameter,
    dfden: _Parameter,
    nonc: _Parameter,
    size: _Size = None,
    dtype: DtypeLike = "float64",
    device: DeviceLike = None,
) -> ndarray: ...
def pareto(
    a: _Parameter, size: _Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
) -> ndarray: ...
def permutation(x: Any, axis: int = 0, device: DeviceLike = None) -> ndarray: ...
def permuted(x: Any, axis: int | None = None) -> ndarray: ...
def poisson(lam: _Parameter = 1.0, size: _Size = None, device: DeviceLike = None) -> ndarray: ...
def power(
    a: _Parameter, size: _Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
) -> ndarray: ...
def rand(*shape: int) -> ndarray: ...
def randint(
    low: Any, high: Any = None, size: _Size = None, dtype: DtypeLike = "int64"
) -> ndarray: ...
def randn(*shape: int) -> ndarray: ...
def random(
    size: _Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
) -> ndarray: ...
def random_sample(size: _Size = None) -> ndarray: ...
def rayleigh(
    scale: _Parameter = 1.0,
    size: _Size = None,
    dtype: DtypeLike = "float64",
    device: DeviceLike = None,
) -> ndarray: ...
def shuffle(x: Any, axis: int = 0) -> None: ...
def standard_cauchy(
    size: _Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
) -> ndarray: ...
def standard_exponential(
    size: _Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
) -> ndarray: ...
def standard_gamma(
    shape: _Parameter, size: _Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
) -> ndarray: ...
def standard_normal(
    size: _Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
) -> ndarray: ...
def standard_t(
    df: _Parameter, size: _Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
) -> ndarray: ...
def triangular(
    left: _Parameter,
    mode: _Parameter,
    right: _Parameter,
    size: _Size = None,
    dtype: DtypeLike = "float64",
    device: DeviceLike = None,
) -> ndarray: ...
def vonmises(
    mu: _Parameter,
    kappa: float,
    size: _Size = None,
    dtype: DtypeLike = "float64",
    device: DeviceLike = None,
) -> ndarray: ...
def wald(
    mean: _Parameter,
    scale: _Parameter,
    size: _Size = None,
    dtype: DtypeLike = "float64",
    device: DeviceLike = None,
) -> ndarray: ...
def weibull(
    a: _Parameter, size: _Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
) -> ndarray: ...
def zipf(a: float, size: _Size = None, device: DeviceLike = None) -> ndarray: ...
