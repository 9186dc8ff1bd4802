"""Arrays in .safetensors files, by the library safetensors: docs/migrating_from_pytorch.md.

    chx.safetensors.save_file({"w": w, "b": b}, "model.safetensors")
    arrays = chx.safetensors.load_file("model.safetensors")

Files may come from strangers. The library checks a file's header against its size, nothing is
unpickled, and no memory is allocated for what is not there.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from typing import Any, Union

import numpy as np

from chx import _core
from chx._compat import TypeAlias
from chx._core import ndarray
from chx._numpy import transfer
from chx._numpy.mapped import MappedFile
from chx._types import DeviceLike, NumpyArray

__all__ = ["load_file", "load_metadata", "save_file"]

_Path: TypeAlias = Union[str, "PathLike[str]"]

_DTYPES = {
    "BOOL": np.dtype("bool"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I16": np.dtype("<i2"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "I8": np.dtype("int8"),
    "U8": np.dtype("uint8"),
}
with contextlib.suppress(TypeError):  # NumPy does not know it without ml_dtypes
    _DTYPES["BF16"] = np.dtype("bfloat16")
_INDEX = ".safetensors.index.json"
_MAX_INDEX = 100 << 20  # bytes; also the library's limit for a header
_temporary = itertools.count()


def load_file(path: _Path, device: DeviceLike = None) -> dict[str, ndarray]:
    """The arrays of a file by name, or those of a model in several files.

    The elements go from the mapped file to the daemon in one copy.

    Args:
      path: of a .safetensors file, or of the index of several in its folder
        (model.safetensors.index.json).
      device: where the arrays will be.

    Raises:
      ImportError: the library safetensors is not installed.
      ValueError: the file is damaged, or is no such file.
      DtypeError: chx has no such dtype.
    """
    path = os.fspath(path)
    if not path.endswith(_INDEX):
        return _load(path, None, device)
    arrays: dict[str, ndarray] = {}
    for shard, names in _shards(path).items():
        arrays.update(_load(os.path.join(os.path.dirname(path), shard), names, device))
    return arrays


def load_metadata(path: _Path) -> dict[str, str]:
    """The texts by name that a .safetensors file has beside its arrays.

    Raises:
      ImportError: the library safetensors is not installed.
      ValueError: the file is damaged, or is no such file.
    """
    with _opened(os.fspath(path)) as (_, file):
        return dict(file.metadata() or {})


def save_file(
    arrays: Mapping[str, Any],
    path: _Path,
    metadata: Mapping[str, str] | None = None,
    shard_bytes: int = 5 << 30,
) -> None:
    """Writes arrays of chx or of NumPy to a file, or to several and their index.

    A file of that name is replaced once all of it is written, and stays as it is after an error. The
    index is written after the files that it names.

    Args:
      arrays: by name.
      path: of the file; or of the index, NAME.safetensors.index.json, for files of the names
        NAME-00001-of-00002.safetensors and so on, beside it.
      metadata: texts by name; other libraries look for {"format": "pt"}.
      shard_bytes: of the elements in each of several files; a larger array has one for itself.

    Raises:
      ImportError: the library safetensors is not installed.
      DtypeError: an array is of a dtype that chx does not have.
      OSError: the file could not be written.
    """
    path = os.fspath(path)
    values = {name: _dense(name, array) for name, array in arrays.items()}
    texts = None if metadata is None else dict(metadata)
    if not path.endswith(_INDEX):
        library = _library()

        def write(temporary: str) -> None:
            try:
                library.numpy.save_file(values, temporary, texts)
            except library.SafetensorError as error:
                raise OSError(f"[save_file] could not write {path!r}: {error}") from error

        return _replace(path, write)
    shards = _divided(values, shard_bytes)
    folder, stem = os.path.split(path[: -len(_INDEX)])
    files = {}
    for i, shard in enumerate(shards):
        name = f"{stem}-{i + 1:05}-of-{len(shards):05}.safetensors"
        save_file(shard, os.path.join(folder, name), texts)
        files.update(dict.fromkeys(shard, name))
    total = sum(value.nbytes for value in values.values())
    index = {"metadata": {"total_size": total}, "weight_map": files}

    def write_index(temporary: str) -> None:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(index, file, indent=2)

    _replace(path, write_index)


def _divided(values: dict[str, NumpyArray], most: int) -> list[dict[str, NumpyArray]]:
    """The arrays in their order, as many in each part as have `most` bytes."""
    parts: list[dict[str, NumpyArray]] = [{}]
    room = most
    for name, value in values.items():
        if value.nbytes > room and parts[-1]:
            parts.append({})
            room = most
        parts[-1][name] = value
        room -= value.nbytes
    return parts


def _replace(path: str, write: Callable[[str], None]) -> None:
    """Writes to a new file beside the path, then puts that in its place."""
    temporary = f"{path}.{os.getpid()}-{next(_temporary)}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        mode = os.fstat(descriptor).st_mode
        os.close(descriptor)
        write(temporary)
        os.chmod(temporary, stat.S_IMODE(mode))  # as any new file has; the library's has less
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _library() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise ImportError(
            "chx.safetensors needs the library: pip install 'chx[safetensors]'"
        ) from error
    return safetensors


def _dense(name: str, array: Any) -> NumpyArray:
    values = transfer.to_numpy(array, copy=False) if isinstance(array, ndarray) else array
    values = np.asarray(values)
    if values.dtype.newbyteorder("<") not in _DTYPES.values():
        raise _core.DtypeError(
            f"[save_file] expects dtypes of chx, got {values.dtype} for {name!r}"
        )
    return np.ascontiguousarray(values).reshape(values.shape)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[tuple[int, Any]]:
    """A file's descriptor, and what the library has found in it."""
    library = _library()
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"[load_file] expects a file, got {path!r}")
        try:
            # The same file, whatever its name means by now.
            opened = library.safe_open(f"/proc/self/fd/{descriptor}", framework="np")
        except library.SafetensorError as error:
            raise ValueError(
                f"[load_file] expects a .safetensors file, got {path!r}: {error}"
            ) from error
        with opened as file:
            yield descriptor, file
    finally:
        os.close(descriptor)


