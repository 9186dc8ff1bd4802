"""What a client does: each operation once for chx and once for NumPy, with the same bits as result.

An operation is a tuple (name, slot, argument). A state is a dict of arrays by slot. NumPy and chx
agree to the last bit where IEEE 754 says what the result is, or where all sums are exact.
"""

import numpy as np

# Slot -> dtype and shape of the arrays in it; the last is of any size, an upload.
SLOTS = {
    "i0": ("int64", (16,)),
    "i1": ("int64", (300,)),
    "h0": ("int32", (7, 3)),
    "f0": ("float32", (33,)),
    "f1": ("float32", (64, 5)),
    "d0": ("float64", (8, 5)),
    "d1": ("float64", ()),
    "w": ("float64", (3, 2)),
    "bulk": ("float32", (10,)),
}
INTEGERS = ("i0", "i1", "h0")
FLOATS = ("f0", "f1", "d0", "d1", "bulk")
FACTORS = (0.5, 0.75, 0.1, -0.9, 1.25)
_RATE = 2.0**-6


def values(seed, dtype, shape):
    """Some values; small whole numbers for whole dtypes."""
    draw = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "i":
        return draw.integers(-1000, 1000, shape).astype(dtype)
    return draw.standard_normal(shape).astype(dtype)


def _samples(seed):
    draw = np.random.default_rng(seed)
    x = draw.integers(-2, 3, (4, 3)).astype("float64")
    return x, draw.integers(-4, 5, (4, 2)).astype("float64")


class _Common:
    """What reads the same in both libraries, `xp`."""

    def __init__(self, xp):
        self.xp = xp
        self.state = {}

    def apply(self, operation):
        name, slot, argument = operation
        getattr(self, name)(slot, argument)

    def new(self, slot, _):
        self.state[slot] = self.xp.zeros(SLOTS[slot][1], SLOTS[slot][0])

    def upload(self, slot, seed):
        self.state[slot] = self.xp.array(values(seed, *SLOTS[slot]))

    def upload_bulk(self, slot, argument):
        seed, elements = argument
        self.state[slot] = self.xp.array(values(seed, "float32", (elements,)))

    def add(self, slot, number):
        self.state[slot] += number

    def multiply(self, slot, number):
        self.state[slot] *= number

    def add_to_part(self, slot, argument):
        begin, step, number = argument
        part = self.state[slot][begin::step]
        part += number

    def affine(self, slot, argument):
        factor, term = argument
        self.state[slot] = self.state[slot] * factor + term

    def combine(self, slot, other):
        self.state[slot] = self.state[slot] * 0.5 - self.state[other]

    def root(self, slot, _):
        self.state[slot] = self.xp.sqrt(self.xp.maximum(self.state[slot], 0.25))

    def run(self, slot, argument):
        """Many commands at once: what one batch holds and more."""
        count, factor, term = argument
        array = self.state[slot]
        for _ in range(count):
            array *= factor
            array += term


class Numpy(_Common):
    """The model."""

    def __init__(self):
        super().__init__(np)

    def apply(self, operation):
        with np.errstate(all="ignore"):
            super().apply(operation)
        slot = operation[1]
        self.state[slot] = np.asarray(self.state[slot])  # NumPy makes scalars of 0-d arrays

    def read(self, slot):
        return self.state[slot].tobytes()

    def total(self, slot):
        return int(self.state[slot].sum())

    def train(self, slot, seed):
        """A step of linear regression, in numbers that are all exact, then rounded to eighths."""
        x, y = _samples(seed)
        w = self.state[slot]
        gradient = x.T @ (2 * (x @ w - y))
        self.state[slot] = np.clip(np.floor((w - gradient * _RATE) * 8) / 8, -8, 8)

    def write_shared(self, slot, number):
        self.state[slot] += number


class Chx(_Common):
    """The same through a session, which is the default one."""

    def __init__(self):
        import chx

        super().__init__(chx)

    def read(self, slot):
        return self.xp.to_numpy(self.state[slot]).tobytes()

    def read_shared(self, slot):
        return self.xp.to_numpy(self.state[slot], copy=False).tobytes()

    def total(self, slot):
        return int(self.state[slot].sum())

    def train(self, slot, seed):
        chx = self.xp
        x, y = (chx.array(values) for values in _samples(seed))
        w = self.state[slot].copy().require_grad()
        error = chx.dot(x, w) - y
        (error * error).sum().backward()
        self.state[slot] = chx.clip(chx.floor((self.state[slot] - w.grad * _RATE) * 8) / 8, -8, 8)

    def write_shared(self, slot, number):
        """Through the array's memory, if that can be had; False if it cannot."""
        memory = self.xp.to_numpy(self.state[slot], copy=False)
        if not memory.flags.writeable:
            return False
        memory += number
        return True

    def fail(self):
        """An operator that fails in the daemon; the text of the error that a read raises."""
        chx = self.xp
        loss = chx.softmax_cross_entropy(chx.zeros((3, 4)), chx.array([0, 9, 1]))
        try:
            float(loss.sum())
        except IndexError as error:
            return str(error)
        return ""


def draw_operation(draw):
    """One of the operations without an answer, seeded."""
    kind = draw.random()
    if kind < 0.3:
        return ("add", draw.choice(INTEGERS), draw.randrange(-5, 9))
    if kind < 0.35:
        return ("multiply", draw.choice(FLOATS), draw.choice(FACTORS))
    if kind < 0.45:
        return ("affine", draw.choice(FLOATS), (draw.choice(FACTORS), draw.uniform(-2, 2)))
    if kind < 0.55:
        slot = draw.choice(("i0", "i1", "f0", "f1"))
        number = draw.randrange(9) if slot in INTEGERS else draw.uniform(-1, 1)
        return ("add_to_part", slot, (draw.randrange(3), draw.randrange(1, 4), number))
    if kind < 0.62:
        return (
            "combine",
            *draw.choice((("d0", "d1"), ("d1", "d1"), ("f0", "f0"), ("bulk", "bulk"))),
        )
    if kind < 0.66:
        return ("root", draw.choice(FLOATS), None)
    if kind < 0.76:
        return (
            "run",
            draw.choice(("f0", "d0", "d1")),
            (draw.randrange(1, 200), 0.75, draw.uniform(-1, 1)),
        )
    if kind < 0.84:
        return ("train", "w", draw.getrandbits(32))
    if kind < 0.92:
        return ("upload", draw.choice(tuple(SLOTS)[:-2]), draw.getrandbits(32))
    if kind < 0.95:
        size = int(10 ** draw.uniform(1, 6.2))
        return ("upload_bulk", "bulk", (draw.getrandbits(32), size))
    return ("new", draw.choice(tuple(SLOTS)[:-2]), None)
