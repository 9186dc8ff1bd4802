"""Arrays in files of the daemon's operator (chxd --data-root): docs/runs.md."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chx import _core
from chx._core import ndarray


class FileArray:
    """An array in a file on the daemon's side, of which rows are read when they are needed.

    Made by chx.runs.files(), and data of chx.runs.start().
    """

    def __init__(
        self, device: Any, path: str, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> None:
        self.device = device
        """Where its rows will be."""
        self.path = path
        """Of the file, as given to files()."""
        self.name = name
        """Within the file."""
        self.dtype = dtype
        """Of its elements."""
        self.shape = shape
        """Of all of it."""

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<chx.runs.FileArray {self.path!r} {self.name!r}: {self.dtype}{self.shape}>"

    def load(self, rows: npt.ArrayLike | None = None) -> ndarray:
        """Makes an array of the session's of these rows.

        Args:
          rows: their numbers; None: all of them.

        Raises:
          ValueError: the file has changed, or there are no such rows.
        """
        chosen = b""
        if rows is not None:
            numbers = np.asarray(rows)
            if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not self.shape:
                raise ValueError("[data] expects numbers of rows, of an array with a first axis")
            if numbers.size == 0:
                raise ValueError("[data] expects one row at least")
            chosen = numbers.astype(np.int64).tobytes()
        return _core._data_read(self.device, self.path, self.name, self.dtype, self.shape, chosen)


def files(path: str, device: Any) -> dict[str, FileArray]:
    return {
        name: FileArray(device, path, name, dtype, shape)
        for name, dtype, shape in _core._data_describe(device.backend._session, path)
    }
