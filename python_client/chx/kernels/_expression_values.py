"""The values of expressions, for all threads at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Union

import numpy as np

from chx._compat import TypeAlias
from chx._core import Device
from chx.kernels import _functions, _types
from chx.kernels._arrays import Buffer, Local, Memory, Place, Pointer
from chx.kernels._expressions import ATOMICS
from chx.kernels._masks import Mask, Masks
from chx.kernels._positions import Positions
from chx.kernels._tokens import Tree
from chx.kernels._values import Arithmetic, Value, is_uniform

# Steps, that is operations and statements, of one call.
MAX_STEPS = 2_000_000

Result: TypeAlias = Union[Value, Pointer, None]  # None: of a function without a value


class Variable:
    """A variable of one type.

    The mask is that of the threads for which it exists. Others may find anything in it.
    """

    __slots__ = ("mask", "type", "value")

    def __init__(self, type: str, value: Value | Pointer | None, mask: Mask = None) -> None:
        self.type = type
        self.value = value
        self.mask = mask


class Frame:
    """What one call of a function knows: its variables from the outside to the inside, and types."""

    def __init__(self, types: Mapping[str, str]) -> None:
        self.scopes: list[dict[str, Variable]] = [{}]
        self.types = types
        self.returned: Mask = False
        self.result: Value | None = None
        # Of the caller: threads that return still need them.
        self.borrowed: set[Variable] = set()


class ExpressionValues:
    """Evaluates expressions.

    Args:
      kernel: its name, for errors.
      device: where the arrays are.
      positions: of the threads.
      resolve: turns the name of a type into one of C's.
    """

    def __init__(
        self, kernel: str, device: Device, positions: Positions, resolve: Callable[[str], str]
    ) -> None:
        self._kernel = kernel
        self._do = Arithmetic(kernel, device)
        self._masks = Masks(self._do)
        self._positions = positions
        self._resolve_outside = resolve
        self._memory = Memory(kernel, self._do)
        self._outside: dict[str, Variable] = {}
        self._frame = Frame({})
        self._mask: Mask = None
        self._line = 1
        self._steps = 0

    def call_function(self, name: str, trees: Tree, types: tuple[str, ...]) -> Result:
        raise NotImplementedError

    def has_function(self, name: str) -> bool:
        raise NotImplementedError

    def value(self, tree: Tree) -> Result:
        self._count()
        result: Result = getattr(self, "_" + tree[0])(*tree[1:])
        return result

    def number(self, tree: Tree) -> Value:
        """A value that is no pointer and no array."""
        value = self.value(tree)
        return value if isinstance(value, Value) else self._expect_value(value)

    def _expect_value(self, got: Pointer | None) -> NoReturn:
        what = "a function that returns nothing" if got is None else f"the array {got.target.name}"
        raise TypeError(f"[{self._kernel}] expects a number, got {what} in line {self._line}")

    def _count(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise RuntimeError(
                f"[{self._kernel}] expects at most {MAX_STEPS} steps of a call, got more in line "
                f"{self._line}"
            )

    def resolve(self, name: str) -> str:
        return self._frame.types.get(name) or self._resolve_outside(name)

    def _place(self) -> Place:
        return Place(self._positions.shape, self._mask, self._line)

    def _find(self, name: str) -> Variable | None:
        for scope in reversed(self._frame.scopes):
            if name in scope:
                return scope[name]
        return self._outside.get(name)

    def _number(self, value: float, name: str | None) -> Value:
        return self._do.number(value, name)

    def _name(self, name: str) -> Value | Pointer:
        variable = self._find(name)
        if variable is not None and variable.value is not None:
            return variable.value
        if variable is None:
            position = self._positions.get(name)
            if position is not None:
                return position
            if name in _functions.CONSTANTS:
                return self._do.number(*_functions.CONSTANTS[name])
        raise NameError(
            f"[{self._kernel}] expects a variable that has a value, got {name} in line {self._line}"
        )

    def _member(self, name: str, member: str) -> Value:
        position = self._positions.get(f"{name}.{member}")
        if position is None:
            raise NameError(f"[{self._kernel}] expects {name} only in a raw kernel")
        return position

    def _method(self, name: str, method: str) -> Value | Pointer:
        if name == "_ind":
            shape = self._positions.shape
            if method == "get":
                cells = [self._positions.along(k) for k in range(len(shape))]
                return self._constants(name, cells)
        else:
            pointer = self._name(name)
            if not isinstance(pointer, Pointer) or not isinstance(pointer.target, Buffer):
                raise TypeError(f"[{self._kernel}] expects a raw parameter, got {name}.{method}")
            shape = pointer.target.shape
        if method == "size":
            return self._do.number(math.prod(shape), "int64")
        if method == "ndim":
            return self._do.number(len(shape), "int32")
        if method == "shape":
            return self._constants(name, [self._do.number(n, "int64") for n in shape])
        raise TypeError(f"[{self._kernel}] expects size(), shape() or ndim, got {name}.{method}")

    def _constants(self, name: str, cells: list[Value]) -> Pointer:
        return Pointer(Local(name, "int64", cells), self._do.number(0, "int64"), (len(cells),))

    def _limit(self, name: str, which: str) -> Value:
        resolved = self.resolve(name)
        value = _functions.limit(resolved, which)
        if value is None:
            raise NameError(f"[{self._kernel}] expects a limit of {resolved}, got {which}")
        return self._do.number(value, resolved)

    def _cast(self, name: str, tree: Tree) -> Value:
        return self._do.convert(self.number(tree), self.resolve(name))

    def _comma(self, left: Tree, right: Tree) -> Result:
        self.value(left)
        return self.value(right)

    def _unary(self, op: str, tree: Tree) -> Value:
        return self._do.unary(op, self.number(tree))

    def _binary(self, op: str, left: Tree, right: Tree) -> Value | Pointer:
        if op in ("&&", "||"):
            return self._logical(op, left, right)
        x, y = self.value(left), self.value(right)
        if isinstance(x, Pointer) or isinstance(y, Pointer):
            return self._moved(op, x, y)
        if not isinstance(x, Value) or not isinstance(y, Value):
            return self._do.binary(op, self.number(left), self.number(right))
        return self._computed(op, x, y)

    def _computed(self, op: str, x: Value, y: Value) -> Value:
        if op in ("/", "%") and self._mask is not None and is_uniform(y.data) and not y.data:
            y = self._do.number(1, y.type)  # perhaps no thread divides
        return self._do.binary(op, x, y)

    def _moved(self, op: str, x: Result, y: Result) -> Pointer:
        if op == "+" and isinstance(y, Pointer):
            x, y = y, x
        if op not in ("+", "-") or not isinstance(x, Pointer) or not isinstance(y, Value):
            raise TypeError(
                f"[{self._kernel}] expects numbers for {op}, or a pointer and a number for + and -, "
                f"got pointers in line {self._line}"
            )
        offset = self._do.binary(op, x.offset, self._do.convert(self._position(y), "int64"))
        return Pointer(x.target, offset, x.lengths[1:] and x.lengths)

    def _position(self, value: Value) -> Value:
        if _types.is_float(value.type):
            raise TypeError(f"[{self._kernel}] expects integers as positions, got floats")
        return value

    def _logical(self, op: str, left: Tree, right: Tree) -> Value:
        """Of the right side only what the left leaves open takes place."""
        x = self._do.truth(self.number(left))
        is_and = op == "&&"
        before = self._mask
        if is_uniform(x) and bool(x) != is_and:
            return Value("bool", x)
        open_threads = x if is_and else self._masks.inverse(x)
        self._mask = self._masks.both(before, open_threads)
        try:
            if self._mask is False:
                return Value("bool", x)
            y = self._do.truth(self.number(right))
        finally:
            self._mask = before
        if is_uniform(x):
            return Value("bool", y)
        return Value("bool", self._do.apply("logical_and" if is_and else "logical_or", x, y))

    def _choose(self, condition: Tree, yes: Tree, no: Tree) -> Value | Pointer:
        """Both sides give the type, also one that no thread takes."""
        chosen = self._do.truth(self.number(condition))
        before = self._mask
        try:
            self._mask = self._masks.both(before, chosen)
            x = self.value(yes)
            self._mask = self._masks.both(before, self._masks.inverse(chosen))
            y = self.value(no)
        finally:
            self._mask = before
        if isinstance(x, Value) and isinstance(y, Value):
            if not is_uniform(chosen):
                return self._do.choose(chosen, x, y)
            x, y = self._do.pair(x, y)
            return (x if chosen else y)._replace(literal=x.literal and y.literal)
        picked = x if is_uniform(chosen) and chosen else y if is_uniform(chosen) else None
        if not isinstance(picked, (Value, Pointer)):
            raise TypeError(
                f"[{self._kernel}] expects two numbers to choose from, got others in line "
                f"{self._line}"
            )
        return picked

    def _element(self, tree: Tree) -> tuple[Buffer | Local, Value]:
        """The array and the position of an element that a tree names."""
        found = self._pointer_to(tree)
        if len(found.lengths) > 0:
            raise TypeError(
                f"[{self._kernel}] expects an index for each dimension of {found.target.name}"
            )
        return found.target, found.offset

    def _pointer_to(self, tree: Tree) -> Pointer:
        base = self.value(tree[1])
        if not isinstance(base, Pointer):
            raise TypeError(
                f"[{self._kernel}] expects an array or a pointer before an index, got a number in "
                f"line {self._line}"
            )
        if tree[0] == "deref":
            return base._replace(lengths=base.lengths[1:])
        index = self.value(tree[2])
        if isinstance(index, Pointer):
            return Pointer(base.target, self._at_indexes(base.target, index))
        if not isinstance(index, Value):
            index = self.number(tree[2])
        if _types.is_float(index.type):
            raise TypeError(
                f"[{self._kernel}] expects integers as indexes of {base.target.name}, got floats in "
                f"line {self._line}"
            )
        index = self._do.convert(index, "int64")
        if len(base.lengths) > 1:
            stride = self._do.number(math.prod(base.lengths[1:]), "int64")
            index = self._do.binary("*", index, stride)
        if not (is_uniform(base.offset.data) and base.offset.data == 0):
            index = self._do.binary("+", base.offset, index)
        return Pointer(base.target, index, base.lengths[1:])

    def _at_indexes(self, target: Buffer | Local, indexes: Pointer) -> Value:
        """The position of x[indexes], one index for each dimension."""
        cells = indexes.target
        if not isinstance(target, Buffer) or not isinstance(cells, Local):
            raise TypeError(f"[{self._kernel}] expects numbers as indexes of {target.name}")
        if cells.size != len(target.shape):
            raise IndexError(
                f"[{self._kernel}] expects {len(target.shape)} indexes of {target.name}, got "
                f"{cells.size} in line {self._line}"
            )
        found = self._do.number(0, "int64")
        for length, cell in zip(target.shape, cells.cells):
            index = self._do.convert(self._position(cell), "int64")
            if self._mask is not False:
                data = self._memory.within(target.name, length, index, self._place())
                index = Value("int64", data)
            found = self._do.binary("*", found, self._do.number(length, "int64"))
            found = self._do.binary("+", found, index)
        return found

    def _index(self, base: Tree, position: Tree) -> Value | Pointer:
        return self._read(self._pointer_to(("index", base, position)))

    def _deref(self, tree: Tree) -> Value | Pointer:
        return self._read(self._pointer_to(("deref", tree)))

    def _read(self, found: Pointer) -> Value | Pointer:
        if found.lengths:
            return found
        if self._mask is False:
            return self._do.number(0, found.target.type)
        return self._memory.read(found.target, found.offset, self._place())

    def _address(self, tree: Tree) -> Pointer:
        if tree[0] == "name":
            value = self._name(tree[1])
            if isinstance(value, Pointer):
                return value
            raise TypeError(
                f"[{self._kernel}] expects an element of an array after &, got {tree[1]} in line "
                f"{self._line}"
            )
        return self._pointer_to(tree)

    def _assign(self, op: str, target: Tree, tree: Tree) -> Value | Pointer:
        if target[0] == "name":
            variable = self._find(target[1])
            if variable is None:
                raise NameError(
                    f"[{self._kernel}] expects a variable that is declared, got {target[1]} in line "
                    f"{self._line}"
                )
            new = self._binary(op, target, tree) if op else self.value(tree)
            self.store(variable, new)
            assert variable.value is not None  # it has just been stored
            return variable.value
        new = self.number(tree)
        array, index = self._element(target)
        if self._mask is False:
            return self._do.number(0, array.type)
        if op:
            new = self._computed(op, self._memory.read(array, index, self._place()), new)
        new = self._do.convert(new, array.type)
        self._memory.write(array, index, new, self._place())
        return new

    def _step(self, op: str, target: Tree, is_new: bool) -> Value | Pointer:
        one: Tree = ("number", 1, None)
        if is_new:
            return self._assign(op, target, one)
        if target[0] == "name":
            before: Any = self._name(target[1])
            self._assign(op, target, one)
            return before  # type: ignore[no-any-return]
        array, index = self._element(target)
        if self._mask is False:
            return self._do.number(0, array.type)
        before = self._memory.read(array, index, self._place())
        new = self._do.binary(op, before, self._do.number(1))
        self._memory.write(array, index, new, self._place())
        return before  # type: ignore[no-any-return]

    def store(self, variable: Variable, new: Result) -> None:
        """Assigns a value to a variable, for the threads that run."""
        old = variable.value
        if new is None:
            self._expect_value(new)
        if isinstance(new, Pointer) and (old is None or isinstance(old, Pointer)):
            self._store_pointer(variable, old, new)
            return
        if not isinstance(new, Value) or isinstance(old, Pointer):
            raise TypeError(
                f"[{self._kernel}] expects a number for a variable of numbers, and a pointer for a "
                f"pointer, got the other in line {self._line}"
            )
        new = self._do.convert(new, variable.type)
        if self._mask is False:
            new = new if old is None else old
        elif old is not None and self._mask is not None and self._mask is not variable.mask:
            new = Value(new.type, self._do.apply("where", self._mask, new.data, old.data))
        variable.value = new

    def _store_pointer(self, variable: Variable, old: Pointer | None, new: Pointer) -> None:
        if new.target.type != variable.type:
            raise TypeError(
                f"[{self._kernel}] expects a pointer to {variable.type}, got one to "
                f"{new.target.type} in line {self._line}"
            )
        if self._mask is False:
            return
        if old is not None and self._mask is not None and self._mask is not variable.mask:
            if old.target is not new.target:
                raise TypeError(
                    f"[{self._kernel}] expects pointers to one array in all threads, got two in line "
                    f"{self._line}"
                )
            data = self._do.apply("where", self._mask, new.offset.data, old.offset.data)
            new = new._replace(offset=Value("int64", data))
        variable.value = new

    def _call(self, name: str, trees: Tree, types: tuple[str, ...]) -> Result:
        if self.has_function(name):
            return self.call_function(name, trees, types)
        if name in ATOMICS:
            pointer, value = self.value(trees[0]), self.number(trees[1])
            if not isinstance(pointer, Pointer):
                raise TypeError(f"[{self._kernel}] expects a pointer for {name}, got a number")
            if self._mask is not False:
                target, how = pointer.target, ATOMICS[name]
                self._memory.reduce(how, target, pointer.offset, value, self._place())
            return None
        if name == "__ldg":
            return self._deref(trees[0])
        return self._do.call(name, [self.number(tree) for tree in trees])


def uniform_integer(value: Value) -> int | None:
    """The number, if it is an integer that all threads have."""
    if _types.is_float(value.type) or not is_uniform(value.data):
        return None
    return int(np.asarray(value.data).item())
