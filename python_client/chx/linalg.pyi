from collections.abc import Sequence
from typing import Any

from ._core import ChainerxError, ndarray
from ._linalg_ops import (
    cholesky as cholesky,
    det as det,
    eig as eig,
    eigh as eigh,
    eigvals as eigvals,
    eigvalsh as eigvalsh,
    inv as inv,
    matrix_power as matrix_power,
    pinv as pinv,
    qr as qr,
    slogdet as slogdet,
    solve as solve,
    svd as svd,
)

LinAlgError = ChainerxError

def _is_lapack_available() -> bool: ...
def norm(
    x: ndarray, ord: float | str | None = None, axis: Any = None, keepdims: bool = False
) -> ndarray: ...
def cond(x: ndarray, p: float | str | None = None) -> ndarray: ...
def matrix_rank(A: ndarray, tol: Any = None, hermitian: bool = False) -> ndarray: ...
def lstsq(
    a: ndarray, b: ndarray, rcond: float | None = None
) -> tuple[ndarray, ndarray, int, ndarray]: ...
def multi_dot(arrays: Sequence[ndarray]) -> ndarray: ...
def tensorinv(a: ndarray, ind: int = 2) -> ndarray: ...
def tensorsolve(a: ndarray, b: ndarray, axes: Sequence[int] | None = None) -> ndarray: ...
