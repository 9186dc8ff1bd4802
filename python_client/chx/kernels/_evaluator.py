"""Runs statements of kernels with chx's operators, for all threads at once.

Where threads go different ways, each way is gone with a mask of those that go it: what the others would
do there is dropped, or not done at all. Where all go the same way and this process knows it, as in a
loop over numbers, nothing is masked. Every loop, and the work of a call as a whole, is limited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from chx import _core
from chx._core import Device, ndarray
from chx.kernels._arrays import MAX_LOCAL, Buffer, Local, Pointer
from chx.kernels._expression_values import (
    ExpressionValues,
    Frame,
    Result,
    Variable,
    uniform_integer,
)
from chx.kernels._masks import Mask
from chx.kernels._parser import Function, FunctionParameter
from chx.kernels._positions import Positions
from chx.kernels._tokens import Tree
from chx.kernels._values import Value, is_array, is_uniform

# Turns of one loop.
MAX_TURNS = 65_536


class _Loop:
    def __init__(self) -> None:
        self.continued: Mask = False


class Evaluator(ExpressionValues):
    """Runs one call of a kernel.

    Args:
      kernel, device, positions, resolve: as ExpressionValues'.
      functions: of the preamble, by their names.
    """

    def __init__(
        self,
        kernel: str,
        device: Device,
        positions: Positions,
        resolve: Callable[[str], str],
        functions: Mapping[str, Function],
    ) -> None:
        super().__init__(kernel, device, positions, resolve)
        self._functions = functions
        self.positions = positions
        self._loops: list[_Loop] = []

    def declare(self, name: str, type: str, value: Value | Pointer | None) -> None:
        """A variable that there is before the kernel starts: a parameter or a constant."""
        self._outside[name] = Variable(type, value)

    def declare_array(self, name: str, buffer: Buffer) -> None:
        """A parameter that is indexed."""
        self._outside[name] = self.pointer(buffer)

    def pointer(self, buffer: Buffer) -> Variable:
        """A variable that points to the beginning of an array."""
        return Variable(buffer.type, Pointer(buffer, self._do.number(0, "int64")))

    def given(self, argument: Any, name: str) -> Value:
        """A number or an array of the caller's as C converts it."""
        if is_array(argument):
            return self._do.convert(Value(argument.dtype.name, argument), name)
        if isinstance(argument, np.generic):
            argument = argument.item()
        return self._do.convert(self._do.number(argument), name)

    def define(self, constants: Sequence[Tree]) -> None:
        """Runs the declarations of a preamble."""
        with np.errstate(all="ignore"):
            self._guarded(lambda: self._run(constants))
        self._outside.update(self._frame.scopes[0])
        self._frame = Frame({})

    def on_device(self, name: str) -> ndarray | None:
        """What a parameter has become."""
        value = self._outside[name].value
        return self._do.on_device(value.data) if isinstance(value, Value) else None

    def converted(self, value: Value, type: str) -> ndarray:
        """A value of another type, as an array."""
        return self._do.on_device(self._do.convert(value, type).data)

    def run(self, statement: Tree) -> None:
        """A kernel's operation, and then the checks of its indexes.

        Raises:
          IndexError: a thread used an index that is not within its array.
          RuntimeError: there were too many turns or steps.
        """
        with np.errstate(all="ignore"):
            self._guarded(
                lambda: self._run((statement,) if statement[0] != "block" else statement[1])
            )
            self._memory.check()

    def result(self, tree: Tree) -> Value:
        """The value of an expression, with the same checks."""
        with np.errstate(all="ignore"):
            found: list[Value] = []
            self._guarded(lambda: found.append(self.number(tree)))
            self._memory.check()
        return found[0]

    def call_kernel(self, function: Function, arguments: Mapping[str, Variable]) -> None:
        """Runs a function of the source as the kernel."""
        self._frame.scopes[0].update(arguments)
        self.run(function.body)

    def has_function(self, name: str) -> bool:
        return name in self._functions

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except RecursionError:
            raise ValueError(
                f"[{self._kernel}] expects functions and operations that are nested less deep"
            ) from None

    def _run(self, statements: Sequence[Tree]) -> None:
        for statement in statements:
            if self._mask is False:
                return
            self._line = statement[-1]
            self._count()
            getattr(self, "_run_" + statement[0])(*statement[1:-1])

    def _run_expression(self, tree: Tree) -> None:
        self.value(tree)

    def _run_group(self, statements: Tree) -> None:
        self._run(statements)

    def _run_block(self, statements: Tree) -> None:
        self._frame.scopes.append({})
        self._run(statements)
        self._frame.scopes.pop()

    def _run_declare(
        self, named: str, name: str, pointer: bool, lengths: Tree | None, tree: Tree | None
    ) -> None:
        scope = self._frame.scopes[-1]
        if name in scope or (len(self._frame.scopes) == 1 and name in self._outside):
            raise NameError(
                f"[{self._kernel}] expects a new name to declare, got {name} in line {self._line}"
            )
        if lengths is not None:
            kind = self.resolve(named)
            scope[name] = Variable(kind, self._array(name, kind, lengths, tree), self._mask)
            return
        value: Result = self._do.number(0)  # C leaves it undefined
        if tree is not None:
            value = self.value(tree)
        if named == "auto" and isinstance(value, (Value, Pointer)):
            kind = value.type if isinstance(value, Value) else value.target.type
        else:
            kind = self.resolve(named)
        if pointer != isinstance(value, Pointer) and named != "auto":
            wanted = "a pointer" if pointer else "a number"
            raise TypeError(
                f"[{self._kernel}] expects {wanted} for {name}, got another value in line {self._line}"
            )
        variable = Variable(kind, None, self._mask)
        self.store(variable, value)
        scope[name] = variable

    def _array(self, name: str, kind: str, lengths: Tree, tree: Tree | None) -> Pointer:
        given = list(_flat(tree)) if tree is not None else []
        counts = []
        for length in lengths:
            count = len(given) if length is None else uniform_integer(self.number(length))
            if count is None or not 1 <= count <= MAX_LOCAL:
                raise ValueError(
                    f"[{self._kernel}] expects from 1 to {MAX_LOCAL} elements of {name}, the same in "
                    f"all threads, got {'others' if count is None else count} in line {self._line}"
                )
            counts.append(count)
        size = int(np.prod(counts))
        if size > MAX_LOCAL or len(given) > size:
            raise ValueError(
                f"[{self._kernel}] expects at most {min(size, MAX_LOCAL)} elements of {name}, got "
                f"{max(size, len(given))} in line {self._line}"
            )
        cells = [self._do.convert(self.number(t), kind) for t in given]
        cells += [self._do.number(0, kind)] * (size - len(cells))
        return Pointer(Local(name, kind, cells), self._do.number(0, "int64"), tuple(counts))

    def _run_if(self, condition: Tree, then: Tree, otherwise: Tree | None) -> None:
        chosen = self._do.truth(self.number(condition))
        before = self._mask
        if is_uniform(chosen):
            taken = then if chosen else otherwise
            if taken is not None:
                self._run_block((taken,))
            return
        yes, after_yes = self._run_where(self._masks.both(before, chosen), then)
        no = self._masks.both(before, self._masks.inverse(chosen))
        no, after_no = self._run_where(no, otherwise)
        if after_yes is yes and after_no is no:
            self._mask = before
            return
        self._mask = self._masks.either(after_yes, after_no)
        if not self._loops and self._mask is not False:
            self._forget(before)

    def _run_where(self, mask: Mask, statement: Tree | None) -> tuple[Mask, Mask]:
        """Runs a statement for the threads of a mask: those, and those that come out of it."""
        if mask is False or statement is None:
            return mask, mask
        self._mask = mask
        self._run_block((statement,))
        return mask, self._mask

    def _forget(self, before: Mask) -> None:
        """Threads that have returned no longer need this call's variables."""
        for scope in self._frame.scopes:
            for variable in scope.values():
                if variable.mask is before and variable not in self._frame.borrowed:
                    variable.mask = self._mask

    def _run_loop(
        self, first: Tree, condition: Tree, step: Tree | None, body: Tree, is_tested_first: bool
    ) -> None:
        entry, returned, line = self._mask, self._frame.returned, self._line
        scope: dict[str, Variable] = {}
        self._frame.scopes.append(scope)
        loop = _Loop()
        self._loops.append(loop)
        self._run(first)
        turns, known = 0, self._mask  # a mask of which some thread is known to run
        while True:
            self._line = line
            if turns or is_tested_first:
                self._mask = self._masks.both(self._mask, self._do.truth(self.number(condition)))
            if self._mask is False or not self._some_run(known):
                break
            known = self._mask
            turns += 1
            self._count()
            if turns > MAX_TURNS:
                raise RuntimeError(
                    f"[{self._kernel}] expects at most {MAX_TURNS} turns of a loop, got more in line "
                    f"{line}"
                )
            self._own(scope)
            self._run_block((body,))
            self._mask = self._masks.either(self._mask, loop.continued)
            loop.continued = False
            if self._mask is False:
                break
            self._own(scope)
            if step is not None:
                self._line = line
                self.value(step)
        self._loops.pop()
        self._frame.scopes.pop()
        self._mask = entry
        if self._frame.returned is not returned:
            self._mask = self._masks.without(entry, self._frame.returned)

    def _own(self, scope: dict[str, Variable]) -> None:
        """A loop's variables are those of the threads that are still in it."""
        for variable in scope.values():
            variable.mask = self._mask

    def _some_run(self, known: Mask) -> bool:
        """Whether a thread runs. Waits for the daemon where only it knows."""
        if not is_array(self._mask) or self._mask is known:
            return True
        return 0 not in self._positions.shape and bool(_core.any(self._mask))

    def _run_break(self) -> None:
        self._loop_around("break")
        self._mask = False

    def _run_continue(self) -> None:
        if not self._loops:  # in the operation of an elementwise kernel, which is a loop's body
            self._run_return(None)
            return
        loop = self._loop_around("continue")
        loop.continued = self._masks.either(loop.continued, self._mask)
        self._mask = False

    def _loop_around(self, what: str) -> _Loop:
        if not self._loops:
            raise ValueError(f"[{self._kernel}] expects a loop around {what} in line {self._line}")
        return self._loops[-1]

    def _run_return(self, tree: Tree | None) -> None:
        frame = self._frame
        if tree is not None:
            new = self.number(tree)
            old = frame.result
            if old is not None and self._mask is not None:
                new = self._do.convert(new, old.type)
                new = Value(old.type, self._do.apply("where", self._mask, new.data, old.data))
            frame.result = new
        frame.returned = self._masks.either(frame.returned, self._mask)
        self._mask = False

    def call_function(self, name: str, trees: Tree, types: tuple[str, ...]) -> Result:
        function = self._functions[name]
        frame = Frame({})
        settled = dict(zip(function.templates, map(self.resolve, types)))
        written: list[tuple[Tree, Variable]] = []
        for parameter, tree in zip(function.parameters, trees):
            variable = self._argument(function, parameter, tree, settled, written)
            frame.scopes[0][parameter.name] = variable
            if parameter.is_reference:
                frame.borrowed.add(variable)
        missing = [t for t in function.templates if t not in settled]
        if missing:
            raise TypeError(
                f"[{self._kernel}] expects arguments of {name} that tell what {missing[0]} is"
            )
        frame.types = settled
        before, outer, loops, line = self._mask, self._frame, self._loops, self._line
        self._frame, self._loops = frame, []
        returns = self.resolve(function.returns) if function.returns is not None else None
        if before is not False:
            self._run((function.body,))
        self._frame, self._loops, self._mask, self._line = outer, loops, before, line
        for tree, variable in written:
            self._write_back(tree, variable)
        if returns is None:
            return None
        if before is False:
            return self._do.number(0, returns)
        if frame.result is None:
            raise TypeError(f"[{self._kernel}] expects {name} to return a value, got none")
        return self._do.convert(frame.result, returns)

    def _write_back(self, tree: Tree, variable: Variable) -> None:
        if self._mask is not False and isinstance(variable.value, Value):
            array, index = self._element(tree)
            self._memory.write(array, index, variable.value, self._place())

    def _argument(
        self,
        function: Function,
        parameter: FunctionParameter,
        tree: Tree,
        settled: dict[str, str],
        written: list[tuple[Tree, Variable]],
    ) -> Variable:
        if parameter.is_reference and tree[0] == "name":
            variable = self._find(tree[1])
            if variable is not None and not isinstance(variable.value, Pointer):
                self._expect_type(function, parameter, variable.type, settled)
                return variable
        value = self.value(tree)
        pointer = isinstance(value, Pointer)
        if pointer != parameter.is_pointer or value is None:
            wanted = "a pointer" if parameter.is_pointer else "a number"
            raise TypeError(
                f"[{self._kernel}] expects {wanted} for {parameter.name} of {function.name}, got "
                f"another value in line {self._line}"
            )
        found = value.target.type if isinstance(value, Pointer) else value.type
        if parameter.is_pointer or parameter.is_reference:
            self._expect_type(function, parameter, found, settled)
        kind = self._type_of(function, parameter, found, settled)
        variable = Variable(kind, None, self._mask)
        self.store(variable, value)
        if parameter.is_reference:
            if tree[0] not in ("index", "deref"):
                raise TypeError(
                    f"[{self._kernel}] expects a variable for {parameter.name} of {function.name}, "
                    f"got a value in line {self._line}"
                )
            written.append((tree, variable))
        return variable

    def _type_of(
        self,
        function: Function,
        parameter: FunctionParameter,
        found: str,
        settled: dict[str, str],
    ) -> str:
        if parameter.type in function.templates:
            return settled.setdefault(parameter.type, found)
        return self.resolve(parameter.type)

    def _expect_type(
        self,
        function: Function,
        parameter: FunctionParameter,
        found: str,
        settled: dict[str, str],
    ) -> None:
        wanted = self._type_of(function, parameter, found, settled)
        if wanted != found:
            raise TypeError(
                f"[{self._kernel}] expects {wanted} for {parameter.name} of {function.name}, got "
                f"{found} in line {self._line}"
            )


def _flat(tree: Tree) -> list[Tree]:
    if tree[0] != "list":
        return [tree]
    return [part for item in tree[1] for part in _flat(item)]
