"""Evaluates a kernel's trees with chx's operators, by C's rules.

Values are arrays, of no dimensions for numbers that have a type, and Python's numbers for literals,
which take the type of what they meet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from chx import _core
from chx._compat import TypeAlias, TypeGuard
from chx._core import Device, ndarray

_FLOATS = "acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor log log1p log2 log10 rint"
_FLOATS += " sin sinh sqrt tan tanh trunc erf"
# Functions of floats, which convert integers to double.
_UNARY = {
    **{name: name for name in _FLOATS.split()},
    **{"a" + name: "arc" + name for name in "cos sin tan cosh sinh tanh".split()},
    "fabs": "abs",
    "isnan": "isnan",
    "isinf": "isinf",
    "isfinite": "isfinite",
    "rsqrt": "rsqrt",
}
_BINARY = {
    "fmin": "fmin",
    "fmax": "fmax",
    "pow": "power",
    "atan2": "arctan2",
    "fmod": "fmod",
    "hypot": "hypot",
}
# Those of any type.
_ANY = {"abs": 1, "min": 2, "max": 2}
_COMPARISONS = {
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    ">": "greater",
    "<=": "less_equal",
    ">=": "greater_equal",
}
_ARITHMETIC = {"+": "add", "-": "subtract", "*": "multiply"}
_BITS = {
    "&": "bitwise_and",
    "|": "bitwise_or",
    "^": "bitwise_xor",
    "<<": "left_shift",
    ">>": "right_shift",
}
_ON_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    ">": lambda x, y: x > y,
    "<=": lambda x, y: x <= y,
    ">=": lambda x, y: x >= y,
    "&": lambda x, y: x & y,
    "|": lambda x, y: x | y,
    "^": lambda x, y: x ^ y,
    "<<": lambda x, y: x << y,
    ">>": lambda x, y: x >> y,
}
Value: TypeAlias = Any  # an array, or a number of Python's
Tree: TypeAlias = tuple[Any, ...]  # of the parser

_CONSTANTS = {"M_PI": math.pi, "M_E": math.e, "INFINITY": math.inf, "NAN": math.nan}


def arity_of(name: str) -> int | None:
    """How many arguments a function of C's has; None if kernels don't have it."""
    for plain in (name, name[:-1] if name[-1:] == "f" else name):
        if plain in _UNARY:
            return 1
        if plain in _BINARY:
            return 2
        if plain in _ANY and plain == name:
            return _ANY[plain]
    return None


def function(name: str) -> Callable[..., Any]:
    """An operator of chx's by its name."""
    result: Callable[..., Any] = getattr(_core, name)
    return result


def is_array(value: object) -> TypeGuard[ndarray]:
    return isinstance(value, _core.ndarray)


def _is_integer(value: Value) -> bool:
    return value.dtype.kind in "biu" if is_array(value) else isinstance(value, (bool, int))


def _promoted(value: Value) -> Value:
    """What C computes with: at least an int, and no half."""
    if not is_array(value):
        return int(value) if isinstance(value, bool) else value
    name = value.dtype.name
    if name == "float16":
        return value.astype("float32")
    return value.astype("int32") if name in ("bool", "int8", "uint8", "int16") else value


def _to_double(value: Value) -> Value:
    if not _is_integer(value):
        return value
    return value.astype("float64") if is_array(value) else float(value)


def _pair(x: Value, y: Value) -> tuple[Value, Value]:
    """Two promoted values as C has them in one operator: a literal does not make floats double."""
    for one, other in ((x, y), (y, x)):
        if is_array(one) and not is_array(other) and _is_integer(one):
            if isinstance(other, float):
                one = one.astype("float64")
            elif not -(2**31) <= other < 2**31:
                one = one.astype("int64")
            return (one, other) if is_array(x) else (other, one)
    return x, y


def _both(x: Value, y: Value) -> tuple[ndarray, ndarray]:
    """Two arrays: not every function has a form for numbers."""
    if not is_array(x):
        x = _core.full_like(y, x)
    elif not is_array(y):
        y = _core.full_like(x, y)
    return x, y


def _truth(value: Value) -> Value:
    if not is_array(value):
        return bool(value)
    return value if value.dtype.kind == "b" else _core.not_equal(value, 0)