def _load(path: str, names: set[str] | None, device: DeviceLike) -> dict[str, ndarray]:
    """The arrays of one file: all, or those named."""
    arrays: dict[str, ndarray] = {}
    with _opened(path) as (descriptor, file):
        mapped = MappedFile(descriptor)
        # Behind its length and the header the arrays follow one another without holes.
        begin = 8 + int.from_bytes(mapped.memory[:8], "little")
        for name in file.offset_keys():
            part = file.get_slice(name)
            dtype, shape = _DTYPES.get(part.get_dtype()), tuple(part.get_shape())
            if dtype is None:
                raise _core.DtypeError(
                    f"[load_file] expects dtypes of chx, got {part.get_dtype()} for {name!r} in {path!r}"
                )
            if names is None or name in names:
                try:
                    arrays[name] = mapped.upload(begin, dtype, shape, device)
                except (ValueError, OverflowError) as error:
                    raise ValueError(f"[load_file] {name!r} in {path!r}: {error}") from error
            begin += math.prod(shape) * dtype.itemsize
    missing = (names or set()) - set(arrays)
    if missing:
        raise ValueError(f"[load_file] expects {min(missing)!r} in {path!r}, as the index says")
    return arrays


def _shards(path: str) -> dict[str, set[str]]:
    """The names of arrays by the file that has them, as an index says."""
    with open(path, "rb") as file:
        text = file.read(_MAX_INDEX + 1)
    if len(text) > _MAX_INDEX:
        raise ValueError(
            f"[load_file] expects an index of at most {_MAX_INDEX} bytes, got {path!r}"
        )
    try:
        files = json.loads(text)["weight_map"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"[load_file] expects JSON with a weight_map, got {path!r}") from error
    if not isinstance(files, dict):
        raise ValueError(f"[load_file] expects a weight_map of names, got {path!r}")
    shards: dict[str, set[str]] = {}
    for name, shard in files.items():
        # Of the same folder, and nowhere else.
        if not isinstance(shard, str) or shard in ("", ".", "..") or {"/", "\0"} & set(shard):
            raise ValueError(
                f"[load_file] expects a file beside the index for {name!r}, got {shard!r} in {path!r}"
            )
        shards.setdefault(shard, set()).add(name)
    return shards
