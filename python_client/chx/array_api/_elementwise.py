"""Functions of one element, or of two that broadcast. Either of two may be a Python number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

import numpy as np

from chx import _core
from chx._compat import TypeAlias
from chx._core import ndarray
from chx._types import Scalar
from chx.array_api import _dtypes

_Unary: TypeAlias = Callable[[ndarray], ndarray]
Operand: TypeAlias = Union[ndarray, Scalar]
_Binary: TypeAlias = Callable[[Operand, Operand], ndarray]


def _unary(
    operator: Callable[[ndarray], ndarray], name: str, doc: str, keeps_integers: bool = False
) -> _Unary:
    def function(x: ndarray, /) -> ndarray:
        if keeps_integers and x.dtype.kind in "iu":
            return _core.copy(x)
        return operator(x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _binary(operator: Callable[[Any, Any], ndarray], name: str, doc: str) -> _Binary:
    def function(x1: Operand, x2: Operand, /) -> ndarray:
        return operator(x1, x2)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _shift(operator: Callable[[Any, Any], ndarray], name: str, doc: str) -> _Binary:
    def function(x1: Operand, x2: Operand, /) -> ndarray:
        # The operators keep x1's dtype, as ChainerX does.
        if isinstance(x1, _core.ndarray):
            x1 = x1.astype(_dtypes.result_type(x1, x2), copy=False)
        return operator(x1, x2)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


abs = _unary(_core.abs, "abs", "The absolute value.")
acos = _unary(_core.arccos, "acos", "The inverse cosine, in [0, pi].")
acosh = _unary(_core.arccosh, "acosh", "The inverse hyperbolic cosine.")
asin = _unary(_core.arcsin, "asin", "The inverse sine, in [-pi/2, pi/2].")
asinh = _unary(_core.arcsinh, "asinh", "The inverse hyperbolic sine.")
atan = _unary(_core.arctan, "atan", "The inverse tangent, in [-pi/2, pi/2].")
atanh = _unary(_core.arctanh, "atanh", "The inverse hyperbolic tangent.")
bitwise_invert = _unary(_core.invert, "bitwise_invert", "Each bit inverted; of bools, not.")
ceil = _unary(_core.ceil, "ceil", "Up to a whole number; integers stay.", keeps_integers=True)
conj = _unary(_core.copy, "conj", "A copy: there are no complex arrays.")
cos = _unary(_core.cos, "cos", "The cosine.")
cosh = _unary(_core.cosh, "cosh", "The hyperbolic cosine.")
exp = _unary(_core.exp, "exp", "e to the power of x.")
expm1 = _unary(_core.expm1, "expm1", "exp(x) - 1, exact for small x.")
floor = _unary(_core.floor, "floor", "Down to a whole number; integers stay.", keeps_integers=True)
imag = _unary(_core.zeros_like, "imag", "Zeros: there are no complex arrays.")
isfinite = _unary(_core.isfinite, "isfinite", "Whether neither infinite nor NaN.")
isinf = _unary(_core.isinf, "isinf", "Whether infinite.")
isnan = _unary(_core.isnan, "isnan", "Whether NaN.")
log = _unary(_core.log, "log", "The natural logarithm.")
log10 = _unary(_core.log10, "log10", "The logarithm to base 10.")
log1p = _unary(_core.log1p, "log1p", "log(1 + x), exact for small x.")
log2 = _unary(_core.log2, "log2", "The logarithm to base 2.")
logical_not = _unary(_core.logical_not, "logical_not", "Whether false, or zero.")
negative = _unary(_core.negative, "negative", "-x")
positive = _unary(_core.copy, "positive", "A copy.")
real = _unary(_core.copy, "real", "A copy: there are no complex arrays.")
reciprocal = _unary(_core.reciprocal, "reciprocal", "1 / x")
round = _unary(
    _core.rint, "round", "To the nearest whole number, halves to even.", keeps_integers=True
)
sign = _unary(_core.sign, "sign", "-1, 0 or 1; NaN of NaN.")
signbit = _unary(
    _core.signbit, "signbit", "Whether the sign bit is set: of negative numbers and -0.0."
)
sin = _unary(_core.sin, "sin", "The sine.")
sinh = _unary(_core.sinh, "sinh", "The hyperbolic sine.")
sqrt = _unary(_core.sqrt, "sqrt", "The square root.")
square = _unary(_core.square, "square", "x * x")
tan = _unary(_core.tan, "tan", "The tangent.")
tanh = _unary(_core.tanh, "tanh", "The hyperbolic tangent.")
trunc = _unary(
    _core.trunc, "trunc", "Towards zero to a whole number; integers stay.", keeps_integers=True
)

add = _binary(_core.add, "add", "x1 + x2")
atan2 = _binary(_core.arctan2, "atan2", "The angle of the point (x2, x1), in [-pi, pi].")
bitwise_and = _binary(_core.bitwise_and, "bitwise_and", "x1 & x2")
bitwise_left_shift = _shift(_core.left_shift, "bitwise_left_shift", "x1 << x2")
bitwise_or = _binary(_core.bitwise_or, "bitwise_or", "x1 | x2")
bitwise_right_shift = _shift(_core.right_shift, "bitwise_right_shift", "x1 >> x2")
bitwise_xor = _binary(_core.bitwise_xor, "bitwise_xor", "x1 ^ x2")
copysign = _binary(_core.copysign, "copysign", "x1 with the sign of x2.")
divide = _binary(_core.divide, "divide", "x1 / x2; of integers, floats.")
equal = _binary(_core.equal, "equal", "x1 == x2")
floor_divide = _binary(_core.floor_divide, "floor_divide", "x1 // x2, rounded down.")
greater = _binary(_core.greater, "greater", "x1 > x2")
greater_equal = _binary(_core.greater_equal, "greater_equal", "x1 >= x2")
hypot = _binary(_core.hypot, "hypot", "sqrt(x1 ** 2 + x2 ** 2) without overflow.")
less = _binary(_core.less, "less", "x1 < x2")
less_equal = _binary(_core.less_equal, "less_equal", "x1 <= x2")
logaddexp = _binary(_core.logaddexp, "logaddexp", "log(exp(x1) + exp(x2)) without overflow.")
logical_and = _binary(_core.logical_and, "logical_and", "Whether both are true.")
logical_or = _binary(_core.logical_or, "logical_or", "Whether one is true.")
logical_xor = _binary(_core.logical_xor, "logical_xor", "Whether exactly one is true.")
maximum = _binary(_core.maximum, "maximum", "The greater one; NaN if one is.")
minimum = _binary(_core.minimum, "minimum", "The smaller one; NaN if one is.")
multiply = _binary(_core.multiply, "multiply", "x1 * x2")
nextafter = _binary(_core.nextafter, "nextafter", "The next float after x1 on the way to x2.")
not_equal = _binary(_core.not_equal, "not_equal", "x1 != x2")
pow = _binary(_core.power, "pow", "x1 ** x2")
remainder = _binary(_core.remainder, "remainder", "x1 % x2, with the sign of x2.")
subtract = _binary(_core.subtract, "subtract", "x1 - x2")


def clip(
    x: ndarray, /, min: Scalar | ndarray | None = None, max: Scalar | ndarray | None = None
) -> ndarray:
    """The elements limited to [min, max], which may be numbers or arrays that broadcast with x.

    The result has x's dtype. TypeError if an integer array is to have bounds that are no integers.
    """
    for bound, limit in ((min, _core.maximum), (max, _core.minimum)):
        if bound is None:
            continue
        whole = (bound.dtype.kind if isinstance(bound, _core.ndarray) else _kind(bound)) in "iu"
        if x.dtype.kind in "iu" and not whole:
            raise TypeError("[clip] expects integers as bounds of integers")
        x = limit(x, bound).astype(x.dtype, copy=False)
    return _core.copy(x) if min is None and max is None else x


def _kind(number: Scalar) -> str:
    return np.asarray(number).dtype.kind
