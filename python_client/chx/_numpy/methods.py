"""Methods of numpy.ndarray that ChainerX's arrays lack.

Those that are about an array's own memory (base, data, ctypes, setflags, byteswap, newbyteorder,
getfield, setfield, and resize in place) are not here: the memory is in the daemon.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

from chx import _core
from chx._core import ndarray
from chx._numpy import indexing, mathematics, sorting, transfer
from chx._types import Operand


class flatiter:  # NumPy's name
    """The elements of an array in C order: a.flat[key], a.flat[key] = values, iteration, len()."""

    def __init__(self, base: ndarray) -> None:
        self.base = base

    def __len__(self) -> int:
        return self.base.size

    def __iter__(self) -> Iterator[ndarray]:
        return iter(_core.ravel(self.base))

    def __getitem__(self, key: Any) -> ndarray:
        return _core.ravel(self.base)[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        base = self.base
        flat = base.reshape(base.size)
        flat[key] = value
        if not base.is_contiguous:
            _core.copyto(base, flat.reshape(base.shape))


class flagsobj:
    """How an array lies in the daemon's memory: a.flags.c_contiguous, a.flags["C_CONTIGUOUS"], ..."""

    aligned = True

    def __init__(self, array: ndarray) -> None:
        self.c_contiguous = array.is_contiguous
        self.f_contiguous = array.T.is_contiguous
        # The rule of in-place operators: those on arrays in a graph are refused.
        self.writeable = not _core._backprop_ids(array)

    @property
    def contiguous(self) -> bool:
        return self.c_contiguous

    forc = property(lambda self: self.c_contiguous or self.f_contiguous)
    fnc = property(lambda self: self.f_contiguous and not self.c_contiguous)

    def __getitem__(self, key: str) -> bool:
        result: bool = getattr(
            self, {"C": "c_contiguous", "F": "f_contiguous"}.get(key, key.lower())
        )
        return result

    def __repr__(self) -> str:
        names = ("C_CONTIGUOUS", "F_CONTIGUOUS", "WRITEABLE", "ALIGNED")
        return "\n".join(f"  {name} : {self[name]}" for name in names)


def sort(self: ndarray, axis: int = -1, kind: str | None = None) -> None:
    """Sorts along an axis, in place. Refused on arrays in a graph."""
    _core.copyto(self, sorting.sort(self, axis, kind))


def partition(self: ndarray, kth: int | Sequence[int], axis: int = -1) -> None:
    """partition(), in place. Refused on arrays in a graph."""
    _core.copyto(self, sorting.partition(self, kth, axis))


def clip(self: ndarray, a_min: Operand | None, a_max: Operand | None) -> ndarray:
    """The elements limited to [a_min, a_max]: numbers or arrays, one of which may be None."""
    return mathematics.clip(self, a_min, a_max)


def compress(self: ndarray, condition: Any, axis: int | None = None) -> ndarray:
    """The parts along an axis (flattened by default) for which a condition holds."""
    return indexing.compress(condition, self, axis)


def tobytes(self: ndarray) -> bytes:
    """The elements' bytes in C order; waits."""
    return transfer.to_numpy(self).tobytes()


def tofile(self: ndarray, fid: Any, sep: str = "", format: str = "%s") -> None:
    """Writes the elements to a file, as numpy.ndarray.tofile does; waits."""
    transfer.to_numpy(self).tofile(fid, sep, format)


def dumps(self: ndarray) -> bytes:
    """The array pickled; waits."""
    return pickle.dumps(self)


def dump(self: ndarray, file: Any) -> None:
    """Pickles the array to a file, which is a path or open for writing; waits."""
    if hasattr(file, "write"):
        pickle.dump(self, file)
        return
    with open(file, "wb") as opened:
        pickle.dump(self, opened)


def itemset(self: ndarray, *args: Any) -> None:
    """a.itemset(value) of one element, a.itemset(index, value): writes an element in place."""
    *index, value = args
    if not index and self.size != 1:
        raise ValueError(f"[itemset] expects an index for an array of {self.size} elements")
    if not index:
        _core.copyto(self, value)
    elif isinstance(index[0], tuple):
        self[index[0]] = value
    else:
        self.flat[index[0]] = value


def format_array(self: ndarray, spec: str) -> str:
    """Formats a 0-d array as its element, as numpy.ndarray does; waits. Without a spec, str()."""
    if spec and self.ndim == 0:
        return format(self.item(), spec)
    return object.__format__(self, spec)


def set_flat(self: ndarray, value: Any) -> None:
    self.flat[:] = value


def flat_data(self: ndarray) -> list[Any]:
    result: list[Any] = transfer.to_numpy(self).ravel().tolist()
    return result
