"""Functions that are recorded once and repeated by the daemon: chx.jit."""

from __future__ import annotations

import collections
import functools
import inspect
import os
import pathlib
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

from chx import _core
from chx._core import ndarray
from chx._runtime import recording as _recording
from chx._runtime.traced_numbers import Number, Tape

R = TypeVar("R")

_MAX_DEPTH = 100
_MOST_NUMBERS = 60000  # of one command


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
    device: str


class _Float(NamedTuple):
    """A float's place among those that a function is given, or on the tape of its recording."""

    place: int


def _flatten(
    node: Any, arrays: list[ndarray], place_of: Callable[[float], int | None], depth: int = 0
) -> Any:
    """The node with its arrays replaced by their numbers in `arrays`, which this fills; hashable.

    `place_of` says of a float where each run has its value; None: it does not vary.
    """
    if depth > _MAX_DEPTH:
        raise ValueError(f"[jit] expects containers of at most {_MAX_DEPTH} levels")
    if isinstance(node, ndarray):
        number = next((i for i, array in enumerate(arrays) if array is node), len(arrays))
        if number == len(arrays):
            arrays.append(node)
        return _Array(number, str(node.dtype), node.shape, node.device.name)
    if type(node) in (float, Number):
        place = place_of(node)
        if place is not None:
            return _Float(place)
        node = float(node)
    if isinstance(node, float):  # 0.0 and -0.0 are not the same, and NaN is
        return (float, struct.pack("<d", node))
    if isinstance(node, dict):
        return (
            dict,
            tuple(
                (key, _flatten(value, arrays, place_of, depth + 1)) for key, value in node.items()
            ),
        )
    if isinstance(node, (list, tuple)):
        return (type(node), tuple(_flatten(value, arrays, place_of, depth + 1) for value in node))
    try:
        hash(node)
    except TypeError:
        raise TypeError(
            "[jit] expects chx arrays, values that can be hashed, and dicts, lists and tuples of "
            f"them, got {type(node).__name__}: chx.array(x) makes an array of NumPy's"
        ) from None
    return (type(node), node)  # 1, 1.0 and True are not the same


def _array_texts(structure: Any, texts: list[str]) -> None:
    """Appends the arrays of a flattened structure, each once."""
    if isinstance(structure, _Array):
        if structure.number == len(texts):
            texts.append(f"{structure.dtype}{structure.shape}")
    elif isinstance(structure, tuple):
        for part in structure:
            _array_texts(part, texts)


def _rebuild(structure: Any, arrays: Sequence[ndarray], numbers: Sequence[float]) -> Any:
    if isinstance(structure, _Array):
        return arrays[structure.number]
    if isinstance(structure, _Float):
        return numbers[structure.place]
    kind, contents = structure
    if kind is float:
        return struct.unpack("<d", contents)[0]
    if kind is dict:
        return {key: _rebuild(value, arrays, numbers) for key, value in contents}
    if isinstance(kind, type) and issubclass(kind, (list, tuple)):
        values = [_rebuild(value, arrays, numbers) for value in contents]
        return kind(*values) if hasattr(kind, "_fields") else kind(values)
    return contents


class _Swap:
    """Puts numbers that vary in the place of the floats of arguments."""

    def __init__(self, recording: _recording.Recording) -> None:
        self._recording = recording
        self._numbers = iter(recording.given)
        self._changed: list[list[Any] | dict[Any, Any]] = []

    def of(self, node: Any) -> Any:
        """The node with numbers, in the order of _flatten; lists and dicts are changed themselves."""
        if type(node) in (float, Number):
            number = next(self._numbers)
            if type(node) is float or node.place_in(self._recording) is None:
                return number
            # In a list that is there twice: what one of them varies by is not known.
            self._recording.tape.fix(node, number)
            return node
        if isinstance(node, dict):
            changed: list[Any] | dict[Any, Any] = node
            places: list[Any] = list(node)
        elif isinstance(node, list):
            changed, places = node, list(range(len(node)))
        elif isinstance(node, tuple):
            values = [self.of(value) for value in node]
            if all(a is b for a, b in zip(values, node)):
                return node
            return type(node)(*values) if hasattr(node, "_fields") else type(node)(values)
        else:
            return node
        for place in places:
            value = self.of(node[place])
            if value is not node[place]:
                node[place] = value
                self._changed.append(changed)
        return node

    def undo(self) -> None:
        """Puts floats back, wherever in the lists and dicts the function has left them."""
        for node in self._changed:
            for place in list(node) if isinstance(node, dict) else range(len(node)):
                node[place] = _unswapped(node[place])


