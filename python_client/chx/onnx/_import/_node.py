"""One node of a graph as its operator sees it, and constants known in the client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import chx

Value = Any  # an array, a Constant, a list (a sequence), or None (an empty optional)


class Constant:
    """An array whose elements the client knows; the daemon gets it where an operator needs it."""

    __slots__ = ("value", "_array")

    def __init__(self, value: Any) -> None:
        self.value = np.asarray(value)
        self._array: chx.ndarray | None = None

    def array(self) -> chx.ndarray:
        device = chx.get_default_device()
        if self._array is None or self._array.device is not device:
            self._array = chx.array(self.value)
        return self._array


def to_array(value: Value) -> Any:
    """The value with constants as arrays."""
    return value.array() if isinstance(value, Constant) else value


class Node:
    """A node with its attributes and the values of its inputs.

    `node[i]` is an input as an array, None where it is left out; `node.host(i)` its elements in the
    client, which waits for what the client does not know.
    """

    def __init__(
        self,
        label: str,
        op: str,
        version: int,
        attributes: dict[str, Any],
        inputs: Sequence[Value],
        outputs: Sequence[str],
        call: Callable[..., list[Value]],
    ) -> None:
        self.label = label
        self.op = op
        self.version = version
        self.attributes = attributes
        self.inputs = inputs
        self.outputs = outputs
        self.call = call
        """Runs a subgraph of the node: call(graph, inputs) -> outputs."""

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> Any:
        if index >= len(self.inputs):
            return None
        return to_array(self.inputs[index])

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def wants(self, index: int) -> bool:
        """Whether an output is used."""
        return index < len(self.outputs) and self.outputs[index] != ""

    def arrays(self) -> list[Any]:
        return [to_array(value) for value in self.inputs]

    def array(self, index: int) -> chx.ndarray:
        """An input that may not be left out."""
        value = self[index]
        if not isinstance(value, chx.ndarray):
            raise self.error(f"an array as input {index}", type(value).__name__)
        return value

    def host(self, index: int) -> Any:
        """The elements of an input as a NumPy array; None where it is left out."""
        if not self.has(index):
            return None
        value = self.inputs[index]
        return value.value if isinstance(value, Constant) else chx.to_numpy(self.array(index))

    def ints(self, index: int) -> list[int] | None:
        """An integer input as a list; None where it is left out."""
        value = self.host(index)
        if value is None:
            return None
        if value.dtype.kind not in "iu":
            raise self.error(f"integers as input {index}", value.dtype)
        return [int(x) for x in value.ravel()]

    def number(self, index: int, default: Any = None) -> Any:
        """A scalar input as a Python number."""
        value = self.host(index)
        if value is None:
            return default
        if value.size != 1:
            raise self.error(f"one element as input {index}", f"shape {value.shape}")
        return value.reshape(()).item()

    def attr(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def ints_of(self, name: str, index: int) -> list[int] | None:
        """Integers that are an attribute in old operator sets, and an input in newer ones."""
        if name in self.attributes:
            return list(self.attributes[name])
        return self.ints(index)

    def axis(self, ndim: int, default: int = 0, name: str = "axis") -> int:
        """An axis, counted from the front."""
        return self.checked_axis(self.attr(name, default), ndim)

    def checked_axis(self, axis: int, ndim: int) -> int:
        if not -ndim <= axis < max(ndim, 1):
            raise self.error(f"an axis of {ndim} dimensions", axis)
        return axis + ndim if axis < 0 else axis

    def error(self, expects: str, got: Any) -> ValueError:
        return ValueError(f"[{self.op}] expects {expects}, got {got} ({self.label})")
