"""Elementwise and reduction kernels: parameters, types and calls."""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chx import _core
from chx._compat import zip_strict
from chx._core import Device, ndarray
from chx._numpy import operands
from chx._types import Shape
from chx.kernels._evaluator import Evaluator, is_array
from chx.kernels._parser import TYPES, Parser


class Parameter:
    def __init__(self, kernel: str, text: str) -> None:
        words = [word for word in text.split() if word != "const"]
        if len(words) != 2 or not words[1].isidentifier():
            hint = "raw parameters have indexes" if words[:1] == ["raw"] else "'type name'"
            raise ValueError(f"[{kernel}] expects parameters as {hint}, got {text.strip()!r}")
        self.type, self.name = words
        if self.type not in TYPES and not self.is_placeholder:
            raise ValueError(f"[{kernel}] expects a dtype or one letter, got {self.type!r}")

    @property
    def is_placeholder(self) -> bool:
        return len(self.type) == 1 and self.type.isalpha()


def _parameters(kernel: str, text: str) -> list[Parameter]:
    found = [Parameter(kernel, part) for part in text.split(",") if part.strip()]
    names = [p.name for p in found]
    if len(set(names)) != len(names) or "i" in names:
        raise ValueError(f"[{kernel}] expects names that differ, and not i, got {', '.join(names)}")
    return found


_NO_VALUES: dict[str, ndarray] = {}


class _Kernel:
    """What both kinds share: parameters, and the types that a call gives them."""

    def __init__(self, in_params: str, out_params: str, name: str) -> None:
        if not name.isidentifier():
            raise ValueError(f"[kernel] expects an identifier as name, got {name!r}")
        self.name = name
        self._in = _parameters(name, in_params)
        self._out = _parameters(name, out_params)
        if not self._in or not self._out:
            raise ValueError(f"[{name}] expects parameters and results, got none")
        both = [p.name for p in self._in + self._out]
        if len(set(both)) != len(both):
            raise ValueError(f"[{name}] expects names that differ, got {', '.join(both)}")
        self._placeholders = {p.type: p.type for p in self._in + self._out if p.is_placeholder}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def _bind(
        self, params: list[Parameter], args: Sequence[ndarray | float]
    ) -> tuple[dict[str, str], list[ndarray], Evaluator]:
        """The dtypes of placeholders, and an evaluator that has the arguments as arrays."""
        bound: dict[str, str] = {}
        arrays = [a for a in args if is_array(a)]
        if arrays:
            args = [
                operands.as_operand(a, arrays) if isinstance(a, (np.ndarray, list, tuple)) else a
                for a in args
            ]
        for p, arg in zip_strict(params, args):
            if not is_array(arg):
                if not isinstance(arg, (bool, int, float, np.generic)):
                    kind = type(arg).__name__
                    raise TypeError(f"[{self.name}] expects chx.ndarray or a number, got {kind}")
                continue
            dtype = arg.dtype.name
            wanted = bound.setdefault(p.type, dtype) if p.is_placeholder else TYPES[p.type]
            if dtype != wanted:
                raise TypeError(f"[{self.name}] expects {p.name} of {wanted}, got {dtype}")
        arrays = [a for a in args if is_array(a)]
        if not arrays:
            raise TypeError(f"[{self.name}] expects an array among its arguments, got none")
        for p, arg in zip_strict(params, args):  # numbers settle what arrays leave open
            if p.is_placeholder and p.type not in bound:
                bound[p.type] = np.result_type(arg).name
        types = {p.name: p.type for p in params}
        evaluator = self._evaluator(arrays[0].device, types, bound)
        for p, arg in zip_strict(params, args):
            evaluator.values[p.name] = evaluator.typed(arg, self._dtype(p.type, bound))
        return bound, arrays, evaluator

    def _evaluator(
        self,
        device: Device,
        types: Mapping[str, str],
        bound: Mapping[str, str],
        values: Mapping[str, ndarray] = _NO_VALUES,
    ) -> Evaluator:
        return Evaluator(self.name, device, types, lambda t: self._dtype(t, bound), values)

    def _shape_of(self, arrays: Sequence[ndarray]) -> Shape:
        try:
            return np.broadcast_shapes(*[a.shape for a in arrays])
        except ValueError:
            shapes = " and ".join(str(a.shape) for a in arrays)
            raise _core.DimensionError(
                f"[{self.name}] expects shapes that broadcast, got {shapes}"
            ) from None

    def _dtype(self, name: str, bound: Mapping[str, str]) -> str:
        if name in bound:
            return bound[name]
        if name in TYPES:
            return TYPES[name]
        raise TypeError(f"[{self.name}] expects arguments that tell what {name} is")

    def _expect(self, args: Sequence[Any], counts: Sequence[int]) -> None:
        if len(args) not in counts:
            numbers = " or ".join(map(str, counts))
            raise TypeError(f"[{self.name}] expects {numbers} arguments, got {len(args)}")