def _unswapped(node: Any) -> Any:
    if type(node) is Number:
        return node.value
    if isinstance(node, tuple):
        values = [_unswapped(value) for value in node]
        if any(a is not b for a, b in zip(values, node)):
            return type(node)(*values) if hasattr(node, "_fields") else type(node)(values)
    return node


class _Recorded(NamedTuple):
    session: Any  # so that no other one has its id
    program: Any
    tape: Tape
    slots: tuple[Callable[[Sequence[float]], Iterable[float | int]], ...]
    numbers: int  # that the slots give together
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
        # By structure, places of floats, and their values.
        self._recorded: collections.OrderedDict[Any, _Recorded] = collections.OrderedDict()
        # By structure: the places of floats that recordings depend on.
        self._fixed: dict[Any, list[tuple[int, ...]]] = {}
        self._lock = threading.Lock()
        self._hits = self._misses = 0
        self._before: Callable[[], None] | None = None  # called when there is something to record
        # Results are in the default graph, as the function's. Arguments are in none.
        self._in_graph = False
        self._loses_graph = False  # a recording could not have them so

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        """Calls the function, or repeats what it has done for such arguments."""
        return self._run(None, 1, args, kwargs)

    def repeat(self, times: int, *args: Any, **kwargs: Any) -> R:
        """Calls the function so many times with the same arguments, by one command.

        Returns:
          The last call's result.

        Raises:
          ValueError: `times` is less than 1.
        """
        return self._run(None, times, args, kwargs)

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
            self._fixed.clear()
            self._hits = self._misses = 0

    def explain(self, *, profile: bool = False, svg: str | os.PathLike[str] | None = None) -> str:
        """What the daemon does in runs of each recording, as text.

        Operators are listed in the order in which they run, with the dtypes and shapes of what they
        read and write, and with what was fused, computed once for several uses, or left out; and the
        memory that a run takes. With measured runs also the time that each part took; on a GPU, that
        it took to start.

        Args:
          profile: runs from now on are measured; a later explain() says how long they took.
          svg: the name of a file in which to draw the same.

        Raises:
          ValueError: the daemon does not have a recording any more, as it was started anew.
        """
        with self._lock:
            recordings = list(self._recorded.items())
        name = getattr(self._function, "__qualname__", "step")
        explanations: list[tuple[str, str]] = []
        for (key, *_), recorded in recordings:
            arrays: list[str] = []
            _array_texts(key[-1], arrays)
            text = _core._program_explain(recorded.program, profile)
            explanations.append((f"{name}({', '.join(arrays)})", text))
        if svg is not None:
            picture = _core._explanations(explanations, True)
            pathlib.Path(svg).write_text(picture, encoding="utf-8")
        return _core._explanations(explanations, False)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method: each instance has recordings of its own."""
        return self if instance is None else _Method(self, instance)

    def _run(
        self, owner: _Method[R] | None, times: int, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> R:
        if times < 1:
            raise ValueError(f"[jit] expects 1 time at least, got {times}")
        function = self._function
        if owner is not None:
            function = functools.partial(function, owner.instance)
        if _recording.current() is not None:  # a part of what is being recorded
            for _ in range(times - 1):
                function(*args, **kwargs)
            return function(*args, **kwargs)
        arrays: list[ndarray] = []
        floats: list[float] = []

        def place_of(number: float) -> int:
            floats.append(float(number))
            return len(floats) - 1

        structure = _flatten((args, kwargs), arrays, place_of)
        default = _core._get_device(None)
        session = (arrays[0].device if arrays else default).backend._session
        # Of an array that keeps no gradient, the function leaves none.
        keep = tuple(array.is_grad_required() for array in arrays)
        modes = _core._records(None, session), _core._autocast()
        key = (id(session), modes, default.name, keep, owner, structure)
        recorded = self._find(key, floats)
        if recorded is not None:
            try:
                # Once: what they give is the same each time.
                numbers = recorded.tape.run(floats)
            except ArithmeticError:  # which the function may catch
                recorded = None
        if recorded is None:
            if self._before is not None:
                self._before()
            first, recorded = _record(
                function, session, arrays, floats, args, kwargs, self._in_graph
            )
            session.flush()  # the graph that it has left is freed before the next run
            if self._in_graph and not _core._program_keeps_graph(recorded.program):
                self._loses_graph = True
                return first
            self._add(key, floats, recorded)
            if times == 1:
                return first
            times -= 1
            numbers = recorded.tape.run(floats)
        # A command has room for so many numbers that vary.
        most = times if not recorded.numbers else _MOST_NUMBERS // recorded.numbers
        results: list[ndarray] = []
        while times > 0:
            now = min(times, most)
            values: list[int] = []
            for _ in range(now if recorded.slots else 0):
                values += [_bits(value) for slot in recorded.slots for value in slot(numbers)]
            count = 0 if self._in_graph else now
            results = _core._program_run(recorded.program, arrays, count, values)
            times -= now
        return cast(R, _rebuild(recorded.result, results, numbers))

    def _find(self, key: Any, floats: list[float]) -> _Recorded | None:
        with self._lock:
            for places in self._fixed.get(key, ()):
                fixed = (key, places, tuple(_bits(floats[place]) for place in places))
                recorded = self._recorded.get(fixed)
                if recorded is not None:
                    self._recorded.move_to_end(fixed)
                    self._hits += 1
                    return recorded
        return None

    def _add(self, key: Any, floats: list[float], recorded: _Recorded) -> None:
        places = tuple(sorted(recorded.tape.fixed))
        with self._lock:
            self._misses += 1
            self._recorded[key, places, tuple(_bits(floats[place]) for place in places)] = recorded
            if places not in self._fixed.setdefault(key, []):
                self._fixed[key].append(places)
                self._fixed[key].sort(key=len, reverse=True)  # the most particular ones first
            while len(self._recorded) > self._maxsize:
                (old, places, _), _ = self._recorded.popitem(last=False)
                if not any(other[:2] == (old, places) for other in self._recorded):
                    self._fixed[old].remove(places)
                    if not self._fixed[old]:
                        del self._fixed[old]


class _Method(Generic[R]):
    """A jitted function of an instance; equal for the same one."""

    def __init__(self, jitted: Jitted[R], instance: Any) -> None:
        self._jitted = jitted
        self.instance = instance

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        return self._jitted._run(self, 1, args, kwargs)

    def repeat(self, times: int, *args: Any, **kwargs: Any) -> R:
        """As Jitted.repeat."""
        return self._jitted._run(self, times, args, kwargs)

    def cache_info(self) -> CacheInfo:
        """As Jitted.cache_info: of all instances."""
        return self._jitted.cache_info()

    def cache_clear(self) -> None:
        """As Jitted.cache_clear: of all instances."""
        self._jitted.cache_clear()

    def explain(self, *, profile: bool = False, svg: str | os.PathLike[str] | None = None) -> str:
        """As Jitted.explain: of all instances."""
        return self._jitted.explain(profile=profile, svg=svg)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Method) and other.instance is self.instance

    def __hash__(self) -> int:
        return id(self.instance)


@_recording.alone()
def _record(
    function: Callable[..., R],
    session: Any,
    arrays: list[ndarray],
    floats: list[float],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    in_graph: bool,
) -> tuple[R, _Recorded]:
    _core._program_begin(session, arrays)
    recording = _recording.Recording(session, floats)
    swap = _Swap(recording)
    try:
        with recording:
            # The tuple and the dict are this call's own.
            args, kwargs = swap.of(args), swap.of(dict(kwargs))
            result = function(*args, **kwargs)
            outputs: list[ndarray] = []
            structure = _flatten(result, outputs, recording.place_of)
    except BaseException:
        _core._program_abandon(session)
        raise
    finally:
        swap.undo()
    program, declined = _core._program_end(session, outputs, recording.slots)
    recorded = _Recorded(
        session,
        program,
        recording.tape,
        tuple(recording.values),
        len(recording.slots) // 2,
        structure,
        declined,
    )
    if not in_graph:  # as the results of runs are
        outputs = [a.as_grad_stopped() if a.is_backprop_required() else a for a in outputs]
    return cast(R, _rebuild(structure, outputs, recording.tape.run(floats))), recorded


def jit(function: Callable[..., R], *, maxsize: int = 32) -> Jitted[R]:
    """A function that is recorded at its first call, and repeated by the daemon afterwards.

    The first call with arrays of certain dtypes and shapes runs the function, and the daemon keeps
    what that does: operators, gradients, writes to arrays, updates of optimizers. Every other call is
    one command, which does the same with the arrays that it is given. So Python's side effects, such
    as print(), happen while the function is recorded only.

    Arrays that the function finds elsewhere, such as parameters, are those of the recording; writes
    to them are made in each call. Floats may be others in each call, where arrays are added to,
    subtracted from, multiplied or divided by them or by what is computed from them. Other arguments
    (integers, strings, objects that can be hashed), and floats whose values are used otherwise, are a
    part of what was recorded: another value is recorded anew. Hyperparameters and the step number of
    chx.optimizers are read at each call, and random numbers go on as they would.

    Args:
      function: takes and returns arrays, hashable values, and dicts, lists and tuples of them.
      maxsize: how many recordings are kept; the one that was used longest ago makes room.

    Returns:
      A Jitted function: also `repeat(times, ...)`, `explain()`, `cache_info()` and `cache_clear()`.
      Its results are in no graph: call backward() in the function.

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
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise TypeError("[jit] expects a function that returns its results")
    return Jitted(function, maxsize)
