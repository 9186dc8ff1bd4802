"""What kernels index: arrays of the caller's, and arrays of each thread's own.

No index reaches memory unchecked. One that is known here is checked before it is used. For others the
daemon keeps the least and the greatest of those that running threads use, which the end of the kernel
asks for, before it writes anything; until then they are held within the array.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._types import Shape
from chx.kernels import _types
from chx.kernels._values import Arithmetic, Data, Value, is_array, is_uniform

# Elements of an array of each thread's own: each is an array over all threads.
MAX_LOCAL = 256


class Place(NamedTuple):
    """Where running threads are: all (mask None), or those of a mask."""

    shape: Shape
    mask: Data | None
    line: int


class Buffer:
    """An array of the caller's, as its elements in C order.

    Args:
      name: the parameter's.
      type: the elements' type.
      array: is not written; `flat` is what it would be.
      is_written: whether the kernel may write to it.
    """

    def __init__(self, name: str, type: str, array: ndarray, is_written: bool) -> None:
        self.name = name
        self.type = type
        self.shape: Shape = tuple(array.shape)
        self.size = math.prod(self.shape)
        self.may_be_written = is_written
        self.is_changed = False
        self._array = array
        self._flat: ndarray | None = None

    @property
    def flat(self) -> ndarray:
        if self._flat is None:
            self._flat = self._array.reshape((self.size,))
        return self._flat

    @flat.setter
    def flat(self, array: ndarray) -> None:
        self._flat = array
        self.is_changed = True

    def result(self) -> ndarray:
        return self.flat.reshape(self.shape)


class Local:
    """An array of each thread's own; its elements are values."""

    def __init__(self, name: str, type: str, cells: list[Value]) -> None:
        self.name = name
        self.type = type
        self.cells = cells
        self.size = len(cells)


class Pointer(NamedTuple):
    """An element of an array; `lengths` are those of the rest, for arrays of arrays."""

    target: Buffer | Local
    offset: Value
    lengths: tuple[int, ...] = ()


