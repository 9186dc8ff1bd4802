"""What the parsers of kernels share: a place among tokens, errors that say where, and types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from chx._compat import TypeAlias
from chx.kernels import _types
from chx.kernels._lexer import Token

MAX_DEPTH = 100

Tree: TypeAlias = tuple[Any, ...]
_T = TypeVar("_T")


def depth_of(tree: Any) -> int:
    deepest, left = 0, [(tree, 0)]
    while left:
        node, depth = left.pop()
        depth += bool(node) and isinstance(node[0], str)
        deepest = max(deepest, depth)
        left += [(part, depth) for part in node if isinstance(part, tuple)]
    return deepest


class TokenReader:
    """Reads the tokens of one text.

    Args:
      kernel: its name, for errors.
      tokens: of the text.
      types: names that stand for types, beside C's and NumPy's.
    """

    def __init__(self, kernel: str, tokens: list[Token], types: Mapping[str, str]) -> None:
        self._kernel = kernel
        self._tokens = tokens
        self._types = dict(types)
        self._at = 0
        # Types, such as half, whose names a variable has taken.
        self.hidden: set[str] = set()

    def bounded(self, parse: Callable[[], _T]) -> _T:
        """What `parse` returns. What is parsed is evaluated by recursion, too."""
        tree: _T | None
        try:
            tree = parse()
        except RecursionError:
            tree = None
        if tree is None or depth_of(tree) > MAX_DEPTH:
            raise ValueError(
                f"[{self._kernel}] expects operations nested at most {MAX_DEPTH} deep, got more: "
                "split the expression by variables"
            )
        return tree

    def _peek(self, ahead: int = 0) -> str | None:
        place = self._at + ahead
        return self._tokens[place].text if place < len(self._tokens) else None

    def _kind(self) -> str:
        return self._tokens[self._at].kind if self._at < len(self._tokens) else ""

    def _line(self) -> int:
        place = min(self._at, len(self._tokens) - 1)
        return self._tokens[place].line if self._tokens else 1

    def _fail(self, expected: str) -> NoReturn:
        rest = " ".join(token.text for token in self._tokens[self._at : self._at + 6])
        where = ""
        if self._at < len(self._tokens):
            token = self._tokens[self._at]
            where = f" in line {token.line}, column {token.column}"
        raise ValueError(f"[{self._kernel}] expects {expected}, got {rest or 'the end'!r}{where}")

    def _take(self, token: str) -> None:
        if self._peek() != token:
            self._fail(f"'{token}'")
        self._at += 1

    def _skip(self, token: str) -> bool:
        """Whether this token was here; it is left behind."""
        found = self._peek() == token
        self._at += found
        return found

    def _name(self) -> str:
        if self._kind() != "name":
            self._fail("a name")
        self._at += 1
        return self._tokens[self._at - 1].text

    def _new_name(self) -> str:
        """The name of a variable."""
        name = self._name()
        if name in _types.TYPES and not _types.is_basic(name):
            self.hidden.add(name)
        return name

    def _qualifiers(self) -> None:
        """Leaves const and the like behind."""
        while self._peek() in _types.QUALIFIERS:
            self._at += 1

    def _type(self) -> str | None:
        """The type that stands here, which is left behind; None if there is none."""
        start = self._at
        self._qualifiers()
        if self._peek() == "std" and self._peek(1) == "::":
            self._at += 2
        words = []
        while _types.is_basic(word := self._peek()):
            words.append(word or "")
            self._at += 1
            self._qualifiers()
        if words:
            named = _types.of_words(words)
            if named is None:
                self._at -= 1
                self._fail("a type that arrays have")
            return named
        named = self._types.get(word or "") or _types.TYPES.get(word or "")
        if named is None or word in self.hidden:
            self._at = start
            return None
        self._at += 1
        self._qualifiers()
        return named
