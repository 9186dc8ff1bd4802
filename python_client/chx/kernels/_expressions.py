"""The expressions of kernels.

Trees are tuples, the kind first:
  ("number", value, type or None for one without a suffix), ("name", name), ("unary", op, x),
  ("binary", op, x, y), ("choose", condition, x, y), ("cast", type, x), ("call", name, (x, ...)),
  ("index", x, position), ("deref", x), ("address", x), ("assign", op or "", target, x),
  ("step", op, target, whether its value is the new one), ("comma", x, y), ("member", name, member),
  ("method", name, method), ("limit", type, name).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from chx.kernels._functions import arity_of
from chx.kernels._lexer import Token
from chx.kernels._tokens import TokenReader, Tree

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
_ASSIGNS = {op + "=" for op in "+ - * / % & | ^ << >>".split()}
_THREADS = "threadIdx blockIdx blockDim gridDim".split()

ATOMICS = {"atomicAdd": "sum", "atomicMax": "max", "atomicMin": "min"}
_NOT_INDEPENDENT = "threads that are independent of each other"
# What is refused by its name, and what is expected instead.
_REFUSED = {
    **{
        name: _NOT_INDEPENDENT
        for name in "__shared__ __syncthreads __syncwarp __threadfence __threadfence_block "
        "__shfl_sync __shfl_down_sync __shfl_up_sync __shfl_xor_sync __ballot_sync __any_sync "
        "__all_sync cooperative_groups".split()
    },
    **{
        name: "atomicAdd, atomicMax or atomicMin"
        for name in "atomicSub atomicExch atomicCAS atomicInc atomicDec atomicAnd atomicOr atomicXor".split()
    },
    **{name: "a function without output" for name in "printf assert __trap".split()},
    **{name: "arrays of the arguments" for name in "malloc free new delete memcpy memset".split()},
    **{
        name: "assignments, if, for, while, do and return"
        for name in "switch goto try throw asm __asm__".split()
    },
    **{name: "numbers and arrays" for name in "struct class union enum sizeof void".split()},
}


class ExpressionParser(TokenReader):
    """Parses expressions.

    Args:
      functions: how many arguments each function of the preamble has.
      plain: names of parameters without indexes.
    """

    def __init__(
        self,
        kernel: str,
        tokens: list[Token],
        types: Mapping[str, str],
        functions: Mapping[str, int],
        plain: Collection[str],
    ) -> None:
        super().__init__(kernel, tokens, types)
        self._functions = functions
        self._plain = plain

    def _refuse(self) -> None:
        hint = _REFUSED.get(self._peek() or "")
        if hint is not None and self._kind() == "name":
            self._fail(hint)

    def _comma(self) -> Tree:
        tree = self._assignment()
        while self._skip(","):
            tree = "comma", tree, self._assignment()
        return tree

    def _assignment(self) -> Tree:
        start = self._at
        tree = self._ternary()
        op = self._peek()
        if op != "=" and op not in _ASSIGNS:
            return tree
        if tree[0] not in ("name", "index", "deref"):
            self._at = start
            self._fail("a variable to assign")
        self._at += 1
        return "assign", (op or "")[:-1], tree, self._assignment()

    def _ternary(self) -> Tree:
        condition = self._binary(1)
        if not self._skip("?"):
            return condition
        yes = self._assignment()
        self._take(":")
        return "choose", condition, yes, self._assignment()

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
        if op in ("++", "--", "&", "*"):
            self._at += 1
            start = self._at
            target = self._unary()
            if op == "*":
                return "deref", target
            if target[0] not in ("name", "index", "deref"):
                self._at = start
                self._fail("a variable or an element")
            return ("address", target) if op == "&" else ("step", op[0], target, True)
        if op == "(":
            self._at += 1
            cast = self._type()
            if cast is not None:
                self._no_pointer()
                self._take(")")
                return "cast", cast, self._unary()
            tree = self._comma()
            self._take(")")
            return self._postfix(tree)
        return self._postfix(self._primary())

    def _no_pointer(self) -> None:
        if self._peek() in ("*", "&"):
            self._fail("a type of numbers")

    def _postfix(self, tree: Tree) -> Tree:
        while True:
            op = self._peek()
            if op == "[":
                if tree[0] == "name" and tree[1] in self._plain:
                    self._fail(f"{tree[1]} without an index, or as a raw parameter")
                self._at += 1
                tree = "index", tree, self._comma()
                self._take("]")
            elif op in ("++", "--") and tree[0] in ("name", "index", "deref"):
                self._at += 1
                tree = "step", op[0], tree, False
            else:
                return tree

    def _primary(self) -> Tree:
        self._refuse()
        if self._peek() is None:
            self._fail("a value")
        token = self._tokens[self._at]
        if token.kind == "float":
            self._at += 1
            single = token.text[-1] in "fF"
            return "number", float(token.text.rstrip("fF")), "float32" if single else None
        if token.kind == "int":
            return self._integer(token.text)
        if token.kind != "name":
            self._fail("a value")
        if token.text in ("static_cast", "reinterpret_cast", "const_cast"):
            return self._named_cast(token.text)
        cast = self._type()
        if cast is not None:
            self._no_pointer()
            return "cast", cast, self._in_parentheses()
        name = self._name()
        while self._peek() == "::":
            self._at += 1
            self._refuse()
            name = self._name()
        if name in ("true", "false"):
            return "number", name == "true", "bool"
        if name == "numeric_limits":
            return self._limit()
        if self._peek() == ".":
            return self._member(name)
        if self._peek() in ("(", "<") and self._is_call(name):
            return self._call(name)
        return "name", name

    def _named_cast(self, name: str) -> Tree:
        if name != "static_cast":
            self._fail("static_cast")
        self._at += 1
        self._take("<")
        cast = self._type()
        if cast is None:
            self._fail("a type")
        self._no_pointer()
        self._take(">")
        return "cast", cast, self._in_parentheses()

    def _integer(self, token: str) -> Tree:
        digits = token.lower().rstrip("ul")
        suffix = token.lower()[len(digits) :]
        base = 16 if digits[:2] == "0x" else 8 if digits[0] == "0" else 10
        try:
            value = int(digits, base)
        except ValueError:  # a suffix of nothing, or far too long
            value = 2**64
        unsigned = "u" in suffix
        if suffix not in ("", "u", "l", "ll", "ul", "ull", "lu", "llu") or value >= 2**64:
            self._fail("an integer of at most 64 bits, decimal, octal or hexadecimal")
        if not unsigned and value >= 2**63 and base == 10:
            self._fail("an integer of at most 64 bits: one from 2^63 on has the suffix u")
        self._at += 1
        if not suffix and value < 2**31:
            return "number", value, None
        wide = "l" in suffix or value >= 2**32
        if base != 10 and not unsigned:  # C lets these be unsigned where they don't fit
            unsigned = value >= 2**63 or (not wide and value >= 2**31)
        wide = wide or (not unsigned and value >= 2**31)
        return "number", value, f"{'u' if unsigned else ''}int{64 if wide else 32}"

    def _in_parentheses(self) -> Tree:
        self._take("(")
        tree = self._comma()
        self._take(")")
        return tree

    def _limit(self) -> Tree:
        self._take("<")
        named = self._type()
        if named is None:
            self._fail("a type")
        self._take(">")
        self._take("::")
        name = self._name()
        self._take("(")
        self._take(")")
        return "limit", named, name

    def _member(self, name: str) -> Tree:
        self._take(".")
        member = self._name()
        if name in _THREADS and member in ("x", "y", "z"):
            return "member", name, member
        if member in ("size", "get", "shape") and self._peek() == "(":
            self._take("(")
            self._take(")")
            return "method", name, member
        if member == "ndim":
            return "method", name, member
        self._at -= 1
        return self._fail("size(), shape() or ndim of an array, or get() of _ind")

    def _is_call(self, name: str) -> bool:
        if self._peek() == "(":
            return True
        known = name in self._functions or arity_of(name) is not None
        return known and self._is_types()

    def _is_types(self) -> bool:
        """Whether a list of types stands here, as in max<int>(x, y)."""
        start = self._at
        self._take("<")
        found = self._type() is not None and self._peek() in (">", ",")
        self._at = start
        return found

    def _call(self, name: str) -> Tree:
        count = self._functions.get(name)
        if count is None:
            count = 2 if name in ATOMICS else 1 if name == "__ldg" else arity_of(name)
        if count is None:
            self._at -= 1
            self._fail("a function of C's mathematics, or of the preamble and above this")
        types: list[str] = []
        if self._skip("<"):
            while not types or self._skip(","):
                types.append(self._type() or self._fail("a type"))
            self._take(">")
        arguments = self._arguments()
        if len(arguments) != count:
            self._fail(f"{count} arguments of {name}, got {len(arguments)} before this")
        if types and name not in self._functions:  # as in max<float>(x, y)
            arguments = tuple(("cast", types[0], x) for x in arguments)
        return "call", name, arguments, tuple(types)

    def _arguments(self) -> tuple[Tree, ...]:
        self._take("(")
        found = []
        while self._peek() != ")":
            found.append(self._assignment())
            if not self._skip(","):
                break
        self._take(")")
        return tuple(found)
