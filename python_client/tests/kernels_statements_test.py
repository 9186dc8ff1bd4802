"""Random programs of branches, loops and writes, against the same programs in Python, thread by thread."""

import chx
import numpy as np
import pytest
from chx import kernels
from chx.kernels import _positions

PREAMBLE = """
__device__ int mixed(int p, int &q) {
    for (int t = 0; t < 3; ++t) {
        if ((p & 7) == t) return q ^ t;
        if (q & 16) continue;
        q += p;
    }
    return p - q;
}
"""


def wrapped(value):
    return (value + 2**31) % 2**32 - 2**31


def mixed(p, q):
    for t in range(3):
        if (p & 7) == t:
            return q ^ t, q
        if q & 16:
            continue
        q = wrapped(q + p)
    return wrapped(p - q), q


def turns(limit):
    count = 0
    while count < limit():
        yield count
        count += 1


class Program:
    """A random one: its text in C, and a function of Python's for one thread."""

    def __init__(self, rng):
        self._rng = rng
        self._loops = 0
        c, python = self._block(4, False)
        self.text = "y = 0; z = 0; int a = x, b = i, c = 3;\n" + c + "y = a ^ b; z = c;"
        source = "def run(x, i, out):\n a, b, c = x, i, 3\n y = z = 0\n"
        source += "\n".join(_indented(python)) + "\n return wrapped(a ^ b), c\n"
        scope = {"wrapped": wrapped, "mixed": mixed, "turns": turns}
        exec(source, scope)
        self.run = scope["run"]

    def _name(self):
        return str(self._rng.choice(["a", "b", "c"]))

    def _block(self, depth, in_loop):
        parts = [self._statement(depth, in_loop) for _ in range(self._rng.integers(1, 5))]
        return "".join(c for c, _ in parts), "\n".join(python for _, python in parts)

    def _statement(self, depth, in_loop):
        v, w, u = self._name(), self._name(), self._name()
        kind = self._rng.integers(0, 10 if depth else 4)
        mask = int(self._rng.integers(1, 8))
        if kind <= 1:
            op, number = self._rng.choice(["+", "-", "*", "^", "&"]), int(self._rng.integers(0, 99))
            return (
                f"{v} = ({w} {op} {u}) + {number};\n",
                f"{v} = wrapped(({w} {op} {u}) + {number})",
            )
        if kind == 2:
            place = f"i * 4 + ({v} & 3)"
            return f"out[{place}] += {w};\n", f"out[{place}] = wrapped(out[{place}] + {w})"
        if kind == 3:
            return f"{v} = mixed({w}, {u});\n", f"value, {u} = mixed({w}, {u})\n{v} = value"
        if kind <= 6:
            then, otherwise = (self._block(depth - 1, in_loop) for _ in range(2))
            c = f"if ({v} & {mask}) {{\n{then[0]}}} else {{\n{otherwise[0]}}}\n"
            python = [f"if {v} & {mask}:", *_indented(then[1]), "else:", *_indented(otherwise[1])]
            return c, "\n".join(python)
        if kind == 7 or not in_loop:
            self._loops += 1
            q = f"q{self._loops}"
            body = self._block(depth - 1, True)
            c = f"for (int {q} = 0; {q} < ({v} & 3); ++{q}) {{\n{body[0]}}}\n"
            python = [f"for {q} in turns(lambda: {v} & 3):", *_indented(body[1])]
            return c, "\n".join(python)
        word = self._rng.choice(["break", "continue", "return"])
        python = "return 0, 0" if word == "return" else word
        return f"if (({v} & {mask}) == {mask}) {word};\n", f"if {v} & {mask} == {mask}: {python}"


def _indented(text):
    return [" " + line for line in text.split("\n")]


@pytest.mark.parametrize("known", [_positions.MAX_KNOWN, -1])
@pytest.mark.parametrize("turn", range(20))
def test_random_programs(known, turn, monkeypatch):
    monkeypatch.setattr(_positions, "MAX_KNOWN", known)
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    rng = np.random.default_rng(seed)
    program = Program(rng)
    print(program.text)
    x = rng.integers(-(2**31), 2**31, 16).astype("int32")
    kernel = kernels.ElementwiseKernel(
        "int32 x", "int32 y, int32 z, raw int32 out", program.text, "random", PREAMBLE
    )
    y, z, out = chx.zeros((16,), "int32"), chx.zeros((16,), "int32"), chx.zeros((64,), "int32")
    kernel(chx.array(x), y, z, out)
    written = [0] * 64
    want = [program.run(int(value), i, written) for i, value in enumerate(x)]
    np.testing.assert_array_equal(chx.to_numpy(out), written)
    np.testing.assert_array_equal(chx.to_numpy(y), [a for a, _ in want])
    np.testing.assert_array_equal(chx.to_numpy(z), [b for _, b in want])
