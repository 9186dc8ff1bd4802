"""Elementwise and reduction kernels: parameters, types and calls."""

import functools

import numpy as np

from chx import _core
from chx.kernels._evaluator import Evaluator, convert, function, is_array
from chx.kernels._parser import TYPES, Parser


class _Parameter:
    def __init__(self, kernel, text):
        words = text.replace("const", " ").split()
        if len(words) != 2 or not words[1].isidentifier():
            hint = "raw parameters have indexes" if words[:1] == ["raw"] else "'type name'"
            raise ValueError(f"[{kernel}] expects parameters as {hint}, got {text.strip()!r}")
        self.type, self.name = words
        if self.type not in TYPES and not self.is_placeholder:
            raise ValueError(f"[{kernel}] expects a dtype or one letter, got {self.type!r}")

    @property
    def is_placeholder(self):
        return len(self.type) == 1 and self.type.isalpha()


def _parameters(kernel, text):
    found = [_Parameter(kernel, part) for part in text.split(",") if part.strip()]
    names = [p.name for p in found]
    if len(set(names)) != len(names) or "i" in names:
        raise ValueError(f"[{kernel}] expects names that differ, and not i, got {', '.join(names)}")
    return found


class _Kernel:
    """What both kinds share: parameters, and the types that a call gives them."""

    def __init__(self, in_params, out_params, name):
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

    def __repr__(self):
        return f"<{type(self).__name__} {self.name}>"

    def _bind(self, args):
        """The dtypes of placeholders, and the arguments: arrays of one device, and numbers."""
        bound = {}
        for p, arg in zip(self._in, args, strict=True):
            if not is_array(arg):
                if not isinstance(arg, (bool, int, float, np.generic)):
                    kind = type(arg).__name__
                    raise TypeError(f"[{self.name}] expects chx.ndarray or a number, got {kind}")
                continue
            dtype = arg.dtype.name
            wanted = bound.setdefault(p.type, dtype) if p.is_placeholder else TYPES[p.type]
            if dtype != wanted:
                raise TypeError(f"[{self.name}] expects {p.name} of {wanted}, got {dtype}")
        if not any(is_array(a) for a in args):
            raise TypeError(f"[{self.name}] expects an array among its arguments, got none")
        for p, arg in zip(self._in, args, strict=True):  # numbers settle what arrays leave open
            if p.is_placeholder and p.type not in bound:
                bound[p.type] = np.result_type(arg).name
        values = {
            p.name: arg if is_array(arg) else convert(arg, self._dtype(p.type, bound))
            for p, arg in zip(self._in, args, strict=True)
        }
        return bound, values

    def _dtype(self, name, bound):
        if name in bound:
            return bound[name]
        if name in TYPES:
            return TYPES[name]
        if name in self._placeholders:
            raise TypeError(f"[{self.name}] expects arguments that tell what {name} is")
        return name  # resolved by the parser

    def _expect(self, args):
        if len(args) != len(self._in):
            raise TypeError(f"[{self.name}] expects {len(self._in)} arguments, got {len(args)}")


