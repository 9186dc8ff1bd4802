"""What a row of the conformance table is.

A row says how an operator is called and what NumPy makes of the same inputs. Everything else follows
from it: dtypes, layouts, gradients and double gradients are checked for every row alike, on every
device that there is.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

FLOATS = ("float16", "float32", "float64")
INTS = ("int8", "int16", "int32", "int64", "uint8")
ALL = ("bool", *INTS, *FLOATS)

ROWS: list["Row"] = []


@dataclasses.dataclass
class Row:
    """One way of calling one operator.

    op: the operator's name in the registry.
    call: (chx module, arrays) -> array or sequence of arrays.
    ref: arrays as NumPy arrays -> NumPy array or sequence; computed in float64 where the result is a
      float, and then cast to the result's dtype.
    shapes: the inputs' shapes.
    dtypes: for each input the dtypes it is tried with; all inputs take the i-th of theirs together
      with the first of the others'.
    grad: which inputs have gradients to check.
    double: whether double gradients are checked too.
    domain: (low, high) of random values, or a function rng, shape -> values, per input or for all.
    exact: no tolerance.
    same_dtypes: inputs take one dtype together.
    """

    op: str
    call: Callable[..., Any]
    ref: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]]
    dtypes: Sequence[Sequence[str]] = ()
    grad: Sequence[int] = ()
    double: bool = True
    domain: Any = (-2.0, 2.0)
    exact: bool = False
    same_dtypes: bool = True
    name: str = ""

    def __post_init__(self):
        if not self.dtypes:
            self.dtypes = [FLOATS] * len(self.shapes)
        if not self.name:
            self.name = f"{self.op}-{'-'.join('x'.join(map(str, s)) or '0d' for s in self.shapes)}"


def row(*args, **kwargs):
    ROWS.append(Row(*args, **kwargs))


def values(rng, shape, dtype, domain):
    """Random values of a dtype."""
    if callable(domain):
        return np.asarray(domain(rng, shape)).astype(dtype)
    low, high = domain
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        low = max(low, 0) if dtype.kind == "u" else low
        return rng.integers(int(np.floor(low)), int(np.ceil(high)) + 1, shape).astype(dtype)
    return rng.uniform(low, high, shape).astype(dtype)
