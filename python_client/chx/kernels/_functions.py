"""The functions and constants of C's mathematics that kernels know."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chx.kernels import _types

_SAME = (
    "ceil cos cosh cbrt exp exp2 expm1 floor log log1p log2 log10 rint sin sinh sqrt tan tanh trunc"
)
# Of one float: the operator. Those of integers convert them to double.
UNARY = {
    **{name: name for name in _SAME.split()},
    **{"a" + name: "arc" + name for name in "cos sin tan cosh sinh tanh".split()},
    "erf": "erf",
    "fabs": "abs",
    "nearbyint": "rint",
    "isnan": "isnan",
    "isinf": "isinf",
    "isfinite": "isfinite",
    "signbit": "signbit",
}
BINARY = {
    "fmin": "fmin",
    "fmax": "fmax",
    "pow": "power",
    "atan2": "arctan2",
    "fmod": "fmod",
    "hypot": "hypot",
    "copysign": "copysign",
    "fdivide": "true_divide",
}
# Made of several operators.
COMPOSED = {"rsqrt": 1, "exp10": 1, "round": 1, "lround": 1, "llround": 1, "lrint": 1, "llrint": 1}
# Of any numbers.
OF_ANY = {"abs": 1, "labs": 1, "llabs": 1, "min": 2, "max": 2}
PREDICATES = frozenset("isnan isinf isfinite signbit".split())

# Without a type: they take that of what they meet, as other literals do.
CONSTANTS: dict[str, tuple[float, str | None]] = {
    "M_PI": (math.pi, None),
    "M_PI_2": (math.pi / 2, None),
    "M_E": (math.e, None),
    "M_LN2": (math.log(2), None),
    "M_SQRT2": (math.sqrt(2), None),
    "INFINITY": (math.inf, None),
    "NAN": (math.nan, None),
    "FLT_MAX": (float(np.finfo("f").max), "float32"),
    "FLT_MIN": (float(np.finfo("f").tiny), "float32"),
    "FLT_EPSILON": (float(np.finfo("f").eps), "float32"),
    "DBL_MAX": (float(np.finfo("d").max), "float64"),
    "DBL_MIN": (float(np.finfo("d").tiny), "float64"),
    "DBL_EPSILON": (float(np.finfo("d").eps), "float64"),
    "INT_MAX": (2**31 - 1, "int32"),
    "INT_MIN": (-(2**31), "int32"),
    "UINT_MAX": (2**32 - 1, "uint32"),
    "LLONG_MAX": (2**63 - 1, "int64"),
    "LLONG_MIN": (-(2**63), "int64"),
}


def plain_name(name: str) -> tuple[str, bool]:
    """A function's name without CUDA's underscores and float's suffix; whether it had that suffix."""
    plain = name[2:] if name.startswith("__") else name
    if plain in UNARY or plain in BINARY or plain in COMPOSED or plain in OF_ANY:
        return plain, False
    return (plain[:-1], True) if plain.endswith("f") else (plain, False)


def arity_of(name: str) -> int | None:
    """How many arguments a function of C's has; None if kernels don't have it."""
    if name in OF_ANY:
        return OF_ANY[name]
    plain, _ = plain_name(name)
    if plain in UNARY or plain in BINARY:
        return 1 if plain in UNARY else 2
    return COMPOSED.get(plain)


def limit(name: str, which: str) -> float | None:
    """std::numeric_limits<name>::which(); None if there is no such limit."""
    if not _types.is_float(name):
        bits = 8 * _types.size_of(name)
        unsigned = _types.is_unsigned(name)
        least = 0 if unsigned else -(2 ** (bits - 1))
        most = 1 if name == "bool" else 2 ** (bits - (not unsigned)) - 1
        least = 0 if name == "bool" else least
        return {"max": most, "min": least, "lowest": least}.get(which)
    info = np.finfo(name)
    values: dict[str, Any] = {
        "max": info.max,
        "min": info.tiny,
        "lowest": info.min,
        "epsilon": info.eps,
        "infinity": math.inf,
        "quiet_NaN": math.nan,
    }
    value = values.get(which)
    return None if value is None else float(value)