class ElementwiseKernel(_Kernel):
    """Computes each element of its results from the elements of its arguments.

    Args:
      in_params: "type name, ...": a dtype's or C type's name, or one letter for a dtype that the
        arguments tell.
      out_params: as in_params; all have the arguments' broadcast shape.
      operation: statements of C++: assignments, declarations, if, ?:, and C's mathematics. `i` is the
        position in the results in C order. It computes by C's rules: integers divide towards zero,
        float16 is computed as float32, assignments convert. A literal has the type of what it meets.
      name: for errors.

    Raises:
      ValueError: the operation is more than that.
    """

    def __init__(self, in_params, out_params, operation, name="kernel"):
        super().__init__(in_params, out_params, name)
        self._statements = Parser(name, operation, self._placeholders).statements()

    def __call__(self, *args):
        """The result, or a tuple of several; arguments are arrays of one device and numbers.

        Raises:
          TypeError: number, types or dtypes of the arguments don't fit the parameters.
          DimensionError: the arguments' shapes don't broadcast.
          NameError: a variable has no value, or there is no such function.
        """
        self._expect(args)
        bound, values = self._bind(args)
        arrays = [a for a in args if is_array(a)]
        shape = np.broadcast_shapes(*[a.shape for a in arrays]) if _fits(arrays) else None
        if shape is None:
            shapes = " and ".join(str(a.shape) for a in arrays)
            raise _core.DimensionError(f"[{self.name}] expects shapes that broadcast, got {shapes}")
        device = arrays[0].device
        if _uses(self._statements, "i"):
            values["i"] = _core.arange(int(np.prod(shape)), dtype="int64", device=device)
            values["i"] = values["i"].reshape(shape)
        types = {p.name: p.type for p in self._in + self._out}
        evaluator = Evaluator(self.name, types, lambda t: self._dtype(t, bound), values)
        evaluator.run(self._statements)
        results = []
        for p in self._out:
            value = evaluator.values.get(p.name)
            if value is None:
                raise NameError(f"[{self.name}] expects an operation that assigns {p.name}")
            if not is_array(value):
                value = _core.full(shape, value, self._dtype(p.type, bound), device)
            elif value.shape != shape:
                value = _core.broadcast_to(value, shape).copy()
            elif any(value is a for a in args):
                value = value.copy()
            results.append(value)
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

    Raises:
      ValueError: the expressions are more than ElementwiseKernel knows.
    """

    def __init__(
        self,
        in_params,
        out_params,
        map_expr,
        reduce_expr,
        post_map_expr,
        identity,
        name="kernel",
        reduce_type=None,
    ):
        super().__init__(in_params, out_params, name)
        if len(self._out) != 1:
            raise ValueError(f"[{name}] expects one result, got {len(self._out)}")
        types = self._placeholders
        self._map = Parser(name, map_expr, types).expression()
        self._reduce = Parser(name, reduce_expr, types).expression()
        self._post = Parser(name, post_map_expr, types).statements()
        self._identity = float(identity) if isinstance(identity, str) and identity else identity
        self._type = reduce_type or self._out[0].type
        self._fast = _operator_for(self._reduce)

    def __call__(self, *args, axis=None, keepdims=False):
        """The reduced array.

        Args:
          args: arrays of one device and numbers.
          axis: an int, a tuple of ints, or None for all.
          keepdims: whether the axes stay, with length 1.

        Raises:
          TypeError, DimensionError, NameError: as ElementwiseKernel's.
          ValueError: no elements, and no identity.
        """
        self._expect(args)
        bound, values = self._bind(args)
        dtype = self._dtype(self._type, bound)
        types = {p.name: p.type for p in self._in}
        mapped = self._evaluator(types, values, bound).value(self._map)
        arrays = [a for a in args if is_array(a)]
        if not is_array(mapped):
            mapped = _core.full_like(arrays[0], mapped)
        if mapped.dtype.name != dtype:
            mapped = mapped.astype(dtype)
        axes = _axes(self.name, axis, mapped.ndim)
        shape = [1 if k in axes else n for k, n in enumerate(mapped.shape)]
        total = self._reduced(mapped, axes, dtype).reshape(shape)
        out = self._out[0]
        evaluator = self._evaluator({out.name: out.type}, {"a": total}, bound)
        evaluator.run(self._post)
        result = evaluator.values.get(out.name)
        if result is None:
            raise NameError(f"[{self.name}] expects a post_map_expr that assigns {out.name}")
        if not is_array(result):
            result = _core.full(shape, result, self._dtype(out.type, bound), mapped.device)
        kept = [n for k, n in enumerate(shape) if keepdims or k not in axes]
        return result.reshape(kept)

    def _evaluator(self, types, values, bound):
        return Evaluator(self.name, types, lambda t: self._dtype(t, bound), values)

    def _reduced(self, array, axes, dtype):
        kept = [k for k in range(array.ndim) if k not in axes]
        rest = tuple(array.shape[k] for k in kept)
        count = int(np.prod([array.shape[k] for k in axes]))
        if count == 0:
            if self._identity is None:
                raise ValueError(f"[{self.name}] expects elements, got none and no identity")
            return _core.full(rest, self._identity, dtype, array.device)
        if not axes:
            return array
        if self._fast is not None:
            return function(self._fast)(array, tuple(axes)).astype(dtype)
        array = _core.transpose(array, (*axes, *kept)).reshape((count, *rest))
        while len(array) > 1:  # halves, until one is left
            half = len(array) // 2
            pair = {"a": array[:half], "b": array[half : 2 * half]}
            joined = convert(self._evaluator({}, pair, {}).value(self._reduce), dtype)
            array = _core.concatenate([joined, array[2 * half :]]) if len(array) % 2 else joined
        return array[0]


def _axes(name, axis, ndim):
    axes = range(ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if any(not -ndim <= k < ndim for k in axes) or len({k % ndim for k in axes}) != len(axes):
        raise _core.DimensionError(f"[{name}] expects axes of {ndim} dimensions, got {axis}")
    return sorted(k % ndim for k in axes)


def _operator_for(tree):
    """The operator that reduces as the expression does, if it is a usual one."""
    a, b = ("name", "a"), ("name", "b")
    for operands in ((a, b), (b, a)):
        for op, name in (("+", "sum"), ("*", "prod")):
            if tree == ("binary", op, *operands):
                return name
        for call, name in (("max", "amax"), ("min", "amin")):
            if tree == ("call", call, operands):
                return name
    return None


def _fits(arrays):
    try:
        np.broadcast_shapes(*[a.shape for a in arrays])
    except ValueError:
        return False
    return True


def _uses(trees, name):
    if isinstance(trees, tuple):
        return trees == ("name", name) or any(_uses(t, name) for t in trees)
    return False


@functools.lru_cache(maxsize=1024)
def elementwise(in_params, out_params, operation, name="kernel"):
    """An ElementwiseKernel; the same one for the same arguments, parsed once."""
    return ElementwiseKernel(in_params, out_params, operation, name)


@functools.lru_cache(maxsize=1024)
def reduce(
    in_params,
    out_params,
    map_expr,
    reduce_expr,
    post_map_expr,
    identity,
    name="kernel",
    reduce_type=None,
):
    """A ReductionKernel; the same one for the same arguments, parsed once."""
    return ReductionKernel(
        in_params, out_params, map_expr, reduce_expr, post_map_expr, identity, name, reduce_type
    )


__all__ = ["ElementwiseKernel", "ReductionKernel", "elementwise", "reduce"]
