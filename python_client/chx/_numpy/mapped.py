"""Files in the client's memory, from which arrays go to the daemon in one copy."""

from __future__ import annotations

import math
import mmap
from typing import Any

import numpy as np

from chx._core import ndarray
from chx._numpy import transfer
from chx._types import DeviceLike, Shape


class MappedFile:
    """A regular file, which must not be cut as long as this is in use."""

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        self.memory = memoryview(self._map)

    def upload(
        self,
        begin: int,
        dtype: np.dtype[Any],
        shape: Shape,
        device: DeviceLike,
        fortran_order: bool = False,
    ) -> ndarray:
        """The array whose elements begin at a byte of the file.

        Raises:
          ValueError, OverflowError: they aren't all in the file, or no array has such a shape.
          DtypeError: chx has no such dtype.
        """
        end = begin + math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or not 0 <= begin <= end <= len(self.memory):
            raise ValueError(f"expects {shape} elements of {dtype}, got {len(self.memory)} bytes")
        is_bool = dtype.kind == "b"
        values: Any = np.ndarray(
            shape,
            np.uint8 if is_bool else dtype,
            self.memory,
            begin,
            order="F" if fortran_order else "C",
        )
        if is_bool:
            values = values != 0  # whatever bytes there are
        array = transfer.upload(values, device=device)
        page = begin - begin % mmap.PAGESIZE
        if page < end:  # what is in the daemon needs no memory here
            self._map.madvise(mmap.MADV_DONTNEED, page, end - page)
        return array
