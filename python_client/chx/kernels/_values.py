"""Values of kernels and C's arithmetic on them.

A value's data is of NumPy's where this process knows it, and an array of the daemon's elsewhere. What
depends only on numbers and on the positions of threads is known here: loops over it and indexes of it
need no answer from the daemon. Data of no dimensions is the same for all threads.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from chx import _core
from chx._compat import TypeAlias, TypeGuard
from chx._core import Device, ndarray
from chx._numpy import transfer
from chx.kernels import _types
from chx.kernels._functions import BINARY, PREDICATES, UNARY, plain_name

Data: TypeAlias = Any  # numpy.generic, numpy.ndarray or chx.ndarray

_COMPARISONS = {
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    ">": "greater",
    "<=": "less_equal",
    ">=": "greater_equal",
}
_ARITHMETIC = {"+": "add", "-": "subtract", "*": "multiply"}
_BITS = {"&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor"}
_SHIFTS = {"<<": "left_shift", ">>": "right_shift"}
# Operators of which one side may be a number.
_WITH_NUMBERS = {*_COMPARISONS.values(), *_ARITHMETIC.values(), *_BITS.values(), *_SHIFTS.values()}
_WITH_NUMBERS |= {"true_divide"}
_MASKS = {"uint16": 2**16 - 1, "uint32": 2**32 - 1}
_SIGN = -(2**63)


class Value(NamedTuple):
    """Numbers of one type of C's, for each thread.

    A literal has no suffix that settles its type: it makes no float32 double.
    """

    type: str
    data: Data
    literal: bool = False


def is_array(value: object) -> TypeGuard[ndarray]:
    return isinstance(value, _core.ndarray)


def is_uniform(data: Data) -> bool:
    """Whether it is known here, and one for all threads."""
    return not is_array(data) and np.ndim(data) == 0


class Arithmetic:
    """Computes by C's rules.

    Args:
      kernel: its name, for errors.
      device: where arrays are.
    """

    def __init__(self, kernel: str, device: Device) -> None:
        self._kernel = kernel
        self._device = device
        self._uploaded: dict[int, tuple[Data, ndarray]] = {}

    def number(self, value: float, name: str | None = None) -> Value:
        """A number of a type, or a literal."""
        if name is not None:
            if name == "uint64" and value >= 2**63:
                value -= 2**64
            return Value(name, np.dtype(_types.held_by(name)).type(value))
        if isinstance(value, float):
            return Value("float64", np.float64(value), True)
        wide = not -(2**31) <= value < 2**31
        return Value("int64" if wide else "int32", (np.int64 if wide else np.int32)(value), True)

    def on_device(self, data: Data) -> ndarray:
        """The data as the daemon's array; what is sent once is not sent again."""
        if is_array(data):
            return data
        if np.ndim(data) == 0:
            return _core.full((), data.item(), data.dtype.name, self._device)
        found = self._uploaded.get(id(data))
        if found is None:
            if len(self._uploaded) == 64:
                self._uploaded.clear()
            found = data, transfer.upload(np.ascontiguousarray(data), None, device=self._device)
            self._uploaded[id(data)] = found
        return found[1]

    def apply(self, name: str, *data: Data) -> Data:
        """An operator by its name: NumPy's or the daemon's."""
        if not any(is_array(x) for x in data):
            return getattr(np, name)(*data)
        numbers = name in _WITH_NUMBERS
        operands = [x.item() if numbers and is_uniform(x) else self.on_device(x) for x in data]
        return getattr(_core, name)(*operands)

    def astype(self, data: Data, dtype: str) -> Data:
        return data if data.dtype.name == dtype else data.astype(dtype)

    def convert(self, value: Value, name: str) -> Value:
        """The value as C converts it to a type."""
        source, data = value.type, value.data
        if source == name:
            return Value(name, data)
        if name == "bool":
            return Value(name, self.truth(value))
        if _types.is_float(name):
            if source == "uint64":
                data = self._float_of_uint64(data, name)
        elif _types.is_float(source):
            data = self._integer_of_float(data, name)
        data = self.astype(data, _types.held_by(name))
        fits = _types.is_unsigned(source) and _types.size_of(source) <= _types.size_of(name)
        return Value(name, data if fits or source == "bool" else self._wrap(name, data))

    def truth(self, value: Value) -> Data:
        if value.type == "bool":
            return value.data
        return self.apply("not_equal", value.data, value.data.dtype.type(0))

    def unary(self, op: str, value: Value) -> Value:
        if op == "!":
            return Value("bool", self.apply("logical_not", self.truth(value)))
        value = self._promote(value)
        if op == "+":
            return value
        if op == "~":
            self._expect_integers(op, value)
            data = self.apply("bitwise_xor", value.data, value.data.dtype.type(-1))
        else:
            data = self.apply("negative", value.data)
        return Value(value.type, self._wrap(value.type, data), value.literal)

    def binary(self, op: str, x: Value, y: Value) -> Value:
        """Any operator of two values but && and ||."""
        if op in _BITS or op in _SHIFTS or op == "%":
            self._expect_integers(op, x, y)
        if op in _SHIFTS:
            return self._shift(op, self._promote(x), y)
        x, y = self.pair(x, y)
        literal = x.literal and y.literal
        if op in _COMPARISONS:
            return Value("bool", self.apply(_COMPARISONS[op], *self._ordered(x, y)))
        if op in ("/", "%"):
            if _types.is_float(x.type):
                return Value(x.type, self.apply("true_divide", x.data, y.data), literal)
            return Value(x.type, self._quotient(op, x, y), literal)
        data = self.apply(_ARITHMETIC.get(op) or _BITS[op], x.data, y.data)
        return Value(x.type, data if op in _BITS else self._wrap(x.type, data), literal)

    def pair(self, x: Value, y: Value) -> tuple[Value, Value]:
        """Two values as C has them in one operator: of one type."""
        x, y = self._promote(x), self._promote(y)
        floats = [v for v in (x, y) if _types.is_float(v.type)]
        if len(floats) == 2 and x.literal != y.literal:
            name = y.type if x.literal else x.type
        else:
            name = _types.common(x.type, y.type)
        return tuple(  # type: ignore[return-value]
            Value(name, self.convert(v, name).data, v.literal) for v in (x, y)
        )

    def choose(self, condition: Data, x: Value, y: Value) -> Value:
        """condition ? x : y, where threads differ."""
        x, y = self.pair(x, y)
        return Value(x.type, self.apply("where", condition, x.data, y.data))

    def call(self, name: str, values: list[Value]) -> Value:
        """A function of C's mathematics."""
        if name in ("min", "max"):
            return self._extreme(name, *self.pair(*values))
        if name in ("abs", "labs", "llabs"):
            value = self._promote(values[0])
            if _types.is_unsigned(value.type):
                return value
            return Value(value.type, self.apply("abs", value.data), value.literal)
        plain, single = plain_name(name)
        values = [self._to_double(self._promote(v)) for v in values]
        if single:
            values = [self.convert(v, "float32") for v in values]
        if len(values) == 2:
            values = list(self.pair(*values))
        literal = all(v.literal for v in values)
        kind, data = values[0].type, [v.data for v in values]
        if plain in UNARY or plain in BINARY:
            result = self._function(UNARY.get(plain) or BINARY[plain], data)
            return Value("bool" if plain in PREDICATES else kind, result, literal)
        one = data[0].dtype.type(1)
        if plain == "rsqrt":
            result = self.apply("true_divide", one, self.apply("sqrt", *data))
        elif plain == "exp10":
            result = self._function("power", [data[0].dtype.type(10), *data])
        else:
            result = self.apply("rint", *data) if "rint" in plain else self._round(data[0])
            if plain != "round":
                return self.convert(Value(kind, result), "int64")
        return Value(kind, result, literal)

    def _function(self, name: str, data: list[Data]) -> Data:
        if name == "erf" and is_uniform(data[0]):
            return data[0].dtype.type(math.erf(data[0]))
        if name == "erf":
            data = [self.on_device(x) for x in data]
        return self.apply(name, *data)

    def _round(self, data: Data) -> Data:
        """Halves away from zero."""
        whole = self.apply("trunc", data)
        one, half = data.dtype.type(1), data.dtype.type(0.5)
        far = self.apply("abs", self.apply("subtract", data, whole))
        more = self.apply("add", whole, self.apply("copysign", one, data))
        return self.apply("where", self.apply("greater_equal", far, half), more, whole)

    def _extreme(self, name: str, x: Value, y: Value) -> Value:
        literal = x.literal and y.literal
        if _types.is_float(x.type):  # of a NaN and a number, CUDA's is the number
            return Value(x.type, self.apply("f" + name, x.data, y.data), literal)
        if x.type == "uint64":
            less = self.apply("less", *self._ordered(x, y))
            pair = (x.data, y.data) if name == "min" else (y.data, x.data)
            return Value(x.type, self.apply("where", less, *pair), literal)
        return Value(x.type, self.apply(name + "imum", x.data, y.data), literal)

    def _promote(self, value: Value) -> Value:
        name = _types.promoted(value.type)
        return Value(name, self.convert(value, name).data, value.literal)

    def _to_double(self, value: Value) -> Value:
        if _types.is_float(value.type):
            return value
        return Value("float64", self.convert(value, "float64").data, value.literal)

    def _expect_integers(self, op: str, *values: Value) -> None:
        if any(_types.is_float(v.type) for v in values):
            raise TypeError(f"[{self._kernel}] expects integers for {op}, got floats")

    def _wrap(self, name: str, data: Data) -> Data:
        mask = _MASKS.get(name)
        return data if mask is None else self.apply("bitwise_and", data, data.dtype.type(mask))

    def _ordered(self, x: Value, y: Value) -> tuple[Data, Data]:
        """Data whose order is that of the values."""
        if x.type != "uint64":
            return x.data, y.data
        sign = np.int64(_SIGN)
        return self.apply("bitwise_xor", x.data, sign), self.apply("bitwise_xor", y.data, sign)

    def _shift(self, op: str, x: Value, y: Value) -> Value:
        count = self.astype(self._promote(y).data, x.data.dtype.name)
        data = self.apply(_SHIFTS[op], x.data, count)
        if op == "<<":
            data = self._wrap(x.type, data)
        elif x.type == "uint64":  # zeros come in from the left
            copies = self.apply("subtract", count, np.int64(1))  # of the sign, but one
            copies = self.apply("right_shift", np.int64(_SIGN), copies)
            kept = self.apply("bitwise_and", data, self.apply("bitwise_xor", copies, np.int64(-1)))
            data = self.apply("where", self.apply("equal", count, np.int64(0)), x.data, kept)
        return Value(x.type, data, x.literal and y.literal)

    def _quotient(self, op: str, x: Value, y: Value) -> Data:
        if is_uniform(y.data) and y.data == 0:
            raise ZeroDivisionError(f"[{self._kernel}] expects a number to divide by, got 0")
        if x.type == "uint64":
            return self._unsigned_quotient(op, x.data, y.data)
        down = self.apply("floor_divide", x.data, y.data)
        if x.type == "uint32" and op == "/":
            return down
        rest = self.apply("subtract", x.data, self.apply("multiply", down, y.data))
        if x.type == "uint32":
            return rest
        # Towards zero, as in C: one more where the floor lies below.
        zero, one = x.data.dtype.type(0), x.data.dtype.type(1)
        signs = self.apply(
            "not_equal", self.apply("less", x.data, zero), self.apply("less", y.data, zero)
        )
        below = self.apply("logical_and", self.apply("not_equal", rest, zero), signs)
        if op == "/":
            return self.apply("where", below, self.apply("add", down, one), down)
        return self.apply("where", below, self.apply("subtract", rest, y.data), rest)

    def _unsigned_quotient(self, op: str, x: Data, y: Data) -> Data:
        """Of halves, whose quotient is at most one too small, or of a divisor above 2^63."""
        one = np.int64(1)
        half = self.apply("bitwise_and", self.apply("right_shift", x, one), np.int64(2**63 - 1))
        divisor = self.apply("maximum", y, one)
        low = self.apply("left_shift", self.apply("floor_divide", half, divisor), one)
        large = self.apply("less", y, np.int64(0))
        low = self.apply("where", large, np.int64(0), low)
        rest = self.apply("subtract", x, self.apply("multiply", low, y))
        enough = self.apply(
            "greater_equal", *self._ordered(Value("uint64", rest), Value("uint64", y))
        )
        if op == "/":
            return self.apply("add", low, self.astype(enough, "int64"))
        return self.apply("where", enough, self.apply("subtract", rest, y), rest)

    def _float_of_uint64(self, data: Data, name: str) -> Data:
        """Halves of large ones, whose last bit says whether bits were cut off: rounded once."""
        one = np.int64(1)
        half = self.apply("bitwise_and", self.apply("right_shift", data, one), np.int64(2**63 - 1))
        half = self.apply("bitwise_or", half, self.apply("bitwise_and", data, one))
        half = self.astype(half, name)
        large = self.apply("less", data, np.int64(0))
        return self.apply("where", large, self.apply("add", half, half), self.astype(data, name))

    def _integer_of_float(self, data: Data, name: str) -> Data:
        if _types.size_of(name) < 4:
            return self.astype(data, "int32")
        if name != "uint64":
            return self.astype(data, _types.held_by(name))
        data = self.astype(data, "float64")
        top = np.float64(2.0**63)
        high = self.astype(self.apply("subtract", data, top), "int64")
        high = self.apply("bitwise_xor", high, np.int64(_SIGN))
        large = self.apply("greater_equal", data, top)
        return self.apply("where", large, high, self.astype(data, "int64"))
