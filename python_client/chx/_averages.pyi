from typing import Any

from ._core import ndarray

def quantile(
    a: ndarray, q: Any, axis: Any = None, keepdims: bool = False, *, method: str = "linear"
) -> ndarray: ...
def percentile(
    a: ndarray, q: Any, axis: Any = None, keepdims: bool = False, *, method: str = "linear"
) -> ndarray: ...
def nanquantile(
    a: ndarray, q: Any, axis: Any = None, keepdims: bool = False, *, method: str = "linear"
) -> ndarray: ...
def nanpercentile(
    a: ndarray, q: Any, axis: Any = None, keepdims: bool = False, *, method: str = "linear"
) -> ndarray: ...
def nanmedian(a: ndarray, axis: Any = None, keepdims: bool = False) -> ndarray: ...
def average(
    a: ndarray,
    axis: Any = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any: ...
def cov(
    m: ndarray,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
) -> ndarray: ...
def corrcoef(x: ndarray, y: Any = None, rowvar: bool = True) -> ndarray: ...
