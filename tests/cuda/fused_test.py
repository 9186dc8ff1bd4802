"""Elementwise operators of a recorded step that a GPU computes as one kernel, emulated: the same bits
as one by one."""

import chx
import numpy as np


def kernels(step):
    """How many kernels of several operators there are."""
    return step.explain().count("fused, in one kernel")


UNARY = [chx.relu, chx.negative, chx.square, chx.abs, chx.exp, chx.tanh, chx.sigmoid, chx.silu]
BINARY = [chx.add, chx.subtract, chx.multiply, chx.divide, chx.maximum, chx.minimum]


def random_program(rng, shape):
    """A function of arrays of the shape and of what broadcasts to it, and those arrays."""
    shapes = [shape, shape, shape[1:], (1,) * len(shape), (shape[-1],), ()]
    choices = []
    for _ in range(rng.integers(2, 30)):
        unary = rng.random() < 0.4
        fn = (UNARY if unary else BINARY)[rng.integers(6)]
        scalar = float(rng.normal()) if rng.random() < 0.2 else None
        choices.append((fn, unary, rng.integers(1 << 30, size=2), scalar, rng.random()))
    results = rng.integers(1 << 30, size=rng.integers(1, 4))

    def program(*arrays):
        values = list(arrays)
        for fn, unary, operands, scalar, place in choices:
            a, b = (values[-1 - i % min(6, len(values))] for i in operands)
            if scalar is not None:
                b = scalar
            if unary:
                value = fn(a)
            elif place < 0.15 and a.shape == shape and a is not arrays[0]:
                a += b if scalar is not None or b.shape == shape else 1.0
                value = a
            else:
                value = fn(a, b)
            values.append(value)
        return [values[-1 - i % len(choices)] for i in results]

    return program, [rng.normal(size=s).astype(np.float32) for s in shapes]


def test_random_programs_are_the_same_as_one_by_one(session, rng):
    fused = 0
    for _ in range(40):
        shape = tuple(rng.integers(1, 9, size=rng.integers(2, 4)))
        if rng.random() < 0.3:
            shape = (int(rng.integers(1, 40)), 4 * int(rng.integers(1, 60)))
        program, values = random_program(rng, tuple(int(n) for n in shape))
        step = chx.jit(program)

        def arrays(values=values):
            return [chx.array(v, device=session.devices[1]) for v in values]

        with np.errstate(all="ignore"):
            want = [chx.to_numpy(a) for a in program(*arrays())]
            for _ in range(3):
                got = [chx.to_numpy(a) for a in step(*arrays())]
                for g, w in zip(got, want, strict=True):
                    np.testing.assert_array_equal(g, w)
        fused += kernels(step)
    assert fused > 10


def test_gradients(session, rng):
    device = session.devices[1]
    x = chx.array(rng.normal(size=(6, 8)).astype(np.float32), device=device).require_grad()
    b = chx.array(rng.normal(size=8).astype(np.float32), device=device).require_grad()

    def step():
        y = chx.relu(chx.tanh(x + b) * 2 + x)
        (chx.gelu(y) * y).sum().backward()
        gradients = [chx.to_numpy(a.grad) for a in (x, b)] if eager else [x.grad, b.grad]
        x.cleargrad()
        b.cleargrad()
        return gradients

    eager = True
    want = step()
    eager = False
    recorded = chx.jit(step)
    for _ in range(4):
        for g, w in zip(recorded(), want, strict=True):
            np.testing.assert_array_equal(chx.to_numpy(g), w)
    assert kernels(recorded) >= 2


def test_what_does_not_fit_stays_alone(session, rng):
    device = session.devices[1]
    x = chx.array(rng.normal(size=(5, 6)).astype(np.float32), device=device)

    @chx.jit
    def step(x):
        transposed = x.T + x.T  # not dense
        wide = x.astype("float64") * 2.0  # not float32
        return transposed, chx.exp(wide), chx.clip(x, -0.5, 0.5)

    for _ in range(3):
        for got, want in zip(
            step(x),
            (x.T + x.T, chx.exp(x.astype("float64") * 2.0), chx.clip(x, -0.5, 0.5)),
            strict=True,
        ):
            np.testing.assert_array_equal(chx.to_numpy(got), chx.to_numpy(want))
