"""Numbers that a recorded function is given, and what it computes from them.

A `Number` stands for a float while a function is recorded. Beside an array it becomes an array
without dimensions, whose value is another one in each run; arithmetic with numbers gives numbers that
are computed again before each run. Whatever else asks for its value makes the recording one for this
value: nothing can tell what depends on it then.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from chx import _core
from chx._types import is_float

if TYPE_CHECKING:
    from chx._runtime.recording import Recording

_MAX_STEPS = 10000

# Of an array of floats and a number: the number is cast to the array's dtype first, so that an array
# of this dtype in its place gives the same, also in gradients. It is not so for comparisons, powers.
_OPERATORS = {
    name + suffix for name in ("add", "subtract", "multiply", "divide") for suffix in ("", "_")
}
_FILL_VALUE = _core._attribute_index("full", "fill_value")

Term = Union["Number", float, int]


class Tape:
    """How numbers are computed from those that a function is given."""

    def __init__(self, given: Sequence[float]) -> None:
        self._given = len(given)
        self._steps: list[tuple[Callable[..., float], tuple[tuple[bool, Any], ...]]] = []
        self.fixed: set[int] = set()
        """Those given whose values something else depends on."""

    def add(self, function: Callable[..., float], terms: Sequence[Term]) -> int:
        """A step that computes function(*terms); its result's place."""
        parts = tuple(
            (True, term._place) if isinstance(term, Number) else (False, term) for term in terms
        )
        self._steps.append((function, parts))
        return self._given + len(self._steps) - 1

    def fix(self, *numbers: Number) -> None:
        """Says that the recording depends on what these are."""
        for number in numbers:
            self.fixed |= number._sources

    def full(self) -> bool:
        """Whether there is no room for another step."""
        return len(self._steps) >= _MAX_STEPS

    def run(self, given: Sequence[float]) -> list[float]:
        """All numbers for those given, by place."""
        values = list(given)
        for function, parts in self._steps:
            values.append(function(*(values[x] if is_place else x for is_place, x in parts)))
        return values


def _plain(value: Any) -> Any:
    """The value with floats in the place of numbers, in containers, too."""
    if type(value) is Number:
        return float(value)
    if type(value) in (list, tuple):
        return type(value)(_plain(v) for v in value)
    if type(value) is dict:
        return {key: _plain(v) for key, v in value.items()}
    return value


def _power_is_real(base: Term, exponent: Term) -> bool:
    """Whether no value of those that vary makes it complex."""
    if isinstance(base, Number):
        return not isinstance(exponent, Number) and float(exponent).is_integer()
    return base >= 0


class Number:
    """A float argument of a function that is recorded, or what was computed from some."""

    __slots__ = ("_arrays", "_place", "_recording", "_sources", "_value")

    def __init__(
        self, recording: Recording, value: float, place: int, sources: frozenset[int]
    ) -> None:
        self._recording = recording
        self._value = value
        self._place = place  # on the tape
        self._sources = sources  # which of those given it depends on
        self._arrays: dict[Any, _core.ndarray] = {}

    # For isinstance(x, float). It is none for the interpreter: C code would see its value unnoticed.
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return float

    @property
    def value(self) -> float:
        """The value in this recording, for what does not depend on it."""
        return self._value

    def place_in(self, recording: Recording) -> int | None:
        """Where a run of this recording has its value; None: it does not vary there."""
        return self._place if recording is self._recording else None

    def forget_arrays(self) -> None:
        """Drops the arrays that were made of it."""
        self._arrays.clear()

    def _operand(self, array: _core.ndarray, name: str) -> _core.ndarray | float:
        """What stands for it beside an array in an operator."""
        recording = self._recording
        if (
            not recording.is_current()
            or name not in _OPERATORS
            or not is_float(array.dtype)
            or array.device.backend._session is not recording.session
        ):
            return float(self)
        key = array.dtype, array.device.name
        if key not in self._arrays:
            place = self._place
            recording.vary_by_numbers([_FILL_VALUE], lambda numbers: (numbers[place],))
            self._arrays[key] = _core.full((), self._value, array.dtype, array.device)
            recording.arrays_of.append(self)
        return self._arrays[key]

    def _step(self, function: Callable[..., Any], *terms: Any) -> Any:
        """function(*terms), one of which this is."""
        recording = self._recording
        if isinstance(next((t for t in terms if t is not self), 0), _core.ndarray):
            return NotImplemented  # the array's own method comes next
        values = [term._value if type(term) is Number else term for term in terms]
        traced = [term for term in terms if type(term) is Number]
        if (
            not recording.active
            or any(type(value) not in (float, int, bool) for value in values)
            or any(term._recording is not recording for term in traced)
            or recording.tape.full()
            or (function is operator.pow and not _power_is_real(*terms))
        ):
            return function(*(float(t) if type(t) is Number else t for t in terms))
        try:
            result = function(*values)
        except ArithmeticError:  # whether it is raised depends on what they are
            recording.tape.fix(*traced)
            raise
        place = recording.tape.add(function, terms)
        sources = frozenset().union(*(term._sources for term in traced))
        return Number(recording, result, place, sources)

    def __float__(self) -> float:
        """The value, of which the recording depends from now on."""
        if self._recording.active:
            self._recording.tape.fix(self)
        return self._value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """For NumPy, which calls it for what is no float."""
        return np.asarray(float(self), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        """For NumPy: as the float, whose dtype gives way to those of arrays."""
        return getattr(ufunc, method)(*_plain(args), **_plain(kwargs))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """As __array_ufunc__."""
        return function(*_plain(args), **_plain(kwargs))

    def __getattr__(self, name: str) -> Any:
        """What a float has beside its operators."""
        if not hasattr(float, name):
            raise AttributeError(f"'float' object has no attribute {name!r}")
        return getattr(float(self), name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A copy is a float."""
        return float, (float(self),)


def _define_steps() -> None:
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
        function = getattr(operator, name)
        setattr(Number, f"__{name}__", lambda a, b, function=function: a._step(function, a, b))
        setattr(Number, f"__r{name}__", lambda b, a, function=function: b._step(function, a, b))
    for name in ("neg", "pos", "abs"):
        function = getattr(operator, name)
        setattr(Number, f"__{name}__", lambda a, function=function: a._step(function, a))


def _compared(function: Callable[[Any, Any], Any], a: Number, b: Any) -> Any:
    if isinstance(b, _core.ndarray):
        return NotImplemented
    return function(float(a), _plain(b))


def _define_uses() -> None:
    """What asks for the value."""
    for name in ("lt", "le", "eq", "ne", "gt", "ge"):
        function = getattr(operator, name)
        setattr(Number, f"__{name}__", lambda a, b, function=function: _compared(function, a, b))
    for name, function in {
        "bool": bool,
        "ceil": float.__ceil__,
        "complex": complex,
        "divmod": divmod,
        "floor": float.__floor__,
        "format": format,
        "hash": hash,
        "int": int,
        "rdivmod": lambda b, a: divmod(a, b),
        "repr": repr,
        "round": round,
        "str": str,
        "trunc": float.__trunc__,
    }.items():
        setattr(
            Number,
            f"__{name}__",
            lambda a, *rest, function=function: function(float(a), *_plain(rest)),
        )


_define_steps()
_define_uses()
