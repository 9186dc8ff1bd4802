from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import IO, Any, TypeAlias

from ._core import ndarray
from ._types import DeviceLike, DtypeLike, Scalar

_File: TypeAlias = "str | PathLike[str] | IO[Any]"

def asanyarray(a: Any, dtype: DtypeLike | None = None, device: DeviceLike = None) -> ndarray: ...
def ascontiguousarray(
    a: Any, dtype: DtypeLike | None = None, device: DeviceLike = None
) -> ndarray: ...
def frombuffer(
    buffer: Any,
    dtype: DtypeLike = "float32",
    count: int = -1,
    offset: int = 0,
    device: DeviceLike = None,
) -> ndarray: ...
def from_dlpack(x: Any, device: DeviceLike = None) -> ndarray: ...
def fromfile(
    file: _File,
    dtype: DtypeLike = ...,
    count: int = -1,
    sep: str = "",
    device: DeviceLike = None,
) -> ndarray: ...
def fromfunction(
    function: Callable[..., Any],
    shape: tuple[int, ...],
    *,
    dtype: DtypeLike = ...,
    device: DeviceLike = None,
    **kwargs: Any,
) -> ndarray: ...
def fromiter(
    iterable: Iterable[Any], dtype: DtypeLike, count: int = -1, device: DeviceLike = None
) -> ndarray: ...
def fromstring(
    string: str | bytes,
    dtype: DtypeLike = ...,
    count: int = -1,
    sep: str = "",
    device: DeviceLike = None,
) -> ndarray: ...
def loadtxt(
    fname: _File | Iterable[str],
    dtype: DtypeLike = ...,
    comments: str | Sequence[str] | None = "#",
    delimiter: str | None = None,
    converters: dict[int, Callable[[Any], Any]] | None = None,
    skiprows: int = 0,
    usecols: int | Sequence[int] | None = None,
    unpack: bool = False,
    ndmin: int = 0,
    encoding: str | None = "bytes",
    device: DeviceLike = None,
) -> ndarray: ...
def save(file: _File, arr: Any) -> None: ...
def savez(file: _File, *args: Any, **kwds: Any) -> None: ...
def load(file: _File, device: DeviceLike = None) -> ndarray | dict[str, ndarray]: ...
def clip(a: ndarray, a_min: Scalar | None, a_max: Scalar | None) -> ndarray: ...
def fix(a: ndarray) -> ndarray: ...
def broadcast_arrays(*args: ndarray) -> list[ndarray]: ...
def vsplit(ary: ndarray, indices_or_sections: int | Sequence[int]) -> list[ndarray]: ...
def hsplit(ary: ndarray, indices_or_sections: int | Sequence[int]) -> list[ndarray]: ...
def dsplit(ary: ndarray, indices_or_sections: int | Sequence[int]) -> list[ndarray]: ...
def meshgrid(
    *xi: ndarray, indexing: str = "xy", sparse: bool = False, copy: bool = True
) -> list[ndarray]: ...
def tree_lstm(*inputs: ndarray) -> tuple[ndarray, ndarray]: ...
def copyto(dst: ndarray, src: ndarray | Scalar, casting: str = "no", where: Any = True) -> None: ...