class Memory:
    """Reads and writes elements, for all threads at once.

    Args:
      kernel: its name, for errors.
      arithmetic: on the device of the arrays.
    """

    def __init__(self, kernel: str, arithmetic: Arithmetic) -> None:
        self._kernel = kernel
        self._do = arithmetic
        # The least and the greatest index that the daemon knows, for each array and line.
        self._extremes: dict[tuple[str, int, int], tuple[ndarray, ndarray]] = {}

    def read(self, target: Buffer | Local, index: Value, place: Place) -> Value:
        data = self.within(target.name, target.size, index, place)
        if isinstance(target, Local):
            return self._read_local(target, data)
        if target.size == 0:  # no thread is here
            return self._do.number(0, target.type)
        flat = target.flat
        if is_uniform(data):
            return Value(target.type, flat[int(data)])
        start = None if is_array(data) else _start_of_run(data)
        if start is not None:
            found = flat[start : start + data.size].reshape(data.shape)
        else:
            found = _core.take(flat, self._do.on_device(data), 0, "clip")
        return Value(target.type, found)

    def write(self, target: Buffer | Local, index: Value, value: Value, place: Place) -> None:
        data = self.within(target.name, target.size, index, place)
        value = self._do.convert(value, target.type)
        if isinstance(target, Local):
            self._write_local(target, data, value, place)
            return
        self._expect_written(target, place)
        if target.size == 0 or 0 in place.shape:
            return
        source, new = self._sources(data, place, target.size), value.data
        written = self._do.apply("greater_equal", source, np.int64(0))
        if not is_uniform(new):
            new = _core.broadcast_to(self._do.on_device(new), place.shape).reshape((-1,))
            if not is_array(source) and source.size == new.size and _start_of_run(source) == 0:
                target.flat = new
                return
            new = _core.take(new, self._do.on_device(source), 0, "clip")
        if not is_array(written) and written.all():
            whole = _core.broadcast_to(self._do.on_device(new), (target.size,))
            target.flat = whole
            return
        new = self._do.on_device(new)
        target.flat = _core.where(self._do.on_device(written), new, target.flat)

    def reduce(
        self, how: str, target: Buffer | Local, index: Value, value: Value, place: Place
    ) -> None:
        """What atomicAdd ("sum"), atomicMax ("max") and atomicMin do."""
        data = self.within(target.name, target.size, index, place)
        value = self._do.convert(value, target.type)
        if isinstance(target, Local):
            raise TypeError(f"[{self._kernel}] expects an argument for atomics, got {target.name}")
        self._expect_written(target, place)
        if target.size == 0 or 0 in place.shape:
            return
        data = self._spread(data, place.shape)
        new = _core.broadcast_to(self._do.on_device(value.data), place.shape).reshape((-1,))
        mask = None if place.mask is None else self._spread(place.mask, place.shape)
        if mask is not None and not is_array(mask) and not is_array(data):
            chosen = np.flatnonzero(mask)
            data, mask = data[chosen], None
            new = _core.take(new, self._do.on_device(chosen), 0, "clip")
        if mask is not None:
            data = self._do.apply("where", mask, data, np.int64(0))
            idle = _core.full((), 0, new.dtype.name, new.device) if how == "sum" else target.flat[0]
            new = _core.where(self._do.on_device(mask), new, idle)
        indices = _core.maximum(_core.minimum(self._do.on_device(data), target.size - 1), 0)
        if how == "sum":
            target.flat = _core.index_add(target.flat, indices, new)
        else:
            target.flat = _core.scatter_reduce(target.flat, indices, new, 0, how)  # type: ignore[arg-type]

    def within(self, name: str, size: int, index: Value, place: Place) -> Data:
        """An index as data that is within an array's size, for all threads.

        Raises:
          IndexError: a thread that runs has another.
        """
        if _types.is_float(index.type):
            raise TypeError(f"[{self._kernel}] expects integers as indexes of {name}, got floats")
        data = self._do.astype(index.data, "int64")
        mask = place.mask
        if is_array(data):
            self._watch(name, size, data, place)
            return data
        outside = (data < 0) | (data >= size)
        if not np.any(outside):
            return data
        if is_array(mask):
            self._watch(name, size, data, place)
        else:
            wrong = outside if mask is None else outside & mask
            if np.any(wrong) and 0 not in place.shape:
                self._fail(
                    name, size, np.broadcast_to(data, wrong.shape)[wrong].flat[0], place.line
                )
        return np.clip(data, 0, max(size - 1, 0))

    def check(self) -> None:
        """Waits for the daemon's indexes.

        Raises:
          IndexError: one was not within its array.
        """
        if not self._extremes:
            return
        pairs = [e for pair in self._extremes.values() for e in pair]
        found = np.asarray(_core.stack(pairs).tolist()).reshape(-1, 2)
        for (name, size, line), (least, greatest) in zip(self._extremes, found):
            if least < 0 or greatest >= size:
                self._fail(name, size, least if least < 0 else greatest, line)
        self._extremes.clear()

    def _fail(self, name: str, size: int, index: Any, line: int) -> None:
        raise IndexError(
            f"[{self._kernel}] expects indexes of {name} from 0 and below {size}, got {int(index)} "
            f"in line {line}"
        )

    def _expect_written(self, target: Buffer, place: Place) -> None:
        if not target.may_be_written:
            raise TypeError(
                f"[{self._kernel}] expects a result to write to, got the parameter {target.name} "
                f"in line {place.line}"
            )

    def _watch(self, name: str, size: int, data: Data, place: Place) -> None:
        mask, data = place.mask, self._do.on_device(data)
        if 0 in place.shape or data.size == 0:
            return
        if mask is not None:
            mask = self._do.on_device(mask)
            if size == 0:  # no index will do for those that do not run
                if bool(_core.any(mask)):
                    self._fail(name, size, 0, place.line)
                return
            data = _core.where(mask, data, _core.full((), 0, "int64", data.device))
        least, greatest = _core.amin(data), _core.amax(data)
        key = name, size, place.line
        before = self._extremes.get(key)
        if before is not None:
            least, greatest = _core.minimum(least, before[0]), _core.maximum(greatest, before[1])
        self._extremes[key] = least, greatest

    def _spread(self, data: Data, shape: Shape) -> Data:
        """Data for each of the threads, in one dimension."""
        if is_array(data):
            return _core.broadcast_to(data, shape).reshape((-1,))
        return np.broadcast_to(data, shape).reshape(-1)

    def _sources(self, data: Data, place: Place, size: int) -> Data:
        """For each element of an array the last thread that writes it; -1 if there is none."""
        threads = math.prod(place.shape)
        data, mask = self._spread(data, place.shape), place.mask
        if mask is not None:
            mask = self._spread(mask, place.shape)
        if not is_array(data) and not is_array(mask):
            found = np.full(size, -1)
            chosen = np.arange(threads) if mask is None else np.flatnonzero(mask)
            found[data[chosen]] = chosen
            return found
        data = self._do.on_device(data)
        fits = _core.logical_and(_core.greater_equal(data, 0), _core.less(data, size))
        if mask is not None:
            fits = _core.logical_and(fits, self._do.on_device(mask))
        device = data.device
        data = _core.where(fits, data, _core.full((), size, "int64", device))
        sources = _core.full((size + 1,), -1, "int64", device)
        _core.index_put(sources, data, _core.arange(threads, dtype="int64", device=device))
        return sources[:size]

    def _read_local(self, target: Local, data: Data) -> Value:
        if is_uniform(data):
            return target.cells[int(data)]
        found = target.cells[0].data
        for k, cell in enumerate(target.cells[1:], 1):
            chosen = self._do.apply("equal", data, np.int64(k))
            found = self._do.apply("where", chosen, cell.data, found)
        return Value(target.type, found)

    def _write_local(self, target: Local, data: Data, value: Value, place: Place) -> None:
        for k in [int(data)] if is_uniform(data) else range(target.size):
            chosen = place.mask
            if not is_uniform(data):
                equal = self._do.apply("equal", data, np.int64(k))
                chosen = equal if chosen is None else self._do.apply("logical_and", equal, chosen)
            new = value.data
            if chosen is not None:
                new = self._do.apply("where", chosen, new, target.cells[k].data)
            target.cells[k] = Value(target.type, new)


def _start_of_run(data: Data) -> int | None:
    """Where data begins, if it counts upwards from there by one."""
    flat = data.reshape(-1)
    if flat.size == 0 or flat[-1] - flat[0] != flat.size - 1 or np.any(np.diff(flat) != 1):
        return None
    return int(flat[0])
