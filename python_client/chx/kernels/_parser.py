"""The expressions of kernels: C++ without loops, pointers and calls to anything but mathematics.

Trees are tuples, the kind first:
  ("number", value), ("name", name), ("unary", op, x), ("binary", op, x, y), ("choose", c, x, y),
  ("cast", type, x), ("call", name, (x, ...));
statements: ("assign", type or None, name, tree), ("if", condition, (statement, ...), (statement, ...)).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NoReturn

from chx.kernels._evaluator import Tree, arity_of

TYPES = {
    "bool": "bool",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "long long": "int64",
    "ptrdiff_t": "int64",
    "half": "float16",
    "float": "float32",
    "double": "float64",
    **{n: n for n in "bool int8 int16 int32 int64 uint8 float16 float32 float64".split()},
}

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<float>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?|\d+[eE][+-]?\d+[fF]?)
    |(?P<int>(?:0[xX][0-9a-fA-F]+|\d+)\w*)
    |(?P<name>[A-Za-z_]\w*(?:\s*::\s*\w+)*)
    |(?P<op><<=|>>=|\+\+|--|&&|\|\||<<|>>|[-+*/%<>=!&|^]=|[-+*/%<>=!&|^~?:;,(){}\[\].])
    )""",
    re.VERBOSE,
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)

# How tightly binary operators bind.
_BINDS = {
    "||": 1,
    "&&": 2,
    "|": 3,
    "^": 4,
    "&": 5,
    "==": 6,
    "!=": 6,
    "<": 7,
    ">": 7,
    "<=": 7,
    ">=": 7,
    "<<": 8,
    ">>": 8,
    "+": 9,
    "-": 9,
    "*": 10,
    "/": 10,
    "%": 10,
}
_REFUSED = (
    "for while do switch return goto break continue struct class new delete asm sizeof".split()
)


_MAX_DEPTH = 100


def _depth(tree: Tree) -> int:
    deepest, left = 0, [(tree, 1)]
    while left:
        node, depth = left.pop()
        deepest = max(deepest, depth)
        left += [(part, depth + 1) for part in node if isinstance(part, tuple)]
    return deepest


