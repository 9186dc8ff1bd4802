"""Schedules of learning rates, moving averages and clipping by hand.

The schedules are those of PyTorch (its recurrences, written out here; with torch, its own).
"""

import math

import chx
import numpy as np
import pytest
from chx.optimizers import schedules

STEPS = 60


def recurrence(first, following):
    """Rates of steps 0, 1, ..., each from the one before."""
    rates = [first]
    for t in range(1, STEPS):
        rates.append(following(rates[-1], t))
    return rates


def rates_of(schedule):
    return [schedule(t) for t in range(STEPS)]


@pytest.fixture
def numbers(rng):
    return rng.uniform(0.01, 1), rng.uniform(0.5, 0.99), int(rng.integers(1, 20))


def test_decays(numbers, rng):
    rate, gamma, size = numbers
    milestones = [int(m) for m in rng.permutation(50)[:4]]
    for schedule, expected in (
        (schedules.constant(rate), [rate] * STEPS),
        (
            schedules.step(rate, size, gamma),
            recurrence(rate, lambda r, t: r * gamma if t % size == 0 else r),
        ),
        (schedules.exponential(rate, gamma), recurrence(rate, lambda r, t: r * gamma)),
    ):
        np.testing.assert_allclose(rates_of(schedule), expected, rtol=1e-12)
    expected = recurrence(
        rate * gamma if 0 in milestones else rate,
        lambda r, t: r * gamma ** milestones.count(t),
    )
    np.testing.assert_allclose(
        rates_of(schedules.multi_step(rate, milestones, gamma)), expected, rtol=1e-12
    )


def test_cosine(numbers):
    rate, share, _ = numbers
    least = rate * share

    def following(r, t):
        step = math.pi / STEPS
        return (1 + math.cos(step * t)) / (1 + math.cos(step * (t - 1))) * (r - least) + least

    expected = recurrence(rate, following)
    np.testing.assert_allclose(rates_of(schedules.cosine(rate, STEPS, least)), expected, rtol=1e-10)
    schedule = schedules.cosine(rate, STEPS, least)
    assert schedule(0) == pytest.approx(rate)
    assert schedule(STEPS) == pytest.approx(least)


@pytest.mark.parametrize("anneal", ["cos", "linear"])
def test_one_cycle(numbers, anneal):
    rate, _, _ = numbers
    first = rate / 25
    schedule = schedules.one_cycle(rate, STEPS, 0.25, anneal)
    assert schedule(0) == pytest.approx(first)
    assert schedule(14) == pytest.approx(rate)  # 0.25 * 60 - 1
    assert schedule(STEPS - 1) == pytest.approx(first / 1e4)
    assert schedule(STEPS + 5) == schedule(STEPS - 1)
    assert schedule(7) == pytest.approx((first + rate) / 2)  # half way, in both forms
    mirrored = schedules.one_cycle(rate, STEPS, 0.25, anneal, three_phase=True)
    for t in range(15):
        assert mirrored(t) == pytest.approx(mirrored(28 - t))
    assert mirrored(STEPS - 1) == pytest.approx(first / 1e4)


def test_warm_up(numbers):
    rate, gamma, size = numbers
    after = schedules.exponential(rate, gamma)
    schedule = schedules.warm_up(after, size, 0.2)
    expected = [rate * (0.2 + 0.8 * t / size) for t in range(size)]
    expected += [rate * gamma ** (t - size) for t in range(size, STEPS)]
    np.testing.assert_allclose(rates_of(schedule), expected[:STEPS], rtol=1e-12)
    assert schedules.warm_up(rate, size)(size + 3) == rate


def test_pytorch_step_by_step(numbers, rng):
    torch = pytest.importorskip("torch")
    lr_scheduler = torch.optim.lr_scheduler
    rate, gamma, size = numbers
    milestones = [int(m) for m in rng.permutation(np.arange(1, 50))[:4]]
    up = rng.uniform(0.25, 0.45)
    pairs = [
        (schedules.constant(rate), lambda o: lr_scheduler.ConstantLR(o, 1.0)),
        (schedules.step(rate, size, gamma), lambda o: lr_scheduler.StepLR(o, size, gamma)),
        (
            schedules.multi_step(rate, milestones, gamma),
            lambda o: lr_scheduler.MultiStepLR(o, milestones, gamma),
        ),
        (schedules.exponential(rate, gamma), lambda o: lr_scheduler.ExponentialLR(o, gamma)),
        (schedules.cosine(rate, STEPS, 0.001), lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS, 0.001)),
        (
            schedules.one_cycle(rate, STEPS, up),
            lambda o: lr_scheduler.OneCycleLR(
                o, rate, total_steps=STEPS, pct_start=up, cycle_momentum=False
            ),
        ),
        (
            schedules.warm_up(schedules.step(rate, 3, gamma), size, 0.2),
            lambda o: lr_scheduler.SequentialLR(
                o,
                [lr_scheduler.LinearLR(o, 0.2, 1.0, size), lr_scheduler.StepLR(o, 3, gamma)],
                [size],
            ),
        ),
    ]  # fmt: skip
    for schedule, make in pairs:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=rate)
        theirs = make(optimizer)
        for t in range(STEPS - 1):
            assert schedule(t) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
            optimizer.step()
            theirs.step()


