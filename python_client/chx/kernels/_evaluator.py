"""Evaluates a kernel's trees with chx's operators, by C's rules."""

import math

import numpy as np

from chx import _core, _routines

_FLOATS = "acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor log log1p log2 log10 rint"
_FLOATS += " sin sinh sqrt square tan tanh trunc erf"
_UNARY = {
    **{name: name for name in _FLOATS.split()},
    **{"a" + name: "arc" + name for name in "cos sin tan cosh sinh tanh".split()},
    "fabs": "abs",
    "abs": "abs",
    "isnan": "isnan",
    "isinf": "isinf",
    "isfinite": "isfinite",
}
_BINARY = {
    "min": "minimum",
    "max": "maximum",
    "fmin": "fmin",
    "fmax": "fmax",
    "pow": "power",
    "powf": "power",
    "atan2": "arctan2",
    "fmod": "fmod",
    "hypot": "hypot",
}
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
_ON_NUMBERS = {
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
_CONSTANTS = {"M_PI": math.pi, "M_E": math.e, "INFINITY": math.inf, "NAN": math.nan}


def function(name):
    """An operator of chx's by its name, None if there is none."""
    return getattr(_core, name, None) or getattr(_routines, name, None)


def is_array(value):
    return isinstance(value, _core.ndarray)


def _is_integer(value):
    return value.dtype.kind in "biu" if is_array(value) else isinstance(value, (bool, int))


def convert(value, dtype):
    """A number or an array as C converts it."""
    if is_array(value):
        return value if value.dtype.name == dtype else value.astype(dtype)
    kind = np.dtype(dtype).kind
    return bool(value) if kind == "b" else int(value) if kind in "iu" else float(value)


def _promoted(value):
    """What C computes with: at least an int, and no half."""
    if not is_array(value):
        return int(value) if isinstance(value, bool) else value
    name = value.dtype.name
    if name == "float16":
        return value.astype("float32")
    return value.astype("int32") if name in ("bool", "int8", "uint8", "int16") else value


def _truth(value):
    if not is_array(value):
        return bool(value)
    return value if value.dtype.kind == "b" else _core.not_equal(value, 0)


class Evaluator:
    """Runs the statements of one call.

    Args:
      kernel: its name, for errors.
      types: the dtype's name for each variable that is declared outside.
      resolve: turns the name of a type, which may be a placeholder, into a dtype's.
      values: arrays and numbers by their names.
    """

    def __init__(self, kernel, types, resolve, values):
        self._kernel = kernel
        self._types = dict(types)
        self._resolve = resolve
        self.values = values

    def run(self, statements):
        for statement in statements:
            if statement[0] == "if":
                self._branch(*statement[1:])
                continue
            _, declared, name, tree = statement
            if declared is not None:
                self._types[name] = declared
            elif name not in self._types:
                raise NameError(f"[{self._kernel}] expects a variable that is declared, got {name}")
            self.values[name] = convert(self.value(tree), self._resolve(self._types[name]))

    def _branch(self, condition, then, otherwise):
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
                self.values[name] = (
                    a if b is None else b if a is None else self._where(condition, a, b)
                )

    def value(self, tree):
        return getattr(self, "_" + tree[0])(*tree[1:])

    def _number(self, value):
        return value

    def _name(self, name):
        if name in self.values:
            return self.values[name]
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        raise NameError(f"[{self._kernel}] expects a variable that has a value, got {name}")

    def _cast(self, dtype, tree):
        return convert(self.value(tree), self._resolve(dtype))

    def _unary(self, op, tree):
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

    def _choose(self, condition, yes, no):
        condition = _truth(self.value(condition))
        if not is_array(condition):
            return self.value(yes if condition else no)
        return self._where(condition, self.value(yes), self.value(no))

    def _where(self, condition, yes, no):
        if not is_array(yes) and not is_array(no):
            whole = _is_integer(yes) and _is_integer(no)
            dtype = "int64" if whole else "float64"
            yes = _core.full(condition.shape, yes, dtype, condition.device)
        return _core.where(condition, yes, no)

    def _binary(self, op, left, right):
        if op in ("&&", "||"):
            x, y = _truth(self.value(left)), _truth(self.value(right))
            if not is_array(x) and not is_array(y):
                return x and y if op == "&&" else x or y
            return function("logical_and" if op == "&&" else "logical_or")(*_both(x, y))
        x, y = _promoted(self.value(left)), _promoted(self.value(right))
        if op in ("/", "%"):
            return self._quotient(op, x, y)
        if op in _BITS:
            self._expect_integers(op, x, y)
        if not is_array(x) and not is_array(y):
            return _ON_NUMBERS[op](x, y)
        return function(_ARITHMETIC.get(op) or _COMPARISONS.get(op) or _BITS[op])(x, y)

    def _expect_integers(self, op, *values):
        if not all(_is_integer(v) for v in values):
            raise TypeError(f"[{self._kernel}] expects integers for {op}, got floats")

    def _quotient(self, op, x, y):
        whole = _is_integer(x) and _is_integer(y)
        if op == "%":
            self._expect_integers(op, x, y)
        if not is_array(x) and not is_array(y):
            if y == 0:
                raise ZeroDivisionError(f"[{self._kernel}] expects numbers to divide by, got 0")
            if not whole:
                return x / y
            return math.trunc(math.fmod(x, y)) if op == "%" else (x - int(math.fmod(x, y))) // y
        if not whole:
            return _core.true_divide(x, y)
        # Towards zero, as in C.
        rest = function("fmod")(*_both(x, y))
        return rest if op == "%" else _core.floor_divide(_core.subtract(x, rest), y)

    def _call(self, name, trees):
        values = [_promoted(self.value(tree)) for tree in trees]
        name = name[:-1] if name not in _UNARY and name[:-1] in _UNARY and name[-1] == "f" else name
        if name == "rsqrt" and len(values) == 1:
            return self._apply("reciprocal", [self._apply("sqrt", values)])
        if name in _UNARY and len(values) == 1:
            return self._apply(_UNARY[name], values)
        if name in _BINARY and len(values) == 2:
            return self._apply(_BINARY[name], values)
        raise NameError(
            f"[{self._kernel}] expects a function of C's mathematics, got {name} of {len(values)}"
        )

    def _apply(self, name, values):
        if any(is_array(v) for v in values):
            return function(name)(*(_both(*values) if len(values) == 2 else values))
        if name == "erf":
            return math.erf(*values)
        return getattr(np, name)(*values).item()


def _both(x, y):
    """Two arrays: not every function has a form for numbers."""
    if is_array(x) and is_array(y):
        return x, y
    if not is_array(x):
        y, x = _both(y, x)
        return x, y
    if x.dtype.kind in "biu" and isinstance(y, float):
        x = x.astype("float64")
    return x, _core.full_like(x, y)
