"""Random expressions of integers, against an interpreter of C for one element at a time, and gcc."""

import ctypes
import operator
import subprocess

import chx
import numpy as np
import pytest
from chx import kernels

# C's name of a type: its bits, and whether it has a sign.
TYPES = {
    "signed char": (8, True),
    "unsigned char": (8, False),
    "short": (16, True),
    "unsigned short": (16, False),
    "int": (32, True),
    "unsigned int": (32, False),
    "long long": (64, True),
    "unsigned long long": (64, False),
}
WRAPPING = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
COMPARING = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
INT = (32, True)


def wrapped(value, kind):
    bits, signed = kind
    value %= 1 << bits
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def promoted(value, kind):
    return (value, kind) if kind[0] >= 32 else (value, INT)


def common(x, y):
    (a, one), (b, other) = promoted(*x), promoted(*y)
    bits = max(one[0], other[0])
    kind = bits, all(signed for width, signed in (one, other) if width == bits)
    return wrapped(a, kind), wrapped(b, kind), kind


def quotient(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


class Expression:
    """A random one: its text, and a function of variables that returns a value and its type."""

    def __init__(self, rng, names, depth):
        kind = rng.integers(0, 9) if depth else rng.integers(7, 9)
        part = [Expression(rng, names, depth - 1) for _ in range(3 if depth else 0)]
        texts = [p.text for p in part]
        if kind == 0:
            op = rng.choice(list(COMPARING))
            self.text = f"({texts[0]} {op} {texts[1]})"
            self.value = lambda v: self._compared(op, part, v)
        elif kind == 1:
            op = rng.choice(["/", "%"])
            self.text = f"({texts[0]} {op} (({texts[1]} & 15) + 1))"
            self.value = lambda v: self._divided(op, part, v)
        elif kind == 2:
            op, count = rng.choice(["<<", ">>"]), int(rng.integers(0, 32))
            self.text = f"({texts[0]} {op} {count})"
            self.value = lambda v: self._shifted(op, count, part, v)
        elif kind == 3:
            self.text = f"({texts[0]} ? {texts[1]} : {texts[2]})"
            self.value = lambda v: self._chosen(part, v)
        elif kind == 4:
            op, name = rng.choice(["-", "~", "!"]), rng.choice(list(TYPES))
            self.text = f"({name})({op}{texts[0]})"
            self.value = lambda v: self._cast(op, TYPES[name], part, v)
        elif kind == 5:
            op = rng.choice(["&&", "||"])
            self.text = f"({texts[0]} {op} {texts[1]})"
            self.value = lambda v: self._joined(op, part, v)
        elif kind == 6 or (kind == 7 and depth):
            op = rng.choice(list(WRAPPING))
            self.text = f"({texts[0]} {op} {texts[1]})"
            self.value = lambda v: self._wrapped(op, part, v)
        elif kind == 7:
            number = int(rng.integers(0, 2**31))
            self.text, self.value = str(number), lambda v: (number, INT)
        else:
            self.text = name = str(rng.choice(names))
            self.value = lambda v: v[name]

    def _compared(self, op, part, v):
        a, b, _ = common(part[0].value(v), part[1].value(v))
        return int(COMPARING[op](a, b)), INT

    def _divided(self, op, part, v):
        a, b, kind = common(part[1].value(v), (15, INT))
        a, b, kind = common(part[0].value(v), ((a & b) + 1, kind))
        return wrapped(quotient(a, b) if op == "/" else a - quotient(a, b) * b, kind), kind

    def _shifted(self, op, count, part, v):
        a, kind = promoted(*part[0].value(v))
        return wrapped(a << count if op == "<<" else a >> count, kind), kind

    def _chosen(self, part, v):
        a, b, kind = common(part[1].value(v), part[2].value(v))
        return (a if part[0].value(v)[0] else b), kind

    def _cast(self, op, kind, part, v):
        a, own = promoted(*part[0].value(v))
        result = {"-": -a, "~": ~a, "!": int(not a)}[op]
        return wrapped(result if op == "!" else wrapped(result, own), kind), kind

    def _joined(self, op, part, v):
        a, b = (bool(p.value(v)[0]) for p in part[:2])
        return int(a and b if op == "&&" else a or b), INT

    def _wrapped(self, op, part, v):
        a, b, kind = common(part[0].value(v), part[1].value(v))
        return wrapped(WRAPPING[op](a, b), kind), kind


NAMES = [f"v{k}" for k in range(len(TYPES))]
VARIABLES = "".join(f"{t} {n} = x{n};" for t, n in zip(TYPES, NAMES))


def random_inputs(rng):
    """Of each variable, as int64."""
    edges = [0, 1, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 128, 65535, 2**32]
    inputs = rng.integers(-(2**63), 2**63 - 1, (len(TYPES), 24), endpoint=True)
    inputs >>= rng.integers(0, 63, inputs.shape)
    inputs[:, : len(edges)] = rng.permuted(np.tile(edges, (len(TYPES), 1)), axis=1)
    return inputs


def computed(expression, remote):
    """What chx.kernels gives."""
    parameters = ", ".join("int64 x" + n for n in NAMES)
    text = VARIABLES + f"y = (long long)({expression.text});"
    return chx.to_numpy(kernels.ElementwiseKernel(parameters, "int64 y", text)(*remote))


@pytest.mark.parametrize("turn", range(8))
def test_random_expressions_give_the_same_bits(rng, turn):
    rng = np.random.default_rng([*rng.integers(0, 2**31, 2), turn])
    inputs = random_inputs(rng)
    remote = [chx.array(row) for row in inputs]
    elements = [
        {n: (wrapped(int(x), t), t) for n, x, t in zip(NAMES, column, TYPES.values())}
        for column in inputs.T
    ]
    for _ in range(12):
        expression = Expression(rng, NAMES, 4)
        want = [wrapped(expression.value(v)[0], (64, True)) for v in elements]
        got = computed(expression, remote)
        np.testing.assert_array_equal(got, np.array(want, "int64"), expression.text)


def test_random_expressions_are_as_gcc_compiles_them(rng, tmp_path):
    expressions = [Expression(rng, NAMES, 4) for _ in range(40)]
    parameters = ", ".join(f"long long x{n}" for n in NAMES)
    source = "".join(
        f"long long f{k}({parameters}) {{ {VARIABLES} return {each.text}; }}\n"
        for k, each in enumerate(expressions)
    )
    command = ["gcc", "-x", "c", "-w", "-fwrapv", "-shared", "-fPIC", "-o", tmp_path / "f.so", "-"]
    subprocess.run(command, input=source, text=True, check=True)
    library = ctypes.CDLL(str(tmp_path / "f.so"))
    inputs = random_inputs(rng)
    remote = [chx.array(row) for row in inputs]
    for k, expression in enumerate(expressions):
        function = library[f"f{k}"]
        function.restype = ctypes.c_longlong
        want = [function(*map(ctypes.c_longlong, column.tolist())) for column in inputs.T]
        got = computed(expression, remote)
        np.testing.assert_array_equal(got, np.array(want, "int64"), expression.text)


def test_unsigned_integers_and_floats(rng):
    x = np.array([0, 1, -1, 2**63 - 1, -(2**63), -(2**61) * 3 + 1, 2**53 + 1, -1025], "int64")
    kernel = kernels.ElementwiseKernel(
        "int64 x",
        "float64 d, float32 f, int64 back, int32 low, int64 u",
        "unsigned long long w = x; d = w; f = w; back = (unsigned long long)d / 2; low = (int)3.9 + w;"
        "u = (unsigned int)x * 1.0;",
    )
    d, f, back, i, u = (chx.to_numpy(a) for a in kernel(chx.array(x)))
    w = x.astype("uint64")
    np.testing.assert_array_equal(d, w.astype("d"))
    np.testing.assert_array_equal(f, w.astype("f"))
    exact = [int(v) // 2 for v in w.astype("d")]
    fits = np.array([v < 2**63 for v in exact])
    fits &= w.astype("d") < 2.0**64
    np.testing.assert_array_equal(back[fits], np.array(exact, "uint64").astype("int64")[fits])
    np.testing.assert_array_equal(i, (w + np.uint64(3)).astype("int32"))
    np.testing.assert_array_equal(u, x.astype("uint32").astype("int64"))


def test_functions_of_mathematics(rng):
    x = rng.normal(scale=3, size=200).astype("f")
    x[:6] = [0.5, -0.5, 1.5, 2.5, 0.49999997, -0.0]
    halves = np.trunc(x) + np.where(np.abs(x - np.trunc(x)) >= 0.5, np.copysign(1, x), 0)
    for text, want in {
        "round(x)": halves,
        "lround(x)": halves,
        "roundf(x)": halves,
        "rint(x)": np.rint(x),
        "fmaxf(x, 0.25f)": np.maximum(x, np.float32(0.25)),
        "__expf(x)": np.exp(x),
        "exp10f(x)": np.float32(10) ** x,
        "copysign(2.0f, x)": np.copysign(np.float32(2), x),
        "signbit(x) + isnan(x)": np.signbit(x),
        "std::max<float>(x, 1)": np.maximum(x, np.float32(1)),
        "fmod(x, 0.75f)": np.fmod(x, np.float32(0.75)),
        "std::numeric_limits<T>::max()": np.finfo("f").max,
        "numeric_limits<int>::min()": np.float32(-(2**31)),
        "FLT_EPSILON + x * 0": np.finfo("f").eps,
        "cbrt(x)": np.cbrt(x),
    }.items():
        kernel = kernels.ElementwiseKernel("T x", "T y", f"y = {text}", "function")
        got = chx.to_numpy(kernel(chx.array(x)))
        np.testing.assert_allclose(got, np.broadcast_to(want, x.shape), rtol=2e-6, err_msg=text)


def test_types_of_both_sides_of_a_choice():
    one = chx.ones((2,), "float64")
    for text, want in {
        "(true ? 1 : 0.5) / 2": 0.5,
        "(false ? 0.5 : 1) / 2": 0.5,
        "(i < 0 ? 0.5 : 1) / 2": 0.5,
        "(true ? -1 : 1u) / 2": 2147483647,
        "(x, 3)": 3,
        "(k = 5) + k": 10,
        "k++ + k": 5,
        "++k + k": 6,
        "k-- - --k": 2,
        "(k += 2, k *= 3)": 12,
    }.items():
        kernel = kernels.ElementwiseKernel("T x", "T y", f"int k = 2; y = {text}")
        np.testing.assert_array_equal(chx.to_numpy(kernel(one)), [want] * 2, text)
