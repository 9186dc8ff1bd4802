"""Parameters of kernels, the types that a call gives them, and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chx import _core
from chx._compat import zip_strict
from chx._numpy import operands
from chx._types import Shape
from chx.kernels._arrays import Buffer
from chx.kernels._evaluator import Evaluator
from chx.kernels._parser import Source
from chx.kernels._positions import Positions
from chx.kernels._types import ARRAY_TYPES, TYPES
from chx.kernels._values import is_array


class Parameter:
    """A parameter from its text, "raw T x".

    Args:
      kernel: its name, for errors.
      text: the parameter's.
    """

    def __init__(self, kernel: str, text: str) -> None:
        words = [word for word in text.split() if word != "const"]
        self.is_raw = words[:1] == ["raw"]
        words = words[self.is_raw :]
        if len(words) < 2 or not words[-1].isidentifier():
            raise ValueError(
                f"[{kernel}] expects parameters as 'type name' or 'raw type name', got "
                f"{text.strip()!r}"
            )
        self.name = words.pop()
        self.type = " ".join(words)
        if self.type not in ARRAY_TYPES and not self.is_placeholder:
            raise ValueError(f"[{kernel}] expects a dtype or one letter, got {self.type!r}")

    @property
    def is_placeholder(self) -> bool:
        return len(self.type) == 1 and self.type.isalpha()


def parameters(kernel: str, text: str) -> list[Parameter]:
    """The parameters of a list."""
    found = [Parameter(kernel, part) for part in text.split(",") if part.strip()]
    names = [p.name for p in found]
    if len(set(names)) != len(names) or "i" in names:
        raise ValueError(f"[{kernel}] expects names that differ, and not i, got {', '.join(names)}")
    return found


class Binding:
    """The arguments of one call.

    Args:
      kernel: its name, for errors.
      params: what the arguments are for.
      args: arrays and numbers.
    """

    def __init__(self, kernel: str, params: Sequence[Parameter], args: Sequence[Any]) -> None:
        self._kernel = kernel
        self.types: dict[str, str] = {}  # of placeholders
        arrays = [a for a in args if is_array(a)]
        if arrays:
            args = [
                operands.as_operand(a, arrays) if isinstance(a, (np.ndarray, list, tuple)) else a
                for a in args
            ]
        self.args = dict(zip_strict([p.name for p in params], args))
        for p, arg in zip_strict(params, args):
            if is_array(arg):
                self._settle(p, arg.dtype.name)
            elif not isinstance(arg, (bool, int, float, np.generic)) or p.is_raw:
                wanted = "chx.ndarray" if p.is_raw else "chx.ndarray or a number"
                raise TypeError(f"[{kernel}] expects {wanted}, got {type(arg).__name__}")
        self.arrays = [a for a in args if is_array(a)]
        if not self.arrays:
            raise TypeError(f"[{kernel}] expects an array among its arguments, got none")
        self.device = self.arrays[0].device
        for p, arg in zip_strict(params, args):  # numbers settle what arrays leave open
            if p.is_placeholder and p.type not in self.types:
                self.types[p.type] = np.result_type(arg).name
        # Those that take part in broadcasting.
        self.elements = [a for p, a in zip_strict(params, args) if is_array(a) and not p.is_raw]

    def _settle(self, p: Parameter, dtype: str) -> None:
        wanted = TYPES[p.type] if not p.is_placeholder else self.types.setdefault(p.type, dtype)
        if dtype != wanted:
            raise TypeError(f"[{self._kernel}] expects {p.name} of {wanted}, got {dtype}")

    def resolve(self, name: str) -> str:
        """A type of C's by its name."""
        if name in self.types:
            return self.types[name]
        if name in TYPES:
            return TYPES[name]
        raise TypeError(f"[{self._kernel}] expects arguments that tell what {name} is")

    def shape(self) -> Shape:
        """What the arrays that are not raw broadcast to."""
        try:
            return np.broadcast_shapes(*[a.shape for a in self.elements])
        except ValueError:
            shapes = " and ".join(str(a.shape) for a in self.elements)
            raise _core.DimensionError(
                f"[{self._kernel}] expects shapes that broadcast, got {shapes}"
            ) from None

    def evaluator(self, source: Source, shape: Shape) -> Evaluator:
        """An evaluator for a shape, which knows the source and no parameters."""
        positions = Positions(shape, self.device)
        evaluator = Evaluator(self._kernel, self.device, positions, self.resolve, source.functions)
        evaluator.define(source.constants)
        return evaluator

    def declare(
        self, evaluator: Evaluator, params: Sequence[Parameter], is_written: bool
    ) -> dict[str, Buffer]:
        """Makes arguments the values of parameters; the arrays of those that are raw."""
        buffers = {}
        for p in params:
            kind, arg = self.resolve(p.type), self.args.get(p.name)
            if arg is None:
                evaluator.declare(p.name, kind, None)
            elif p.is_raw:
                buffers[p.name] = Buffer(p.name, kind, arg, is_written)
                evaluator.declare_array(p.name, buffers[p.name])
            else:
                evaluator.declare(p.name, kind, evaluator.given(arg, kind))
        return buffers


def expect(kernel: str, args: Sequence[Any], counts: Sequence[int]) -> None:
    if len(args) not in counts:
        numbers = " or ".join(map(str, counts))
        raise TypeError(f"[{kernel}] expects {numbers} arguments, got {len(args)}")
