"""Functions that are recorded once and repeated by the daemon: chx.jit."""

from __future__ import annotations

import collections
import functools
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

from chx import _core
from chx._core import ndarray
from chx._runtime import recording as _recording

R = TypeVar("R")

_MAX_DEPTH = 100


class CacheInfo(NamedTuple):
    """What a function of chx.jit has recorded, and how often it was called."""

    hits: int
    """Calls that were one command."""
    misses: int
    """Calls that were recorded."""
    maxsize: int
    """Recordings that are kept at most."""
    currsize: int
    """Recordings that there are."""
    unplanned: tuple[str, ...]
    """Why recordings are run by their commands, and not by a plan, for those that are."""


class _Array(NamedTuple):
    """An array's place in a structure; equal for arrays that one recording serves."""

    number: int
    dtype: str
    shape: tuple[int, ...]


def _flatten(node: Any, arrays: list[ndarray], depth: int = 0) -> Any:
    """The node with its arrays replaced by their numbers in `arrays`, which this fills; hashable."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"[jit] expects containers of at most {_MAX_DEPTH} levels")
    if isinstance(node, ndarray):
        arrays.append(node)
        return _Array(len(arrays) - 1, str(node.dtype), node.shape)
    if isinstance(node, dict):
        return (
            dict,
            tuple((key, _flatten(value, arrays, depth + 1)) for key, value in node.items()),
        )
    if isinstance(node, (list, tuple)):
        return (type(node), tuple(_flatten(value, arrays, depth + 1) for value in node))
    try:
        hash(node)
    except TypeError:
        raise TypeError(
            "[jit] expects chx arrays, values that can be hashed, and dicts, lists and tuples of "
            f"them, got {type(node).__name__}: chx.array(x) makes an array of NumPy's"
        ) from None
    return (type(node), node)  # 1, 1.0 and True are not the same


def _rebuild(structure: Any, arrays: Sequence[ndarray]) -> Any:
    if isinstance(structure, _Array):
        return arrays[structure.number]
    kind, contents = structure
    if kind is dict:
        return {key: _rebuild(value, arrays) for key, value in contents}
    if isinstance(kind, type) and issubclass(kind, (list, tuple)):
        values = [_rebuild(value, arrays) for value in contents]
        return kind(*values) if hasattr(kind, "_fields") else kind(values)
    return contents


class _Recorded(NamedTuple):
    program: Any
    slots: tuple[Callable[[], Iterable[float | int]], ...]
    result: Any
    declined: str


def _bits(value: float | int) -> int:
    if isinstance(value, int):
        return value if value < 2**63 else value - 2**64
    return cast(int, struct.unpack("<q", struct.pack("<d", value))[0])


class Jitted(Generic[R]):
    """A function whose calls with arrays of known dtypes and shapes are one command each."""

    def __init__(self, function: Callable[..., R], maxsize: int = 32) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._maxsize = maxsize
        self._recorded: collections.OrderedDict[Any, _Recorded] = collections.OrderedDict()
        self._lock = threading.Lock()
        self._hits = self._misses = 0

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        """Calls the function, or repeats what it has done for such arguments."""
        return self._run(1, args, kwargs)

    def repeat(self, times: int, *args: Any, **kwargs: Any) -> R:
        """Calls the function so many times with the same arguments, by one command.

        Returns:
          The last call's result.

        Raises:
          ValueError: `times` is less than 1.
        """
        if times < 1:
            raise ValueError(f"[jit] expects 1 time at least, got {times}")
        return self._run(times, args, kwargs)

    def cache_info(self) -> CacheInfo:
        """What has been recorded."""
        with self._lock:
            unplanned = tuple(r.declined for r in self._recorded.values() if r.declined)
            return CacheInfo(
                self._hits, self._misses, self._maxsize, len(self._recorded), unplanned
            )

    def cache_clear(self) -> None:
        """Forgets what has been recorded: the next call records again."""
        with self._lock:
            self._recorded.clear()
            self._hits = self._misses = 0

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method: the instance is an argument that is compared by identity."""
        return self if instance is None else functools.partial(self, instance)

    def _run(self, times: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        if _recording.current() is not None:  # a part of what is being recorded
            for _ in range(times - 1):
                self._function(*args, **kwargs)
            return self._function(*args, **kwargs)
        arrays: list[ndarray] = []
        structure = _flatten((args, kwargs), arrays)
        device = arrays[0].device if arrays else _core._get_device(None)
        session = device.backend._session
        key = (id(session), structure)
        with self._lock:
            recorded = self._recorded.get(key)
            if recorded is not None:
                self._recorded.move_to_end(key)
                self._hits += 1
        if recorded is None:
            first, recorded = self._record(session, arrays, args, kwargs)
            with self._lock:
                self._misses += 1
                self._recorded[key] = recorded
                while len(self._recorded) > self._maxsize:
                    self._recorded.popitem(last=False)
            if times == 1:
                return cast(R, first)
            times -= 1
        values = [_bits(value) for _ in range(times) for slot in recorded.slots for value in slot()]
        results = _core._program_run(recorded.program, arrays, times, values)
        return cast(R, _rebuild(recorded.result, results))

    def _record(
        self, session: Any, arrays: list[ndarray], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, _Recorded]:
        _core._program_begin(session, arrays)
        recording = _recording.Recording(session)
        try:
            with recording:
                result = self._function(*args, **kwargs)
            outputs: list[ndarray] = []
            structure = _flatten(result, outputs)
        except BaseException:
            _core._program_abandon(session)
            raise
        program, declined = _core._program_end(session, outputs, recording.slots)
        recorded = _Recorded(program, tuple(recording.values), structure, declined)
        # As the results of runs are.
        stopped = [a.as_grad_stopped() if a.is_backprop_required() else a for a in outputs]
        return _rebuild(structure, stopped), recorded


def jit(function: Callable[..., R], *, maxsize: int = 32) -> Jitted[R]:
    """A function that is recorded at its first call, and repeated by the daemon afterwards.

    The first call with arrays of certain dtypes and shapes runs the function, and the daemon keeps
    what that does: operators, gradients, writes to arrays, updates of optimizers. Every other call is
    one command, which does the same with the arrays that it is given. So Python's side effects, such
    as print(), happen while the function is recorded only.

    Arrays that the function finds elsewhere, such as parameters, are those of the recording; writes
    to them are made in each call. Other arguments (numbers, strings, objects that can be hashed) are
    a part of what was recorded: another value is recorded anew. Hyperparameters and the step number
    of chx.optimizers are read at each call, and random numbers go on as they would.

    Args:
      function: takes and returns arrays, hashable values, and dicts, lists and tuples of them.
      maxsize: how many recordings are kept; the one that was used longest ago makes room.

    Returns:
      A Jitted function: also `repeat(times, ...)`, `cache_info()` and `cache_clear()`. Its results
      are in no graph: call backward() in the function.

    Raises:
      NotImplementedError: of the first call: the function reads a value, calls a function of the
        client in backward, or uses an array that was computed from arrays that require gradients.

        >>> import chx
        >>> @chx.jit
        ... def step(x, y):
        ...     return chx.sum(x * y)
        >>> float(step(chx.ones(3), chx.ones(3)))
        3.0
    """
    return Jitted(function, maxsize)
