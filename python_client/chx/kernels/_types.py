"""The types of C++ that kernels know, and how arrays hold them.

Arrays have no unsigned integers but uint8. The others are held by wider signed integers, which operators
wrap; uint64 is held by the int64 of the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

# The dtype that holds a type, where that is not its own.
_HELD_BY = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}

_SIZES = {
    "bool": 1,
    **{f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float16": 2,
    "float32": 4,
    "float64": 8,
}
_BASIC = set("unsigned signed long short int char float double".split())
QUALIFIERS = set("const volatile static constexpr inline register".split())
QUALIFIERS |= set("__restrict__ __restrict restrict".split())

# Names of one word, beside those that are made of _BASIC.
TYPES = {
    "bool": "bool",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "long long": "int64",
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "ptrdiff_t": "int64",
    "size_t": "uint64",
    "uint": "uint32",
    "ushort": "uint16",
    "uchar": "uint8",
    **{name + "_t": name for name in _SIZES if "int" in name},
    **{name: name for name in _SIZES},
}
# Those that an array may have.
ARRAY_TYPES = {name: dtype for name, dtype in TYPES.items() if dtype not in _HELD_BY}


def held_by(name: str) -> str:
    """The dtype of the arrays that hold a type's values."""
    return _HELD_BY.get(name, name)


def is_float(name: str) -> bool:
    return name.startswith("float")


def is_unsigned(name: str) -> bool:
    return name.startswith("u")


def size_of(name: str) -> int:
    """Bytes of a value."""
    return _SIZES[name]


def promoted(name: str) -> str:
    """What C computes a value of this type with: at least an int; and no half."""
    if name == "float16":
        return "float32"
    return "int32" if _SIZES[name] < 4 else name


def common(one: str, other: str) -> str:
    """The type of an operator's result, from two promoted types."""
    if is_float(one) or is_float(other):
        return max((t for t in (one, other) if is_float(t)), key=size_of)
    widest = max(size_of(one), size_of(other))
    unsigned = any(is_unsigned(t) and size_of(t) == widest for t in (one, other))
    return f"{'u' if unsigned else ''}int{8 * widest}"


def of_words(words: Sequence[str]) -> str | None:
    """The type that words such as unsigned, long and int name together; None if there is none."""
    rest = [w for w in words if w not in ("signed", "unsigned", "int")]
    if "float" in rest or "double" in rest:
        return {"float": "float32", "double": "float64"}.get(" ".join(words))
    kinds = {"": 32, "char": 8, "short": 16, "long": 64, "long long": 64}
    bits = kinds.get(" ".join(rest))
    return None if bits is None else f"{'u' if 'unsigned' in words else ''}int{bits}"


def is_basic(word: str | None) -> bool:
    return word in _BASIC
