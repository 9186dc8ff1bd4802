"""Tokens of C++, with its comments and macros."""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

MAX_CHARACTERS = 200_000
MAX_TOKENS = 50_000

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<float>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?|\d+[eE][+-]?\d+[fF]?)
    |(?P<int>(?:0[xX][0-9a-fA-F]+|\d+)\w*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<string>"[^"\\\n]*")
    |(?P<op><<=|>>=|\+\+|--|&&|\|\||<<|>>|->|::|[-+*/%<>=!&|^]=|[-+*/%<>=!&|^~?:;,(){}\[\].])
    )""",
    re.VERBOSE,
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DIRECTIVE = re.compile(r"\s*#\s*(\w*)")
_DEFINE = re.compile(r"\s*#\s*define\s+([A-Za-z_]\w*)(?:(\(([\w\s,]*)\))|(?=\s|$))(.*)", re.DOTALL)


class Token(NamedTuple):
    kind: str
    text: str
    line: int
    column: int


class Macro(NamedTuple):
    parameters: tuple[str, ...] | None  # None: it is used without parentheses
    body: tuple[Token, ...]


class Lexer:
    """Splits the texts of one kernel; macros of one text hold for those that follow.

    Args:
      kernel: its name, for errors.
    """

    def __init__(self, kernel: str) -> None:
        self._kernel = kernel
        self._macros: dict[str, Macro] = {}
        self._count = 0

    def split(self, text: str) -> list[Token]:
        """The tokens of a text, with macros replaced by what they stand for.

        Raises:
          ValueError: it is no C++, or is too long.
        """
        if len(text) > MAX_CHARACTERS:
            raise ValueError(
                f"[{self._kernel}] expects at most {MAX_CHARACTERS} characters, got {len(text)}"
            )
        lines = _COMMENT.sub(lambda m: " " + "\n" * m[0].count("\n"), text).split("\n")
        found: list[Token] = []
        plain: list[Token] = []
        at = 0
        while at < len(lines):
            start, line = at, lines[at].rstrip()
            at += 1
            if not _DIRECTIVE.match(line):
                plain += self._tokens(line[:-1] if line.endswith("\\") else line, start + 1)
                continue
            while line.endswith("\\") and at < len(lines):
                line = line[:-1] + " " + lines[at].rstrip()
                at += 1
            found += self._expanded(plain, frozenset())
            plain = []
            self._direct(line, start + 1)
        return found + self._expanded(plain, frozenset())

    def _fail(self, expected: str, got: str, line: int) -> NoReturn:
        raise ValueError(f"[{self._kernel}] expects {expected}, got {got!r} in line {line}")

    def _tokens(self, text: str, line: int) -> list[Token]:
        tokens = []
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                self._fail("an operation", text[at : at + 20].strip(), line)
            at = match.end()
            kind = match.lastgroup or ""
            tokens.append(Token(kind, match[kind], line, match.start(kind) + 1))
        return tokens

    def _direct(self, text: str, line: int) -> None:
        match = _DIRECTIVE.match(text)
        directive = match[1] if match else ""
        if directive in (
            "include",
            "pragma",
        ):  # what they would add or say, kernels know or need not
            return
        define = _DEFINE.match(text) if directive == "define" else None
        if directive == "undef":
            self._macros.pop(text.split("undef", 1)[1].strip(), None)
        elif define is None or "#" in define[4]:
            self._fail("#define, #undef, #include or #pragma", text.strip()[:40], line)
        else:
            names = None
            if define[2]:
                names = tuple(name.strip() for name in define[3].split(",") if name.strip())
            self._macros[define[1]] = Macro(names, tuple(self._tokens(define[4], line)))

    def _expanded(self, tokens: list[Token], within: frozenset[str]) -> list[Token]:
        """What macros stand for, but for those whose replacement this is."""
        found: list[Token] = []
        at = 0
        while at < len(tokens):
            token = tokens[at]
            at += 1
            self._count += 1  # also of macros that stand for nothing
            if self._count > MAX_TOKENS:
                raise ValueError(f"[{self._kernel}] expects at most {MAX_TOKENS} tokens, got more")
            macro = self._macros.get(token.text) if token.text not in within else None
            arguments: dict[str, list[Token]] = {}
            names = None if macro is None else macro.parameters
            if names is not None:
                if at == len(tokens) or tokens[at].text != "(":
                    macro = None
                else:
                    groups, at = self._arguments(tokens, at, within)
                    if len(groups) != len(names):
                        wanted = f"{len(names)} arguments of {token.text}"
                        self._fail(wanted, str(len(groups)), token.line)
                    arguments = dict(zip(names, groups))
            if macro is None:
                found.append(token)
                continue
            body: list[Token] = []
            for part in macro.body:
                own = [part._replace(line=token.line, column=token.column)]
                body += arguments.get(part.text, own)
                if len(body) > MAX_TOKENS:
                    break  # and the count of what they stand for says so
            if len(within) == 50:
                self._fail("macros nested at most 50 deep", token.text, token.line)
            found += self._expanded(body, within | {token.text})
        return found

    def _arguments(
        self, tokens: list[Token], at: int, within: frozenset[str]
    ) -> tuple[list[list[Token]], int]:
        """The arguments of a macro, which stand in parentheses from here, and where they end."""
        groups: list[list[Token]] = [[]]
        depth, start = 0, tokens[at]
        while at < len(tokens):
            token = tokens[at]
            at += 1
            depth += (token.text in "([{") - (token.text in ")]}")
            if depth == 0:
                groups = [self._expanded(group, within) for group in groups]
                return ([] if groups == [[]] else groups), at
            if depth == 1 and token.text == ",":
                groups.append([])
            elif depth > 1 or token.text != "(":
                groups[-1].append(token)
        self._fail("')' after a macro's arguments", start.text, start.line)
