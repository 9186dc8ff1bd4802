"""Raw kernels: functions of CUDA's whose threads are independent."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chx import _core
from chx._compat import zip_strict
from chx._core import ndarray
from chx.kernels._arrays import Buffer
from chx.kernels._evaluator import Evaluator
from chx.kernels._expression_values import Variable
from chx.kernels._parser import Function, Source
from chx.kernels._positions import Positions
from chx.kernels._types import held_by
from chx.kernels._values import is_array

# As on CUDA devices.
_MAX_BLOCK = 1024
_MAX_THREADS = 2**31 - 1


class RawKernel:
    """A function of a source of CUDA, run by all threads of a grid.

    Its threads are independent: they share no memory and wait for none. Statements take place in all
    threads before the next one does.

    Args:
      code: functions, constants, macros and types. Operations are those of ElementwiseKernel;
        threadIdx, blockIdx, blockDim and gridDim have x, y and z. Pointers lead into one array each.
      name: the function's; it is __global__, and none of its parameters a reference.
      options, backend and so on: as CuPy's; kernels need none.

    Raises:
      ValueError: the code is more than that.
    """

    def __init__(
        self,
        code: str,
        name: str,
        options: Sequence[str] = (),
        backend: str = "nvrtc",
        **others: Any,
    ) -> None:
        self.name = name
        self.code = code
        self._source = Source(name, {})
        self._source.define(code)
        function = self._source.functions.get(name)
        if function is None or not function.is_kernel:
            raise ValueError(f"[{name}] expects a __global__ function {name}, got none in the code")
        if function.returns is not None or function.templates:
            raise ValueError(f"[{name}] expects a function that returns void and is no template")
        if any(p.is_reference for p in function.parameters):
            raise ValueError(f"[{name}] expects values and pointers as parameters, got a reference")
        self._function: Function = function

    def __repr__(self) -> str:
        return f"<RawKernel {self.name}>"

    def __call__(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        args: Sequence[ndarray | float],
        shared_mem: int = 0,
    ) -> None:
        """Runs it, and writes to the arrays among its arguments.

        Args:
          grid, block: how many blocks there are, and threads in each: an int or up to three.
          args: an array for each pointer, and numbers. The elements of an array are those in C order,
            whatever its strides.
          shared_mem: is not used.

        Raises:
          TypeError: number, types or dtypes of the arguments don't fit the parameters.
          ValueError: there are too many threads.
          IndexError: an index is not within its array. Nothing has been written.
          RuntimeError: a loop has too many turns, or the call too many steps. Nothing has been written.
        """
        del shared_mem
        if len(args) != len(self._function.parameters):
            raise TypeError(
                f"[{self.name}] expects {len(self._function.parameters)} arguments, got {len(args)}"
            )
        arrays = [a for a in args if is_array(a)]
        if not arrays:
            raise TypeError(f"[{self.name}] expects an array among its arguments, got none")
        sizes = {"grid": self._three("grid", grid), "block": self._three("block", block)}
        if math.prod(sizes["block"]) > _MAX_BLOCK:
            raise ValueError(f"[{self.name}] expects at most {_MAX_BLOCK} threads in a block")
        positions = self._positions(sizes, arrays[0])
        evaluator = Evaluator(
            self.name, arrays[0].device, positions, self._resolve, self._source.functions
        )
        evaluator.define(self._source.constants)
        buffers: dict[int, Buffer] = {}
        variables = {}
        for p, arg in zip_strict(self._function.parameters, args):
            kind = self._resolve(p.type)
            if p.is_pointer:
                variables[p.name] = evaluator.pointer(self._buffer(p.name, kind, arg, buffers))
            elif is_array(arg) or not isinstance(arg, (bool, int, float, np.generic)):
                raise TypeError(
                    f"[{self.name}] expects a number for {p.name}, got {type(arg).__name__}"
                )
            else:
                variables[p.name] = Variable(kind, evaluator.given(arg, kind))
        evaluator.call_kernel(self._function, variables)
        for array in arrays:
            buffer = buffers.pop(id(array), None)
            if buffer is not None and buffer.is_changed:
                _core.copyto(array, buffer.result())

    def _resolve(self, name: str) -> str:
        return name

    def _buffer(self, name: str, kind: str, array: Any, buffers: dict[int, Buffer]) -> Buffer:
        if not is_array(array):
            raise TypeError(
                f"[{self.name}] expects chx.ndarray for {name}, got {type(array).__name__}"
            )
        if array.dtype.name != held_by(kind):
            raise TypeError(f"[{self.name}] expects {name} of {kind}, got {array.dtype.name}")
        return buffers.setdefault(id(array), Buffer(name, kind, array, True))

    def _three(self, what: str, sizes: int | tuple[int, ...]) -> tuple[int, ...]:
        given = (sizes,) if isinstance(sizes, (int, np.integer)) else tuple(sizes)
        if not 1 <= len(given) <= 3 or not all(int(n) == n and n >= 1 for n in given):
            raise ValueError(
                f"[{self.name}] expects one to three positive {what} sizes, got {sizes}"
            )
        return tuple(int(n) for n in given) + (1,) * (3 - len(given))

    def _positions(self, sizes: dict[str, tuple[int, ...]], array: ndarray) -> Positions:
        """Blocks come first, and x is the fastest of each three."""
        dims = [("blockIdx." + axis, n) for axis, n in zip("zyx", reversed(sizes["grid"]))]
        dims += [("threadIdx." + axis, n) for axis, n in zip("zyx", reversed(sizes["block"]))]
        if math.prod(n for _, n in dims) > _MAX_THREADS:
            raise ValueError(f"[{self.name}] expects at most {_MAX_THREADS} threads")
        names = [name for name, n in dims if n > 1]
        positions = Positions(tuple(n for _, n in dims if n > 1), array.device)
        for name, n in dims:
            if n > 1:
                make = functools.partial(positions.along, names.index(name), "uint32")
            else:
                make = functools.partial(positions.constant, 0, "uint32")
            positions.add(name, make)
        for what, three in sizes.items():
            for axis, n in zip("xyz", three):
                positions.add(
                    f"{what}Dim.{axis}", functools.partial(positions.constant, n, "uint32")
                )
        return positions


@functools.lru_cache(maxsize=1024)
def raw(
    code: str, name: str, options: Sequence[str] = (), backend: str = "nvrtc", **others: Any
) -> RawKernel:
    """The RawKernel of these arguments; the same for the same ones, parsed once."""
    return RawKernel(code, name, options, backend, **others)
