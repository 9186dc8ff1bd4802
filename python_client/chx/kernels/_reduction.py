"""Reduction kernels."""

from __future__ import annotations

import ast
import functools
import math
from typing import Any

from chx import _core
from chx._compat import zip_strict
from chx._core import ndarray
from chx.kernels._kernels import Kernel
from chx.kernels._parameters import Binding, expect
from chx.kernels._types import ARRAY_TYPES, held_by
from chx.kernels._values import Value, is_array


class ReductionKernel(Kernel):
    """Computes a value of each element, and one of all that lie along axes.

    Args:
      in_params, out_params: as ElementwiseKernel's; no result is raw.
      map_expr: an expression of an element's arguments. `_j` is the element's position in C order.
      reduce_expr: an expression of `a` and `b`, two such values; associative and commutative.
      post_map_expr: statements that assign the results from `a`; raw parameters and numbers are there,
        too.
      identity: the value of no elements, a number or its text; None if there is none.
      name: for errors.
      reduce_type: the type of a and b; that of the first result if None.
      preamble: as ElementwiseKernel's.

    A sum is the device's; others are made by halves, in log2(elements) steps.

    Raises:
      ValueError: the expressions are more than ElementwiseKernel knows.
    """

    def __init__(
        self,
        in_params: str,
        out_params: str,
        map_expr: str,
        reduce_expr: str,
        post_map_expr: str,
        identity: float | str | None,
        name: str = "kernel",
        reduce_type: str | None = None,
        preamble: str = "",
    ) -> None:
        super().__init__(in_params, out_params, name, preamble)
        if any(p.is_raw for p in self._out):
            raise ValueError(f"[{name}] expects results that are not raw")
        self._map = self._source.expression(map_expr)
        self._reduce = self._source.expression(reduce_expr)
        self._post = self._source.statements(post_map_expr)
        self._identity = self._number(identity)
        self._type = reduce_type or self._out[0].type
        if self._type not in ARRAY_TYPES and self._type not in self._placeholders:
            raise ValueError(f"[{name}] expects a dtype as reduce_type, got {reduce_type!r}")

    def _number(self, identity: float | str | None) -> Any:
        if not isinstance(identity, str):
            return identity
        try:
            return ast.literal_eval(identity.rstrip("fF")) if identity else None
        except (ValueError, SyntaxError):
            raise ValueError(
                f"[{self.name}] expects a number as identity, got {identity!r}"
            ) from None

    def __call__(
        self,
        *args: ndarray | float,
        axis: int | tuple[int, ...] | None = None,
        keepdims: bool = False,
    ) -> ndarray | tuple[ndarray, ...]:
        """The reduced array, or a tuple of several.

        Args:
          args: arrays of one device and numbers; after them there may be an array for each result,
            which post_map_expr may read and which is written.
          axis: an int, a tuple of ints, or None for all.
          keepdims: whether the axes stay, with length 1.

        Raises:
          TypeError, DimensionError, NameError, IndexError, RuntimeError: as ElementwiseKernel's.
          ValueError: no elements, and no identity.
        """
        expect(self.name, args, (len(self._in), len(self._in + self._out)))
        outs = [arg for arg in args[len(self._in) :] if is_array(arg)]
        if len(outs) < len(args) - len(self._in):
            raise TypeError(f"[{self.name}] expects chx.ndarray for results, got numbers")
        binding = Binding(self.name, self._in + (self._out if outs else []), args)
        for p in self._out if outs else ():
            binding.elements = [a for a in binding.elements if a is not binding.args[p.name]]
        if not binding.elements:
            raise TypeError(f"[{self.name}] expects an array that is not raw, got none")
        mapped = self._mapped(binding)
        axes = _axes(self.name, axis, mapped.ndim)
        shape = [1 if k in axes else n for k, n in enumerate(mapped.shape)]
        kept = [n for k, n in enumerate(shape) if keepdims or k not in axes]
        total = self._reduced(mapped, axes, binding).reshape(kept)
        evaluator = binding.evaluator(self._source, tuple(kept))
        binding.declare(
            evaluator,
            [p for p in self._in if p.is_raw or not is_array(binding.args[p.name])],
            False,
        )
        for out in outs:
            if list(out.shape) != kept:
                raise _core.DimensionError(f"[{self.name}] expects results of shape {tuple(kept)}")
        binding.declare(evaluator, self._out, True)
        kind = binding.resolve(self._type)
        evaluator.declare("a", kind, Value(kind, total))
        evaluator.run(self._post)
        results = self._results_of(evaluator, self._out, tuple(kept), [*args, total])
        for out, value in zip_strict(outs, results if outs else ()):
            _core.copyto(out, value)
        results = outs or results
        return results[0] if len(results) == 1 else tuple(results)

    def _mapped(self, binding: Binding) -> ndarray:
        shape = binding.shape()
        evaluator = binding.evaluator(self._source, shape)
        evaluator.positions.add("_j", evaluator.positions.flat)
        binding.declare(evaluator, self._in, False)
        value = evaluator.converted(evaluator.result(self._map), binding.resolve(self._type))
        return _core.broadcast_to(value, shape)

    def _reduced(self, array: ndarray, axes: list[int], binding: Binding) -> ndarray:
        kind = binding.resolve(self._type)
        dtype, device = held_by(kind), array.device
        kept = [k for k in range(array.ndim) if k not in axes]
        rest = tuple(array.shape[k] for k in kept)
        count = math.prod(array.shape[k] for k in axes)
        if count == 0:
            if self._identity is None:
                raise ValueError(f"[{self.name}] expects elements, got none and no identity")
            return _core.full(rest, self._identity, dtype, device)

        def joined(a: ndarray, b: ndarray) -> ndarray:
            evaluator = binding.evaluator(self._source, tuple(a.shape))
            evaluator.declare("a", kind, Value(kind, a))
            evaluator.declare("b", kind, Value(kind, b))
            return evaluator.converted(evaluator.result(self._reduce), kind)

        if self._reduce in _SUMS and axes:
            total = _core.sum(array, tuple(axes)).astype(dtype)
        else:
            array = _core.transpose(array, (*axes, *kept)).reshape((count, *rest))
            while len(array) > 1:  # halves, until one is left
                half = len(array) // 2
                pair = joined(array[:half], array[half : 2 * half])
                array = _core.concatenate([pair, array[2 * half :]]) if len(array) % 2 else pair
            total = array[0]
        if self._identity is None or (self._reduce in _SUMS and self._identity == 0):
            return total
        return joined(_core.full(rest, self._identity, dtype, device), total)


_SUMS = [("binary", "+", ("name", x), ("name", y)) for x, y in (("a", "b"), ("b", "a"))]


def _axes(name: str, axis: int | tuple[int, ...] | None, ndim: int) -> list[int]:
    axes = range(ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if any(not -ndim <= k < ndim for k in axes) or len({k % ndim for k in axes}) != len(axes):
        raise _core.DimensionError(f"[{name}] expects axes of {ndim} dimensions, got {axis}")
    return sorted(k % ndim for k in axes)


# The same kernel for the same arguments, parsed once.
reduce = functools.lru_cache(maxsize=1024)(ReductionKernel)