class Parser:
    """Parses the operation of one kernel.

    Args:
      kernel: its name, for errors.
      text: the operation.
      types: names that stand for types, beside C's and NumPy's.
    """

    def __init__(self, kernel: str, text: str, types: Mapping[str, str]) -> None:
        self._kernel = kernel
        self._types = types
        self._tokens = self._split(_COMMENT.sub(" ", text))
        self._at = 0

    def statements(self) -> tuple[Tree, ...]:
        """All of the text, as statements."""
        return self._bounded(self._statements)

    def expression(self) -> Tree:
        """All of the text, as one expression."""
        return self._bounded(self._expression)

    def _statements(self) -> tuple[Tree, ...]:
        found = []
        while self._peek() is not None:
            found += self._statement()
        return tuple(found)

    def _expression(self) -> Tree:
        tree = self._ternary()
        if self._peek() is not None:
            self._fail("the end of the expression")
        return tree

    def _bounded(self, parse: Callable[[], Tree]) -> Tree:
        """What is parsed is evaluated by recursion, too."""
        tree: Tree | None
        try:
            tree = parse()
        except RecursionError:
            tree = None
        if tree is None or _depth(tree) > _MAX_DEPTH:
            raise ValueError(
                f"[{self._kernel}] expects operations nested at most {_MAX_DEPTH} deep, got more: "
                "split the expression by variables"
            )
        return tree

    def _split(self, text: str) -> list[tuple[str, str]]:
        tokens = []
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise ValueError(f"[{self._kernel}] expects an operation, got {text[at:at + 20]!r}")
            at = match.end()
            kind = match.lastgroup or ""
            tokens.append((kind, re.sub(r"\s", "", match[kind]) if kind == "name" else match[kind]))
        return tokens

    def _peek(self, ahead: int = 0) -> str | None:
        place = self._at + ahead
        return self._tokens[place][1] if place < len(self._tokens) else None

    def _fail(self, expected: str) -> NoReturn:
        rest = " ".join(t for _, t in self._tokens[self._at : self._at + 6])
        raise ValueError(f"[{self._kernel}] expects {expected}, got {rest or 'the end'!r}")

    def _take(self, token: str) -> None:
        if self._peek() != token:
            self._fail(f"'{token}'")
        self._at += 1

    def _name(self) -> str:
        if self._peek() is None or self._tokens[self._at][0] != "name":
            self._fail("a name")
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _statement(self) -> list[Tree]:
        token = self._peek()
        if token == ";":
            self._at += 1
            return []
        if token == "{":
            self._at += 1
            found = []
            while self._peek() != "}":
                if self._peek() is None:
                    self._fail("'}'")
                found += self._statement()
            self._at += 1
            return found
        if token in _REFUSED:
            self._fail("assignments and if")
        if token == "if":
            self._at += 1
            self._take("(")
            condition = self._ternary()
            self._take(")")
            then = self._statement()
            otherwise = []
            if self._peek() == "else":
                self._at += 1
                otherwise = self._statement()
            return [("if", condition, tuple(then), tuple(otherwise))]
        found = self._assignments()
        self._take_end()
        return found

    def _take_end(self) -> None:  # the last semicolon may be left out
        if self._peek() is not None:
            self._take(";")

    def _assignments(self) -> list[Tree]:
        declared = self._type()
        found = []
        while True:
            found.append(self._assignment(declared))
            if declared is None or self._peek() != ",":
                return found
            self._at += 1

    def _assignment(self, declared: str | None) -> Tree:
        op = self._peek()
        if op in ("++", "--"):
            self._at += 1
            name = self._name()
            return "assign", None, name, ("binary", op[0], ("name", name), ("number", 1))
        name = self._name()
        op = self._peek()
        if op in ("++", "--"):
            self._at += 1
            return "assign", None, name, ("binary", op[0], ("name", name), ("number", 1))
        if op == "[":
            self._fail("variables without indexes")
        if op == "=":
            self._at += 1
            return "assign", declared, name, self._ternary()
        if declared is None and op is not None and op[-1] == "=" and op[:-1] in _BINDS:
            self._at += 1
            return "assign", None, name, ("binary", op[:-1], ("name", name), self._ternary())
        if declared is not None:
            return "assign", declared, name, ("number", 0)  # C leaves it undefined
        return self._fail("an assignment")

    def _type(self) -> str | None:
        """The type that stands here, which is left behind; None if there is none."""
        start = self._at
        while self._peek() == "const":
            self._at += 1
        word = self._peek()
        second = self._peek(1)
        if word in ("unsigned", "signed", "long") and second in ("char", "long", "int"):
            word += f" {second}"
            self._at += 1
        named = self._types.get(word or "") or TYPES.get(word or "")
        if named is None:
            if word is not None and (word == "auto" or word.startswith(("unsigned", "long int"))):
                self._fail("a type that arrays have")
            self._at = start
            return None
        self._at += 1
        while self._peek() in ("const", "&"):
            self._at += 1
        return named

    def _ternary(self) -> Tree:
        condition = self._binary(1)
        if self._peek() != "?":
            return condition
        self._at += 1
        yes = self._ternary()
        self._take(":")
        return "choose", condition, yes, self._ternary()

    def _binary(self, least: int) -> Tree:
        left = self._unary()
        while (op := self._peek()) is not None and _BINDS.get(op, 0) >= least:
            self._at += 1
            left = "binary", op, left, self._binary(_BINDS[op] + 1)
        return left

    def _unary(self) -> Tree:
        op = self._peek()
        if op in ("-", "+", "!", "~"):
            self._at += 1
            return "unary", op, self._unary()
        if op == "(":
            self._at += 1
            cast = self._type()
            if cast is not None:
                self._take(")")
                return "cast", cast, self._unary()
            tree = self._ternary()
            self._take(")")
            return tree
        return self._primary()

    def _primary(self) -> Tree:
        if self._peek() is None:
            self._fail("a value")
        kind, token = self._tokens[self._at]
        if kind == "float":
            self._at += 1
            number = "number", float(token.rstrip("fF"))
            return ("cast", "float32", number) if token[-1] in "fF" else number
        if kind == "int":
            return self._integer(token)
        if kind != "name":
            self._fail("a value")
        if token == "static_cast":
            self._at += 1
            self._take("<")
            cast = self._type()
            if cast is None:
                self._fail("a type")
            self._take(">")
            return "cast", cast, self._in_parentheses()
        cast = self._type()
        if cast is not None:
            return "cast", cast, self._in_parentheses()
        self._at += 1
        if self._peek() == "(":
            return self._call(token.split("::")[-1])
        if self._peek() in ("[", "."):
            self._fail("variables without indexes and members")
        if token in ("true", "false"):
            return "number", token == "true"
        return "name", token

    def _integer(self, token: str) -> Tree:
        digits = token.rstrip("lL")
        base = 16 if digits[:2] in ("0x", "0X") else 10
        octal = base == 10 and len(digits) > 1 and digits[0] == "0"
        try:
            value = int(digits, base)
        except ValueError:  # a suffix of unsigned, or of nothing
            value = None
        if octal or value is None or value >= 2**63 or len(token) - len(digits) > 2:
            self._fail("a signed integer, decimal or hexadecimal")
        self._at += 1
        number = "number", value
        return ("cast", "int64", number) if token != digits or value >= 2**31 else number

    def _in_parentheses(self) -> Tree:
        self._take("(")
        tree = self._ternary()
        self._take(")")
        return tree

    def _call(self, name: str) -> Tree:
        arity = arity_of(name)
        if arity is None:
            self._at -= 1
            self._fail("a function of C's mathematics")
        arguments = self._arguments()
        if len(arguments) != arity:
            self._fail(f"{arity} arguments of {name}, got {len(arguments)} before this")
        return "call", name, arguments

    def _arguments(self) -> tuple[Tree, ...]:
        self._take("(")
        found = []
        while self._peek() != ")":
            found.append(self._ternary())
            if self._peek() != ",":
                break
            self._at += 1
        self._take(")")
        return tuple(found)