class ElementwiseKernel(_Kernel):
    """Computes each element of its results from the elements of its arguments.

    Args:
      in_params: "type name, ...": a dtype's or C type's name, or one letter for a dtype that the
        arguments tell.
      out_params: as in_params; all have the arguments' broadcast shape.
      operation: statements of C++: assignments, declarations, if, ?:, and C's mathematics. `i` is the
        position in the results in C order. It computes by C's rules: integers divide towards zero,
        float16 is computed as float32, assignments convert. A literal does not make float32 double.
        Both sides of ?: and if are computed; so gradients of a side that is not taken may be NaN.
      name: for errors.

    Raises:
      ValueError: the operation is more than that.
    """

    def __init__(
        self, in_params: str, out_params: str, operation: str, name: str = "kernel"
    ) -> None:
        super().__init__(in_params, out_params, name)
        self._statements = Parser(name, operation, self._placeholders).statements()

    def __call__(self, *args: ndarray | float) -> ndarray | tuple[ndarray, ...]:
        """The result, or a tuple of several.

        Args:
          args: arrays of one device and numbers; after them there may be an array for each result,
            which the operation may read and which is written.

        Raises:
          TypeError: number, types or dtypes of the arguments don't fit the parameters.
          DimensionError: the arguments' shapes don't broadcast, or not to that of a result.
          NameError: a variable has no value.
        """
        self._expect(args, (len(self._in), len(self._in + self._out)))
        outs = [arg for arg in args[len(self._in) :] if is_array(arg)]
        if len(outs) < len(args) - len(self._in):
            raise TypeError(f"[{self.name}] expects chx.ndarray for results, got numbers")
        params = self._in + self._out if outs else self._in
        bound, arrays, evaluator = self._bind(params, args)
        shape = self._shape_of(arrays)
        if any(out.shape != shape for out in outs):
            raise _core.DimensionError(f"[{self.name}] expects results of shape {shape}")
        if _uses(self._statements, "i"):
            i = _core.arange(math.prod(shape), dtype="int64", device=arrays[0].device)
            evaluator.values["i"] = i.reshape(shape)
        if not outs:
            evaluator.declare({p.name: p.type for p in self._out})
        evaluator.run(self._statements)
        results: list[ndarray] = []
        for p in self._out:
            value = evaluator.values.get(p.name)
            if value is None:
                raise NameError(f"[{self.name}] expects an operation that assigns {p.name}")
            if value.shape != shape:
                value = _core.broadcast_to(value, shape).copy()
            elif any(value is other for other in (*args, *results)):
                value = value.copy()
            results.append(value)
        for out, value in zip_strict(outs, results if outs else ()):
            _core.copyto(out, value)
        results = outs or results
        return results[0] if len(results) == 1 else tuple(results)


class ReductionKernel(_Kernel):
    """Computes a value of each element, and one of all that lie along axes.

    Args:
      in_params, out_params: as ElementwiseKernel's; one result.
      map_expr: an expression of an element's arguments.
      reduce_expr: an expression of `a` and `b`, two such values; associative and commutative.
      post_map_expr: a statement that assigns the result from `a`.
      identity: the value of no elements, a number or its text; None if there is none.
      name: for errors.
      reduce_type: the dtype of a and b; that of the result if None.

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
    ) -> None:
        super().__init__(in_params, out_params, name)
        if len(self._out) != 1:
            raise ValueError(f"[{name}] expects one result, got {len(self._out)}")
        types = self._placeholders
        self._map = Parser(name, map_expr, types).expression()
        self._reduce = Parser(name, reduce_expr, types).expression()
        self._post = Parser(name, post_map_expr, types).statements()
        self._identity = self._number(identity)
        self._type = reduce_type or self._out[0].type
        if self._type not in TYPES and self._type not in self._placeholders:
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
    ) -> ndarray:
        """The reduced array.

        Args:
          args: arrays of one device and numbers.
          axis: an int, a tuple of ints, or None for all.
          keepdims: whether the axes stay, with length 1.

        Raises:
          TypeError, DimensionError, NameError: as ElementwiseKernel's.
          ValueError: no elements, and no identity.
        """
        self._expect(args, (len(self._in),))
        bound, arrays, evaluator = self._bind(self._in, args)
        dtype = self._dtype(self._type, bound)
        mapped = evaluator.typed(evaluator.value(self._map), dtype)
        mapped = _core.broadcast_to(mapped, self._shape_of(arrays))
        axes = _axes(self.name, axis, mapped.ndim)
        shape = [1 if k in axes else n for k, n in enumerate(mapped.shape)]
        total = self._reduced(mapped, axes, bound).reshape(shape)
        out = self._out[0]
        evaluator = self._evaluator(mapped.device, {out.name: out.type}, bound, {"a": total})
        evaluator.run(self._post)
        result = evaluator.values.get(out.name)
        if result is None:
            raise NameError(f"[{self.name}] expects a post_map_expr that assigns {out.name}")
        kept = [n for k, n in enumerate(shape) if keepdims or k not in axes]
        return _core.broadcast_to(result, shape).reshape(kept)

    def _reduced(self, array: ndarray, axes: list[int], bound: Mapping[str, str]) -> ndarray:
        dtype = array.dtype.name
        kept = [k for k in range(array.ndim) if k not in axes]
        rest = tuple(array.shape[k] for k in kept)
        count = math.prod(array.shape[k] for k in axes)
        device = array.device
        if count == 0:
            if self._identity is None:
                raise ValueError(f"[{self.name}] expects elements, got none and no identity")
            return _core.full(rest, self._identity, dtype, device)

        def joined(a: ndarray, b: ndarray) -> ndarray:
            evaluator = self._evaluator(device, {}, bound, {"a": a, "b": b})
            return evaluator.typed(evaluator.value(self._reduce), dtype)

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


def _uses(trees: Any, name: str) -> bool:
    if isinstance(trees, tuple):
        return trees == ("name", name) or any(_uses(t, name) for t in trees)
    return False


# The same kernel for the same arguments, parsed once.
elementwise = functools.lru_cache(maxsize=1024)(ElementwiseKernel)
reduce = functools.lru_cache(maxsize=1024)(ReductionKernel)


__all__ = ["ElementwiseKernel", "ReductionKernel", "elementwise", "reduce"]
