"""The statements and functions of kernels: C++ without objects, recursion and calls of the system.

Statements are tuples, the kind first and the line last:
  ("expression", tree), ("declare", type, name, whether it is a pointer, lengths or None, tree or None),
  ("block", statements), ("if", condition, statement, statement or None),
  ("loop", statements before it, condition, tree after each turn or None, statement, whether the condition
  is tested first), ("return", tree or None), ("break",), ("continue",).
The value of a declared array is ("list", trees).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from chx.kernels._expressions import ExpressionParser
from chx.kernels._lexer import Lexer
from chx.kernels._tokens import Tree

_SPECIFIERS = set(
    "__device__ __global__ __host__ __forceinline__ __noinline__ __constant__".split()
)
_SPECIFIERS |= {"extern", "static", "inline"}
_TRUE = ("number", True, "bool")


class FunctionParameter(NamedTuple):
    type: str
    name: str
    is_pointer: bool
    is_reference: bool


class Function(NamedTuple):
    """A function of the preamble; templates are the names of types that a call settles."""

    name: str
    returns: str | None
    parameters: tuple[FunctionParameter, ...]
    body: Tree
    templates: tuple[str, ...]
    is_kernel: bool


class Source:
    """The texts of one kernel: what they define, and statements and expressions that use it.

    Args:
      kernel: its name, for errors.
      types: names that stand for types, beside C's and NumPy's.
      plain: names of parameters without indexes.
    """

    def __init__(
        self, kernel: str, types: Mapping[str, str], plain: Collection[str] = frozenset()
    ) -> None:
        self.functions: dict[str, Function] = {}
        self.constants: list[Tree] = []
        self._kernel = kernel
        self._types = dict(types)
        self._plain = plain
        self._lexer = Lexer(kernel)
        self._hidden: set[str] = set()

    def define(self, text: str) -> None:
        """Takes in functions, constants, macros and names of types.

        Raises:
          ValueError: the text is more than that.
        """
        parser = self._parser(text)
        while parser.has_more():
            parser.definition(self.functions, self.constants)
        self._types = parser.types()

    def statements(self, text: str) -> Tree:
        """All of the text, as statements."""
        return self._parser(text).all_statements()

    def expression(self, text: str) -> Tree:
        """All of the text, as one expression."""
        return self._parser(text).whole_expression()

    def _parser(self, text: str) -> Parser:
        counts = {name: len(f.parameters) for name, f in self.functions.items()}
        parser = Parser(self._kernel, self._lexer.split(text), self._types, counts, self._plain)
        parser.hidden = self._hidden
        return parser


class Parser(ExpressionParser):
    """Parses one text of a kernel."""

    def has_more(self) -> bool:
        while self._skip(";"):
            pass
        return self._peek() is not None

    def types(self) -> dict[str, str]:
        return self._types

    def all_statements(self) -> Tree:
        return self.bounded(self._all)

    def whole_expression(self) -> Tree:
        return self.bounded(self._whole)

    def definition(self, functions: dict[str, Function], constants: list[Tree]) -> None:
        """One function, constant or name of a type at the top of a text."""
        if self._peek() == "extern" and self._kind_ahead() == "string":
            self._at += 2
            if not self._skip("{"):
                return
            while not self._skip("}"):
                self._expect_more("'}'")
                self.definition(functions, constants)
                self.has_more()
            return
        if self._peek() in ("typedef", "using"):
            self._name_type()
            return
        templates = self._templates()
        before = dict(self._types)
        self._types.update({name: name for name in templates})
        is_kernel = self._skip_specifiers()
        start = self._at
        returns = None
        if not self._skip("void"):
            returns = self._type()
            if returns is None:
                self._refuse()
                self._fail("a function or a constant")
        if self._kind() == "name" and self._peek(1) == "(":
            name = self._name()
            if name in functions:
                self._at -= 1
                self._fail("functions whose names differ")
            function = self._function(name, returns, templates, is_kernel)
            functions[name] = function
            self._functions = {**self._functions, name: len(function.parameters)}
        else:
            self._at = start
            constants += self.bounded(lambda: tuple(self._declarations()))
            self._take(";")
        self._types = before

    def _kind_ahead(self) -> str:
        return self._tokens[self._at + 1].kind if self._at + 1 < len(self._tokens) else ""

    def _expect_more(self, expected: str) -> None:
        if self._peek() is None:
            self._fail(expected)

    def _name_type(self) -> None:
        alias = ""
        if self._skip("using"):
            alias = self._name()
            self._take("=")
        else:
            self._take("typedef")
        named = self._type()
        if named is None:
            self._fail("a type of numbers")
        self._no_pointer()
        self._types[alias or self._name()] = named
        self._take(";")

    def _templates(self) -> tuple[str, ...]:
        if not self._skip("template"):
            return ()
        self._take("<")
        names: list[str] = []
        while not names or self._skip(","):
            if self._peek() not in ("typename", "class"):
                self._fail("typename")
            self._at += 1
            names.append(self._name())
        self._take(">")
        return tuple(names)

    def _skip_specifiers(self) -> bool:
        is_kernel = False
        while self._peek() in _SPECIFIERS or self._peek() == "__launch_bounds__":
            is_kernel |= self._peek() == "__global__"
            self._at += 1
            if self._tokens[self._at - 1].text == "__launch_bounds__":
                self._arguments()
        return is_kernel

    def _function(
        self, name: str, returns: str | None, templates: tuple[str, ...], is_kernel: bool
    ) -> Function:
        self._take("(")
        parameters: list[FunctionParameter] = []
        if self._peek() == "void" and self._peek(1) == ")":
            self._at += 1
        while self._peek() != ")":
            parameters.append(self._parameter())
            if not self._skip(","):
                break
        self._take(")")
        names = [p.name for p in parameters]
        if len(set(names)) != len(names):
            self._fail(f"parameters of {name} whose names differ, and after them '{{'")
        if self._peek() != "{":
            self._fail("'{'")
        body = self.bounded(self._statement)
        return Function(name, returns, tuple(parameters), body, templates, is_kernel)

    def _parameter(self) -> FunctionParameter:
        self._refuse()
        start = self._at
        named = self._type()
        if named is None:
            self._fail("a type")
        const = self._has_const(start)
        pointer = self._skip("*")
        self._qualifiers()
        reference = self._skip("&")
        self._qualifiers()
        if self._peek() in ("*", "&"):
            self._fail("a pointer to numbers")
        name = self._new_name()
        if self._skip("["):
            pointer = True
            if self._peek() != "]":
                self._ternary()
            self._take("]")
        return FunctionParameter(named, name, pointer, reference and not const)

    def _all(self) -> Tree:
        line = self._line()
        found = []
        while self._peek() is not None:
            found.append(self._statement())
        return "block", tuple(found), line

    def _whole(self) -> Tree:
        tree = self._comma()
        if self._peek() is not None:
            self._fail("the end of the expression")
        return tree

    def _statement(self) -> Tree:
        self._refuse()
        line = self._line()
        token = self._peek()
        if token == ";":
            self._at += 1
            return "block", (), line
        if token == "{":
            self._at += 1
            found = []
            while not self._skip("}"):
                self._expect_more("'}'")
                found.append(self._statement())
            return "block", tuple(found), line
        if token == "if":
            self._at += 1
            condition = self._in_parentheses()
            then = self._statement()
            otherwise = self._statement() if self._skip("else") else None
            return "if", condition, then, otherwise, line
        if token in ("for", "while", "do"):
            self._at += 1
            return getattr(self, "_" + token)(line)  # type: ignore[no-any-return]
        if token in ("break", "continue"):
            self._at += 1
            self._take_end()
            return token, line
        if token == "return":
            self._at += 1
            tree = None if self._peek() in (";", None) else self._comma()
            self._take_end()
            return "return", tree, line
        declared = self._declarations()
        if declared:
            self._take_end()
            return declared[0] if len(declared) == 1 else ("group", tuple(declared), line)
        tree = self._comma()
        self._take_end()
        return "expression", tree, line

    def _take_end(self) -> None:  # the last semicolon may be left out
        if self._peek() is not None:
            self._take(";")

    def _for(self, line: int) -> Tree:
        self._take("(")
        before = self._declarations()
        if not before and self._peek() != ";":
            before = [("expression", self._comma(), line)]
        self._take(";")
        condition = _TRUE if self._peek() == ";" else self._comma()
        self._take(";")
        step = None if self._peek() == ")" else self._comma()
        self._take(")")
        return "loop", tuple(before), condition, step, self._statement(), True, line

    def _while(self, line: int) -> Tree:
        condition = self._in_parentheses()
        return "loop", (), condition, None, self._statement(), True, line

    def _do(self, line: int) -> Tree:
        body = self._statement()
        if self._peek() != "while":
            self._fail("while")
        self._at += 1
        condition = self._in_parentheses()
        self._take_end()
        return "loop", (), condition, None, body, False, line

    def _declarations(self) -> list[Tree]:
        """The declarations that stand here; none if this is something else."""
        start = self._at
        self._qualifiers()
        named = "auto" if self._skip("auto") else self._type()
        if named is None or self._peek() == "(":  # T(x) is an expression
            self._at = start
            return []
        if self._peek() == "&" and not self._has_const(start):
            self._fail("a variable, or a const reference")
        found = [self._declaration(named)]
        while self._skip(","):
            found.append(self._declaration(named))
        return found

    def _has_const(self, start: int) -> bool:
        return any(token.text in ("const", "constexpr") for token in self._tokens[start : self._at])

    def _declaration(self, named: str) -> Tree:
        line = self._line()
        pointer = self._skip("*")
        self._qualifiers()
        if self._peek() == "*":
            self._fail("a pointer to numbers")
        self._skip("&")  # a const reference, which may be a copy
        name = self._new_name()
        lengths: list[Tree | None] = []
        while self._skip("["):
            lengths.append(None if self._peek() == "]" else self._ternary())
            self._take("]")
        value: Tree | None = None
        if self._skip("="):
            value = self._list() if self._peek() == "{" else self._assignment()
        if value is None and (pointer or named == "auto" or (lengths and None in lengths)):
            self._fail(f"a value of {name}")
        if (value is not None and value[0] == "list") != bool(lengths and value is not None):
            self._fail(f"one value of {name}, or for an array a list")
        return "declare", named, name, pointer, tuple(lengths) if lengths else None, value, line

    def _list(self) -> Tree:
        self._take("{")
        found = []
        while self._peek() != "}":
            found.append(self._list() if self._peek() == "{" else self._assignment())
            if not self._skip(","):
                break
        self._take("}")
        return "list", tuple(found)
