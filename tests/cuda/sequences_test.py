"""Recorded steps on a device that repeats kernels as one (CUDA graphs), emulated: the same values as
step by step, whatever comes between."""

import re

import chx
import numpy as np
import pytest


def network(rng, device, optimizer):
    sizes = [(6, 5), (5,), (5, 3), (3,)]
    values = [rng.normal(size=s).astype("float32") * 0.5 for s in sizes]
    params = [chx.array(v, device=device).require_grad() for v in values]
    optimizer.setup(params)

    def step(x, t):
        w1, b1, w2, b2 = params
        loss = chx.mean(chx.softmax_cross_entropy(chx.tanh(x @ w1 + b1) @ w2 + b2, t))
        loss.backward()
        optimizer.update()
        optimizer.cleargrads()
        return loss

    return step, params


def sequences(step):
    """How often sequences of kernels were repeated."""
    return sum(int(n) for n in re.findall(r"as one: \d+ steps, (\d+) repetitions", step.explain()))


@pytest.mark.parametrize("make", [chx.optimizers.SGD, chx.optimizers.Adam])
def test_training_is_the_same_as_step_by_step(session, rng, make):
    device = session.devices[1]
    seed = rng.integers(2**31)
    plain, plain_params = network(np.random.default_rng(seed), device, make())
    step, params = network(np.random.default_rng(seed), device, make())
    step = chx.jit(step)
    for i in range(12):
        x = chx.array(rng.normal(size=(4, 6)).astype("float32"), device=device)
        t = chx.array(rng.integers(0, 3, 4), device=device)
        assert float(step(x, t)) == float(plain(x, t))
        if i == 7:  # other addresses
            kept = [chx.ones((n, 7), device=device) for n in range(1, 20)]  # noqa: F841
    for got, want in zip(params, plain_params, strict=True):
        np.testing.assert_array_equal(chx.to_numpy(got), chx.to_numpy(want))
    assert sequences(step) > 0


def test_a_rate_is_in_sequences_until_it_changes(session, rng):
    device = session.devices[1]
    seed = rng.integers(2**31)
    optimizers = [chx.optimizers.MomentumSGD(lr=0.1) for _ in range(2)]
    plain, plain_params = network(np.random.default_rng(seed), device, optimizers[0])
    step, params = network(np.random.default_rng(seed), device, optimizers[1])
    x = chx.array(rng.normal(size=(4, 6)).astype("float32"), device=device)
    t = chx.array(rng.integers(0, 3, 4), device=device)
    recorded = chx.jit(lambda: step(x, t))
    steps = set()
    for i in range(30):
        for optimizer in optimizers:
            # For some steps the same, then another one in each; and the first one again.
            optimizer.lr = 0.1 if i < 6 or i > 20 else 0.05 if i < 14 else 0.1 / i
        assert float(recorded()) == float(plain(x, t))
        steps |= set(re.findall(r"as one: (\d+) steps", recorded.explain()))
    for got, want in zip(params, plain_params, strict=True):
        np.testing.assert_array_equal(chx.to_numpy(got), chx.to_numpy(want))
    assert len(steps) >= 2  # without the update, and with it
    assert sequences(recorded) > 12


def test_repetitions(session, rng):
    x = chx.array(rng.normal(size=(40,)), device=session.devices[1])
    y = chx.array(chx.to_numpy(x), device=session.devices[1])

    def step():
        x.__imul__(0.9)
        x.__iadd__(chx.sin(x) * chx.exp(-x * x))

    def plain():
        y.__imul__(0.9)
        y.__iadd__(chx.sin(y) * chx.exp(-y * y))

    recorded = chx.jit(step)
    recorded.repeat(20)
    for _ in range(20):
        plain()
    np.testing.assert_array_equal(chx.to_numpy(x), chx.to_numpy(y))
    assert sequences(recorded) >= 15


def test_scratch_memory_is_elsewhere_in_each_run(session, rng):
    """The plan has no temporary, and its kernels need memory of their own."""
    device = session.devices[1]
    arrays = [chx.array(rng.integers(-9, 9, (300, 400)), device=device) for _ in range(2)]
    want = [int(chx.to_numpy(a).sum()) for a in arrays]
    step = chx.jit(lambda: [a.sum() for a in arrays])
    kept = []
    for i in range(12):
        assert [int(v) for v in step()] == want
        kept += [chx.full(2**k, i, "int64", device=device) for k in range(3, 15)]
    for i, array in enumerate(kept):
        assert (chx.to_numpy(array) == i // 12).all()


def test_what_waits_or_varies_stays_outside(session, rng):
    device = session.devices[1]
    a = chx.array(rng.normal(size=(3, 3)), device=device)
    rows = chx.array([2, 0], device=device)

    @chx.jit
    def step(x, factor):
        y = chx.take(chx.exp(x) * 2 + 1, rows, axis=0)  # looks at its indices
        z = chx.sort(y @ y.T + 1, axis=0)
        return (z * factor + 1) @ z

    for i in range(10):
        x = chx.array(rng.normal(size=(3, 3)), device=device) + a
        got = chx.to_numpy(step(x, 0.5 + i))
        y = (np.exp(chx.to_numpy(x)) * 2 + 1)[[2, 0]]
        z = np.sort(y @ y.T + 1, axis=0)
        np.testing.assert_allclose(got, (z * (0.5 + i) + 1) @ z, rtol=1e-9)


def test_settings_count_from_the_next_run_on(session, rng):
    x = chx.array(rng.normal(size=(5, 5)), device=session.devices[1])
    step = chx.jit(lambda x: chx.exp(x @ x) + x)
    for i in range(8):
        session.configure(autotune=bool(i % 2))
        np.testing.assert_array_equal(chx.to_numpy(step(x)), chx.to_numpy(chx.exp(x @ x) + x))
