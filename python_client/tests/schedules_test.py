"""chx.schedules: each against its formula, in loops and in runs. tests_chainer: against Chainer."""

import math

import chx
import numpy as np
import pytest
from chx import schedules

STEPS = np.arange(60)


def of(schedule):
    return np.array([schedule(int(n)) for n in STEPS])


def test_formulas(rng):
    v, w = rng.uniform(0.1, 2, 2)
    rate = rng.uniform(0.5, 0.99)
    power = rng.uniform(0.5, 3)
    k = int(rng.integers(1, 30))
    at = sorted(map(int, rng.choice(50, 3, replace=False)))
    cut = np.clip(STEPS / k, 0, 1)
    begin = int(rng.integers(0, 20))
    for name, found, want in (
        ("constant", schedules.constant(v), np.full(60, v)),
        ("step", schedules.step(v, k, rate), v * rate ** (STEPS // k)),
        (
            "multi_step",
            schedules.multi_step(v, at[::-1], rate),
            v * rate ** np.sum([a <= STEPS for a in at], axis=0),
        ),
        ("exponential", schedules.exponential(v, rate), v * rate**STEPS),
        ("inverse", schedules.inverse(v, rate, power), v * (1 + rate * STEPS) ** -power),
        (
            "linear",
            schedules.linear(v, w, k, begin),
            v + np.clip((STEPS - begin) / k, 0, 1) * (w - v),
        ),
        ("polynomial", schedules.polynomial(v, k, power), v * (1 - cut) ** power),
        ("cosine", schedules.cosine(v, k, w), w + (v - w) * (1 + np.cos(np.pi * cut)) / 2),
        (
            "warm_up",
            schedules.warm_up(k, schedules.exponential(v, rate), w),
            np.where(k > STEPS, w + cut * (v - w), v * rate ** np.maximum(STEPS - k, 0)),
        ),
        ("warm_up to a value", schedules.warm_up(k, v), v * cut),
    ):
        np.testing.assert_allclose(of(found), want, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("anneal", ["cos", "linear"])
def test_one_cycle(rng, anneal):
    rate = rng.uniform(0.01, 1)
    first = rate / 25
    schedule = schedules.one_cycle(rate, 60, 0.25, anneal)
    assert schedule(0) == pytest.approx(first)
    assert schedule(14) == pytest.approx(rate)  # 0.25 * 60 - 1
    assert schedule(60 - 1) == pytest.approx(first / 1e4)
    assert schedule(60 + 5) == schedule(60 - 1)
    assert schedule(7) == pytest.approx((first + rate) / 2)  # half way, in both forms
    mirrored = schedules.one_cycle(rate, 60, 0.25, anneal, three_phase=True)
    for t in range(15):
        assert mirrored(t) == pytest.approx(mirrored(28 - t))
    assert mirrored(60 - 1) == pytest.approx(first / 1e4)


def test_pytorch_step_by_step(rng):
    torch = pytest.importorskip("torch")
    lr_scheduler = torch.optim.lr_scheduler
    rate, gamma = rng.uniform(0.01, 1), rng.uniform(0.5, 0.99)
    size = int(rng.integers(1, 20))
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
        (schedules.cosine(rate, 60, 0.001), lambda o: lr_scheduler.CosineAnnealingLR(o, 60, 0.001)),
        (
            schedules.one_cycle(rate, 60, up),
            lambda o: lr_scheduler.OneCycleLR(
                o, rate, total_steps=60, pct_start=up, cycle_momentum=False
            ),
        ),
        (
            schedules.warm_up(size, schedules.step(rate, 3, gamma), 0.2 * rate),
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
        for t in range(59):
            assert schedule(t) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
            optimizer.step()
            theirs.step()


@pytest.mark.parametrize("sign", [1, -1])
def test_targets(sign):
    v = 2.0 * sign
    falls = sign * np.maximum(sign * np.array(v) * 0.9**STEPS, 0.5)
    assert of(schedules.exponential(v, 0.9, 0.5 * sign)) == pytest.approx(falls)
    rises = sign * np.minimum(2.0 * 1.1**STEPS, 7.0)
    assert of(schedules.exponential(v, 1.1, 7.0 * sign)) == pytest.approx(rises)
    assert of(schedules.step(v, 3, 1.1, 7.0 * sign))[-1] == 7.0 * sign
    assert of(schedules.inverse(v, 0.1, 2.0, 0.5 * sign))[-1] == 0.5 * sign
    assert of(schedules.inverse(v, 0.1, -2.0, 7.0 * sign))[-1] == 7.0 * sign
    assert of(schedules.polynomial(v, 50, 2.0, 0.5 * sign))[-1] == 0.5 * sign


def test_last_values_are_reached_to_the_last_bit():
    assert schedules.cosine(0.3, 7, 0.1)(7) == 0.1
    assert schedules.linear(0.3, 0.1, 7)(7) == 0.1
    assert schedules.polynomial(0.3, 7)(7) == 0
    assert schedules.warm_up(7, 0.3)(7) == 0.3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: schedules.step(1, 0, 0.1), r"\[step\] .* got 0"),
        (lambda: schedules.exponential(1, -0.1), r"\[exponential\] .* got -0.1"),
        (lambda: schedules.exponential(1, math.nan), r"\[exponential\] .* got nan"),
        (lambda: schedules.inverse(1, -1, 2), r"\[inverse\]"),
        (lambda: schedules.linear(1, 2, 0), r"\[linear\]"),
        (lambda: schedules.polynomial(1, -1), r"\[polynomial\] expects 1 step"),
        (lambda: schedules.polynomial(1, 1, -1), r"\[polynomial\] expects a power"),
        (lambda: schedules.cosine(1, 0), r"\[cosine\]"),
        (lambda: schedules.one_cycle(1, 0), r"\[one_cycle\] expects 1 step"),
        (lambda: schedules.one_cycle(1, 10, 1.5), r"\[one_cycle\] expects a share"),
        (lambda: schedules.one_cycle(1, 10, anneal="quadratic"), r"\[one_cycle\] .* 'quadratic'"),
        (lambda: schedules.warm_up(0, 1), r"\[warm_up\]"),
    ],
)
def test_arguments_that_do_not_fit(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_on_sets_hyperparameters():
    optimizer = chx.optimizers.MomentumSGD()
    update = schedules.on(
        optimizer, lr=schedules.step(1.0, 2, 0.5), momentum=lambda number: 0.1 * number
    )
    for number, want in enumerate([(1.0, 0.0), (1.0, 0.1), (0.5, 0.2)]):
        update(number)
        assert (optimizer.lr, optimizer.momentum) == want
    with pytest.raises(AttributeError):
        schedules.on(optimizer, alpha=schedules.constant(1))


def test_a_run_takes_each_step_at_its_rate(rng):
    """SGD on the sum of w: each step takes the rate away from it."""
    rate = schedules.warm_up(3, schedules.cosine(0.5, 8), 0.1)
    w = chx.array(np.float64(rng.normal())).require_grad()
    start = float(w)
    optimizer = chx.optimizers.SGD().setup([w])

    @chx.jit
    def step(x):
        optimizer.cleargrads()
        (w * 1.0).backward()
        optimizer.update()
        return chx.sum(w.as_grad_stopped())

    run = chx.runs.start(
        step,
        data=chx.zeros((4, 1)),
        batch_size=2,
        steps=12,
        log_every=1,
        schedule=schedules.on(optimizer, lr=rate),
    )
    run.wait(60)
    want = start - np.cumsum([rate(n) for n in range(12)])
    np.testing.assert_allclose(run.metrics()["loss"], want, rtol=1e-12)
    assert len({rate(n) for n in range(12)}) == 12  # a rate that never changes would not do
