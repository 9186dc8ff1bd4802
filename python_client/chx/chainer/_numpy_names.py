"""Names that Chainer 7.8.1 and programs of its time use of NumPy, and that NumPy has dropped.

NumPy 1.24 dropped its aliases of Python's types, NumPy 2 more. Each is supplied if it is missing,
with the meaning that it had, for the whole process; nothing on disk is changed.
"""

import builtins

import numpy as np

# The aliases of builtins (NumPy 1.20 deprecated them, 1.24 dropped them).
_ALIASES = {name: getattr(builtins, name) for name in ("bool", "int", "float", "complex", "object")}
_ALIASES |= {"str": str, "long": int, "unicode": str}

# What NumPy 2 dropped.
_DROPPED = {
    "float_": np.float64,
    "complex_": np.complex128,
    "string_": np.bytes_,
    "unicode_": np.str_,
    "Inf": np.inf,
    "Infinity": np.inf,
    "infty": np.inf,
    "PINF": np.inf,
    "NINF": -np.inf,
    "NaN": np.nan,
    "NAN": np.nan,
    "PZERO": 0.0,
    "NZERO": -0.0,
    "asfarray": lambda a, dtype=np.float64: np.asarray(a, dtype),
    "product": np.prod,
    "cumproduct": np.cumprod,
    "sometrue": np.any,
    "alltrue": np.all,
    "round_": np.round,
    "asscalar": lambda a: a.item(),
    "sctypes": {
        "int": [np.int8, np.int16, np.int32, np.int64],
        "uint": [np.uint8, np.uint16, np.uint32, np.uint64],
        "float": [np.float16, np.float32, np.float64, np.longdouble],
        "complex": [np.complex64, np.complex128, np.clongdouble],
        "others": [bool, object, bytes, str, np.void],
    },
}


def supply():
    """Sets the names that this NumPy lacks. Returns them."""
    supplied = []
    for name, value in (_ALIASES | _DROPPED).items():
        # Not hasattr: the versions that deprecate a name warn when asked for it.
        if name not in vars(np):
            setattr(np, name, value)
            supplied.append(name)
    return supplied
