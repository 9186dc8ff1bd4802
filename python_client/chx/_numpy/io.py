"""NumPy's chapter "Input and output": files, texts, and how arrays are printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import IO, Any, Union

import numpy as np

from chx import _core
from chx._compat import TypeAlias
from chx._core import ndarray
from chx._numpy import creation, npz, transfer
from chx._runtime import context
from chx._types import DeviceLike, DtypeLike, NumpyArray, is_bfloat16

_File: TypeAlias = Union[str, PathLike[str], IO[Any]]


def fromfile(
    file: _File, dtype: DtypeLike = float, count: int = -1, sep: str = "", device: DeviceLike = None
) -> ndarray:
    """A one-dimensional array of what is in a file, as numpy.fromfile reads it."""
    return creation.array(np.fromfile(file, np.dtype(dtype), count, sep), copy=False, device=device)


def fromstring(
    string: str | bytes,
    dtype: DtypeLike = float,
    count: int = -1,
    sep: str = "",
    device: DeviceLike = None,
) -> ndarray:
    """A one-dimensional array of the numbers of a text, or of bytes without a separator."""
    if sep:
        return creation.array(np.fromstring(string, np.dtype(dtype), count, sep=sep), device=device)
    data = string.encode("latin1") if isinstance(string, str) else string
    return creation.array(np.frombuffer(data, np.dtype(dtype), count), device=device)


def loadtxt(
    fname: _File | Iterable[str],
    dtype: DtypeLike = float,
    comments: str | Sequence[str] | None = "#",
    delimiter: str | None = None,
    converters: dict[int, Callable[[Any], Any]] | None = None,
    skiprows: int = 0,
    usecols: int | Sequence[int] | None = None,
    unpack: bool = False,
    ndmin: int = 0,
    encoding: str | None = "bytes",
    device: DeviceLike = None,
) -> ndarray:
    """The array of a text file's lines, as numpy.loadtxt reads it."""
    read: Any = np.loadtxt  # whose types know less than it does
    values = read(
        fname,
        dtype=np.dtype(dtype),
        comments=comments,
        delimiter=delimiter,
        converters=converters,
        skiprows=skiprows,
        usecols=usecols,
        unpack=unpack,
        ndmin=ndmin,
        encoding=encoding,
    )
    return creation.array(values, device=device)


def load(file: _File, device: DeviceLike = None) -> ndarray | dict[str, ndarray]:
    """The array of a .npy file, or the dict of arrays of a .npz file. Nothing is unpickled.

    Arrays of a .npz file that are not compressed go from the mapped file to the daemon in one copy; the
    file must not be cut while it is read.

    Raises:
      ValueError: the file is no such file, or is damaged; zipfile.BadZipFile where NumPy raises it.
      DtypeError: chx has no such dtype.
    """
    loaded = np.load(file, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return creation.array(loaded, device=device)
    with loaded:
        return npz.load(loaded, device)


def save(file: _File, arr: Any) -> None:
    """Writes an array to a .npy file, as numpy.save does.

    Raises:
      DtypeError: the array is of bfloat16, which such files have no name for.
    """
    np.save(file, _values("save", arr))


def savez(file: _File, *args: Any, **kwds: Any) -> None:
    """Writes several arrays to a .npz file, as numpy.savez does; raises what save() does."""
    named = {name: _values("savez", a) for name, a in kwds.items()}
    np.savez(file, *[_values("savez", a) for a in args], **named)


def savez_compressed(file: _File, *args: Any, **kwds: Any) -> None:
    """As savez(), compressed."""
    named = {name: _values("savez", a) for name, a in kwds.items()}
    np.savez_compressed(file, *[_values("savez", a) for a in args], **named)


def _values(function: str, arr: Any) -> NumpyArray:
    values = transfer.to_numpy(creation.asarray(arr))
    if is_bfloat16(values.dtype):  # NumPy would write bytes
        raise _core.DtypeError(
            f"[{function}] expects a dtype of NumPy, got bfloat16: cast it, or use chx.safetensors"
        )
    return values


def repr_array(array: ndarray) -> str:
    values = np.array2string(transfer.to_numpy(array), separator=", ", prefix="array(")
    text = f"array({values}, shape={array.shape}, dtype={array.dtype}, device='{array.device}'"
    ids = _core._backprop_ids(array)
    if ids:
        text += f", backprop_ids={[context.id_name(i) for i in ids]}"
    return text + ")"
