"""Arrays of .npz files: those that are not compressed go from the mapped file to the daemon."""

from __future__ import annotations

import io
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

import numpy.lib.format as npy

from chx._core import DtypeError, ndarray
from chx._numpy import transfer
from chx._numpy.mapped import MappedFile
from chx._types import DeviceLike

_READ_MAGIC: Any = npy.read_magic  # which have no types
_READ_HEADER: Any = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_MAX_HEADER = 1 << 16  # bytes; NumPy refuses longer ones before it reads them
# Of NumPy's, which parses the text of headers by Python's own means, and of shapes.
_DAMAGED = (ValueError, TypeError, OverflowError, SyntaxError, tokenize.TokenError, RecursionError)
_LOCAL_HEADER = struct.Struct("<26xHH")  # the lengths of what lies before the data


def load(archive: Any, device: DeviceLike) -> dict[str, ndarray]:
    """The arrays of what numpy.load() gives for a .npz file.

    Raises:
      ValueError: an array's header doesn't fit its data, or it has objects.
      zipfile.BadZipFile: entries lie over one another or beyond the file, or are damaged.
      DtypeError: chx has no such dtype.
    """
    directory: zipfile.ZipFile = archive.zip
    ends = dict(_ends(directory))
    file = directory.fp
    # Other objects need not have the descriptor of what they read: gzip.open() gives another file's.
    is_file = isinstance(file, io.BufferedReader) and isinstance(file.raw, io.FileIO)
    mapped = MappedFile(file.fileno()) if file is not None and is_file and ends else None
    members = set(directory.namelist())
    arrays = {}
    for name in archive.files:
        info = directory.getinfo(name if name in members else name + ".npy")
        try:
            array = None
            if mapped is not None and info.compress_type == zipfile.ZIP_STORED:
                array = _stored(directory, info, ends[info.header_offset], mapped, device)
            if array is None:
                array = transfer.upload(archive[name], device=device)
        except DtypeError:  # which is a TypeError
            raise
        except _DAMAGED as error:
            raise ValueError(f"[load] {name!r}: {error}") from error
        arrays[name] = array
    return arrays


def _ends(directory: zipfile.ZipFile) -> Iterator[tuple[int, int]]:
    """Where entries' headers begin, and where the next entry or the directory does."""
    infos = sorted(directory.infolist(), key=lambda info: info.header_offset)
    begins = [info.header_offset for info in infos] + [directory.start_dir]
    for info, begin, end in zip(infos, begins, begins[1:]):
        if not 0 <= begin < begin + _LOCAL_HEADER.size + info.compress_size <= end:
            raise zipfile.BadZipFile(
                f"[load] expects entries one behind the other, got {info.filename!r} of "
                f"{info.compress_size} bytes at {begin}, and what follows at {end}"
            )
        yield begin, end


def _stored(
    directory: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    limit: int,
    file: MappedFile,
    device: DeviceLike,
) -> ndarray | None:
    """The array of an entry that isn't compressed. None: NumPy knows what to say of it."""
    directory.open(info).close()  # which compares the entry with the directory
    begin = info.header_offset + _LOCAL_HEADER.size
    begin += sum(_LOCAL_HEADER.unpack(file.memory[info.header_offset : begin]))
    end = begin + info.compress_size
    if end > limit or info.file_size != info.compress_size:
        raise zipfile.BadZipFile(
            f"[load] expects {info.file_size} bytes for {info.filename!r}, got {limit - begin}"
        )
    start = bytes(file.memory[begin : min(end, begin + _MAX_HEADER)])
    if not start.startswith(npy.MAGIC_PREFIX):
        return None
    header = io.BytesIO(start)
    read = _READ_HEADER.get(_READ_MAGIC(header))
    if read is None:
        return None
    shape, fortran_order, dtype = read(header)
    if dtype.kind not in "biuf":  # objects above all, which it refuses
        return None
    if zlib.crc32(file.memory[begin:end]) != info.CRC:
        raise zipfile.BadZipFile(f"[load] expects another checksum of {info.filename!r}")
    begin += header.tell()
    size = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or size > end - begin:
        raise ValueError(f"expects {size} bytes for {shape} of {dtype}, got {end - begin}")
    return file.upload(begin, dtype, shape, device, fortran_order)