class Evaluator:
    """Runs the statements of one call.

    Args:
      kernel: its name, for errors.
      device: where the arrays are.
      types: the dtype's name, or a placeholder, for each variable that is declared outside.
      resolve: turns the name of a type into a dtype's.
      values: arrays by their names.
    """

    def __init__(
        self,
        kernel: str,
        device: Device,
        types: Mapping[str, str],
        resolve: Callable[[str], str],
        values: Mapping[str, ndarray],
    ) -> None:
        self._kernel = kernel
        self._device = device
        self._types = dict(types)
        self._resolve = resolve
        self.values = dict(values)

    def typed(self, value: Value, dtype: str) -> ndarray:
        """A number or an array as C converts it: an array."""
        if is_array(value):
            return value if value.dtype.name == dtype else value.astype(dtype)
        if np.dtype(dtype).kind in "iu" and math.isfinite(value):
            bits = 8 * np.dtype(dtype).itemsize  # wraps, as C does
            value = int(value) % 2**bits
            if np.dtype(dtype).kind == "i" and value >= 2 ** (bits - 1):
                value -= 2**bits
        return _core.full((), value, dtype, self._device)

    def declare(self, types: Mapping[str, str]) -> None:
        """Names variables that have no values yet."""
        self._types.update(types)

    def run(self, statements: Sequence[Tree]) -> None:
        for statement in statements:
            if statement[0] == "if":
                self._branch(*statement[1:])
                continue
            _, declared, name, tree = statement
            if declared is not None:
                if name in self._types:
                    raise NameError(f"[{self._kernel}] expects a new name to declare, got {name}")
                self._types[name] = declared
            elif name not in self._types:
                raise NameError(f"[{self._kernel}] expects a variable that is declared, got {name}")
            self.values[name] = self.typed(self.value(tree), self._resolve(self._types[name]))

    def _branch(self, condition: Tree, then: Sequence[Tree], otherwise: Sequence[Tree]) -> None:
        condition = _truth(self.value(condition))
        if not is_array(condition):
            self.run(then if condition else otherwise)
            return
        before, types = dict(self.values), dict(self._types)
        self.run(then)
        yes, self.values, self._types = self.values, dict(before), dict(types)
        self.run(otherwise)
        no, self.values, self._types = self.values, before, types
        for name in types:  # what was declared inside ends here
            a, b = yes.get(name), no.get(name)
            if a is not b:
                # Where a side assigns nothing to a variable that has nothing, C leaves it undefined.
                if a is not None and b is not None:
                    a = _core.where(condition, a, b)
                self.values[name] = cast(ndarray, b if a is None else a)

    def value(self, tree: Tree) -> Value:
        return getattr(self, "_" + tree[0])(*tree[1:])

    def _number(self, value: Value) -> Value:
        return value

    def _name(self, name: str) -> Value:
        if name in self.values:
            return self.values[name]
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        raise NameError(f"[{self._kernel}] expects a variable that has a value, got {name}")

    def _cast(self, dtype: str, tree: Tree) -> ndarray:
        return self.typed(self.value(tree), self._resolve(dtype))

    def _unary(self, op: str, tree: Tree) -> Value:
        value = self.value(tree)
        if op == "!":
            truth = _truth(value)
            return _core.logical_not(truth) if is_array(truth) else not truth
        value = _promoted(value)
        if op == "~":
            self._expect_integers("~", value)
            return _core.subtract(-1, value) if is_array(value) else ~value
        if op == "-":
            return _core.negative(value) if is_array(value) else -value
        return value

    def _choose(self, condition: Tree, yes: Tree, no: Tree) -> Value:
        condition = _truth(self.value(condition))
        if not is_array(condition):
            return self.value(yes if condition else no)
        x, y = _pair(_promoted(self.value(yes)), _promoted(self.value(no)))
        if not is_array(x) and not is_array(y):
            small = all(_is_integer(v) and -(2**31) <= v < 2**31 for v in (x, y))
            whole = _is_integer(x) and _is_integer(y)
            x = self.typed(x, "int32" if small else "int64" if whole else "float64")
        return _core.where(condition, x, y)

    def _binary(self, op: str, left: Tree, right: Tree) -> Value:
        if op in ("&&", "||"):
            x, y = _truth(self.value(left)), _truth(self.value(right))
            if not is_array(x) and not is_array(y):
                return x and y if op == "&&" else x or y
            return function("logical_and" if op == "&&" else "logical_or")(*_both(x, y))
        x, y = _promoted(self.value(left)), _promoted(self.value(right))
        if op in _BITS or op == "%":
            self._expect_integers(op, x, y)
        if op in ("/", "%"):
            return self._quotient(op, x, y)
        if not is_array(x) and not is_array(y):
            return _ON_NUMBERS[op](x, y)
        x, y = _pair(x, y)
        return function(_ARITHMETIC.get(op) or _COMPARISONS.get(op) or _BITS[op])(x, y)

    def _expect_integers(self, op: str, *values: Value) -> None:
        if not all(_is_integer(v) for v in values):
            raise TypeError(f"[{self._kernel}] expects integers for {op}, got floats")

    def _quotient(self, op: str, x: Value, y: Value) -> Value:
        if not _is_integer(x) or not _is_integer(y):
            if is_array(x) or is_array(y):
                return _core.true_divide(*_pair(x, y))
            with np.errstate(all="ignore"):
                return np.true_divide(x, y).item()
        if not is_array(x) and not is_array(y):
            if y == 0:
                raise ZeroDivisionError(f"[{self._kernel}] expects a number to divide by, got 0")
            quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            return quotient if op == "/" else x - quotient * y
        x, y = _both(*_pair(x, y))
        down = _core.floor_divide(x, y)
        rest = _core.subtract(x, _core.multiply(down, y))
        # Towards zero, as in C: one more where the floor lies below.
        signs = _core.not_equal(_core.less(x, 0), _core.less(y, 0))
        below = _core.logical_and(_core.not_equal(rest, 0), signs)
        if op == "/":
            return _core.where(below, _core.add(down, 1), down)
        return _core.where(below, _core.subtract(rest, y), rest)

    def _call(self, name: str, trees: Sequence[Tree]) -> Value:
        values = [_promoted(self.value(tree)) for tree in trees]
        plain = (
            name[:-1] if name not in _UNARY and name not in _BINARY and name[-1] == "f" else name
        )
        if name in _ANY:
            return self._of_any(name, values)
        values = [_to_double(v) for v in values]
        if plain == "rsqrt":
            return self._apply("reciprocal", [self._apply("sqrt", values)])
        return self._apply(_UNARY.get(plain) or _BINARY[plain], values)

    def _of_any(self, name: str, values: list[Value]) -> Value:
        if name == "abs":
            return self._apply("abs", values)
        values = list(_pair(*values))
        if all(_is_integer(v) for v in values):
            return self._apply(name + "imum", values)
        return self._apply("f" + name, values)  # of a NaN and a number, CUDA's is the number

    def _apply(self, name: str, values: list[Value]) -> Value:
        if any(is_array(v) for v in values):
            return function(name)(*(_both(*values) if len(values) == 2 else values))
        if name == "erf":
            return math.erf(*values)
        with np.errstate(all="ignore"):
            return getattr(np, name)(*values).item()
