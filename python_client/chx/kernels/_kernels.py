"""Elementwise kernels."""

from __future__ import annotations

import functools
from typing import Any

from chx import _core
from chx._compat import zip_strict
from chx._core import ndarray
from chx._types import Shape
from chx.kernels._evaluator import Evaluator
from chx.kernels._parameters import Binding, Parameter, expect, parameters
from chx.kernels._parser import Source
from chx.kernels._values import is_array


class Kernel:
    """What elementwise and reduction kernels share: parameters and a preamble."""

    def __init__(self, in_params: str, out_params: str, name: str, preamble: str) -> None:
        if not name.isidentifier():
            raise ValueError(f"[kernel] expects an identifier as name, got {name!r}")
        self.name = name
        self._in = parameters(name, in_params)
        self._out = parameters(name, out_params)
        both = self._in + self._out
        if not self._in or not self._out:
            raise ValueError(f"[{name}] expects parameters and results, got none")
        names = [p.name for p in both]
        if len(set(names)) != len(names):
            raise ValueError(f"[{name}] expects names that differ, got {', '.join(names)}")
        self._placeholders = {p.type: p.type for p in both if p.is_placeholder}
        plain = {p.name for p in both if not p.is_raw}
        self._source = Source(name, self._placeholders, plain)
        self._source.define(preamble)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def _results_of(
        self, evaluator: Evaluator, params: list[Parameter], shape: Shape, others: list[Any]
    ) -> list[ndarray]:
        """What the results that are not raw have become; no array of the caller's."""
        results: list[ndarray] = []
        for p in params:
            value = evaluator.on_device(p.name)
            if value is None:
                raise NameError(f"[{self.name}] expects an operation that assigns {p.name}")
            if value.shape != shape:
                value = _core.broadcast_to(value, shape).copy()
            elif any(value is other for other in (*others, *results)):
                value = value.copy()
            results.append(value)
        return results


class ElementwiseKernel(Kernel):
    """Computes each element of its results from the elements of its arguments.

    Args:
      in_params: "type name, ...": a dtype's or C type's name, or one letter for a dtype that the
        arguments tell. "raw type name" is a whole array: `name[k]` is its element k in C order, and
        `name[k]` with an array of ints the one at these indexes. It has `size()` and `shape()`.
      out_params: as in_params; all that are not raw have the arguments' broadcast shape.
      operation: statements of C++: variables, assignments, if, ?:, for, while, do, break, continue, C's
        mathematics, atomicAdd, atomicMax and atomicMin. `i` is the element's position in the results
        in C order, `_ind.get()[k]` its index along axis k, `_ind.size()` the number of elements. It
        computes by C's rules: integers divide towards zero, float16 is computed as float32,
        assignments convert. A literal does not make float32 double. Both sides of ?: and if are
        computed where elements differ; so gradients of a side that is not taken may be NaN. A loop
        ends after at most 65,536 turns, and a call after 2,000,000 steps.
      name: for errors.
      preamble: functions (without recursion), constants, macros and types that the operation uses.

    Raises:
      ValueError: the texts are more than that.
    """

    def __init__(
        self,
        in_params: str,
        out_params: str,
        operation: str,
        name: str = "kernel",
        preamble: str = "",
    ) -> None:
        super().__init__(in_params, out_params, name, preamble)
        self._operation = self._source.statements(operation)

    def __call__(
        self, *args: ndarray | float, size: int | None = None
    ) -> ndarray | tuple[ndarray, ...]:
        """The result, or a tuple of several.

        Args:
          args: arrays of one device and numbers; after them there may be an array for each result,
            which the operation may read and which is written. Results that are raw must be there.
          size: how many elements there are, if all arrays are raw.

        Raises:
          TypeError: number, types or dtypes of the arguments don't fit the parameters.
          DimensionError: the arguments' shapes don't broadcast, or not to that of a result.
          NameError: a variable has no value.
          IndexError: an index is not within its array. Nothing has been written.
          RuntimeError: a loop has too many turns, or the call too many steps. Nothing has been written.
        """
        raw = any(p.is_raw for p in self._out)
        both = self._in + self._out
        expect(self.name, args, (len(both),) if raw else (len(self._in), len(both)))
        outs: list[ndarray] = [arg for arg in args[len(self._in) :] if is_array(arg)]
        if len(outs) < len(args) - len(self._in):
            raise TypeError(f"[{self.name}] expects chx.ndarray for results, got numbers")
        binding = Binding(self.name, both if outs else self._in, args)
        shape = self._shape(binding, size)
        plain = [p for p in self._out if not p.is_raw]
        for p in plain:
            if outs and binding.args[p.name].shape != shape:
                raise _core.DimensionError(f"[{self.name}] expects results of shape {shape}")
        evaluator = binding.evaluator(self._source, shape)
        evaluator.positions.add("i", evaluator.positions.flat)
        binding.declare(evaluator, self._in, False)
        buffers = binding.declare(evaluator, self._out, True)
        evaluator.run(self._operation)
        results = self._results_of(evaluator, plain, shape, list(binding.args.values()))
        if not outs:
            return results[0] if len(results) == 1 else tuple(results)
        for p, value in zip_strict(plain, results):
            _core.copyto(binding.args[p.name], value)
        for name, buffer in buffers.items():
            if buffer.is_changed:
                _core.copyto(binding.args[name], buffer.result())
        return outs[0] if len(outs) == 1 else tuple(outs)

    def _shape(self, binding: Binding, size: int | None) -> Shape:
        if binding.elements:
            if size is not None:
                raise ValueError(
                    f"[{self.name}] expects size only if all arrays are raw, got {size}"
                )
            return binding.shape()
        if size is None or size < 0:
            raise ValueError(f"[{self.name}] expects size, as all arrays are raw, got {size}")
        return (size,)


# The same kernel for the same arguments, parsed once.
elementwise = functools.lru_cache(maxsize=1024)(ElementwiseKernel)