def test_wrong_arguments():
    for call in (
        lambda: schedules.step(0.1, 0),
        lambda: schedules.cosine(0.1, 0),
        lambda: schedules.one_cycle(0.1, 10, 1.5),
        lambda: schedules.one_cycle(0.1, 10, anneal="quadratic"),
        lambda: schedules.warm_up(0.1, 0),
    ):
        with pytest.raises(ValueError, match=r"^\[\w+\] expects"):
            call()


@pytest.fixture
def params(seeded_session, rng):
    return {name: chx.array(rng.normal(size=(3, 4))).require_grad() for name in ("w", "b")}


def test_a_scheduler_sets_the_rate(params):
    for make, name in (
        (chx.optimizers.SGD, "lr"),
        (chx.optimizers.Adam, "alpha"),
        (chx.optimizers.RMSprop, "lr"),
    ):
        optimizer = make().setup(params)
        scheduler = chx.optimizers.schedules.Scheduler(optimizer, schedules.exponential(0.5, 0.5))
        assert getattr(optimizer, name) == 0.5
        scheduler.step()
        assert getattr(optimizer, name) == 0.25
    momentum = chx.optimizers.MomentumSGD().setup(params)
    schedules.Scheduler(momentum, lambda t: 0.8 + t, "momentum", t=1)
    assert momentum.momentum == 1.8
    with pytest.raises(ValueError, match=r"\[Scheduler\] expects one of lr, momentum, got 'beta'"):
        schedules.Scheduler(momentum, schedules.constant(1), "beta")


def test_moving_averages(params, rng):
    averages = chx.optimizers.MovingAverage(params, decay=0.9)
    expected = {name: chx.to_numpy(p).copy() for name, p in params.items()}
    for _ in range(5):
        for name, p in params.items():
            new = rng.normal(size=p.shape)
            p.as_grad_stopped()[...] = chx.array(new)
            expected[name] = 0.9 * expected[name] + 0.1 * new
        averages.update()
    for name, want in expected.items():
        np.testing.assert_allclose(chx.to_numpy(averages.averages[name]), want, rtol=1e-12)
        assert not averages.averages[name].is_backprop_required()
    averages.copy_to(params)
    np.testing.assert_allclose(chx.to_numpy(params["w"]), expected["w"], rtol=1e-12)
    with pytest.raises(KeyError, match="copy_to"):
        averages.copy_to([params["w"]])
    averages.decay = 0.0
    params["w"].as_grad_stopped()[...] = 2.0
    averages.update()
    np.testing.assert_allclose(chx.to_numpy(averages.averages["w"]), 2.0, rtol=1e-15)


def test_clipping_by_hand(params, rng):
    values = {name: rng.normal(size=p.shape) * 3 for name, p in params.items()}
    for name, p in params.items():
        p.set_grad(chx.array(values[name]))
    norm = np.sqrt(sum((v * v).sum() for v in values.values()))
    chx.optimizers.clip_grad_norm(params.values(), 1e4)
    np.testing.assert_array_equal(chx.to_numpy(params["w"].grad), values["w"])
    chx.optimizers.clip_grad_norm(params.values(), 2.0)
    for name, p in params.items():
        np.testing.assert_allclose(chx.to_numpy(p.grad), values[name] * (2 / norm), rtol=1e-12)
    params["b"].cleargrad()
    chx.optimizers.clip_grad_value(list(params.values()), 0.1)
    np.testing.assert_allclose(
        chx.to_numpy(params["w"].grad), np.clip(values["w"] * (2 / norm), -0.1, 0.1), rtol=1e-12
    )
    chx.optimizers.clip_grad_norm([params["b"]], 1.0)  # without a gradient
    assert params["b"].grad is None
