"""chx.schedules gives what Chainer's extensions set, to the last bit (but for the ends of a warm-up)."""

import chainer
import numpy as np
import pytest
from chainer.training import extensions
from chx import schedules

STEPS = 50


class Trainer:
    """What the extensions look at."""

    def __init__(self, optimizer):
        self.updater = self
        self.optimizer = optimizer

    def get_optimizer(self, name):
        assert name == "main"
        return self.optimizer


def values_of(extension, first):
    optimizer = chainer.optimizers.SGD(lr=first)
    trainer = Trainer(optimizer)
    extension.initialize(trainer)
    values = [optimizer.lr]
    for _ in range(STEPS - 1):
        extension(trainer)
        values.append(optimizer.lr)
    return values


@pytest.mark.parametrize("sign", [1, -1])
def test_as_chainers_extensions(sign):
    seed = np.random.SeedSequence().entropy % 2**32
    print("seed", seed)
    rng = np.random.default_rng(seed)
    v, w = (float(sign * x) for x in rng.uniform(0.5, 2, 2))
    low, high = 0.3 * v, 1.5 * v
    rate, power = float(rng.uniform(0.8, 0.99)), float(rng.uniform(0.5, 3))
    k, begin = int(rng.integers(1, 30)), int(rng.integers(0, 20))
    at = sorted(map(int, rng.choice(np.arange(1, 50), 3, replace=False)))
    e, s = extensions, schedules
    for extension, schedule in (
        (e.ExponentialShift("lr", rate), s.exponential(v, rate)),
        (e.ExponentialShift("lr", rate, target=low), s.exponential(v, rate, low)),
        (e.ExponentialShift("lr", 1 / rate, target=high), s.exponential(v, 1 / rate, high)),
        (e.InverseShift("lr", rate, power), s.inverse(v, rate, power)),
        (e.InverseShift("lr", rate, power, target=low), s.inverse(v, rate, power, low)),
        (e.InverseShift("lr", rate, -power, target=high), s.inverse(v, rate, -power, high)),
        (e.LinearShift("lr", (v, w), (begin, begin + k)), s.linear(v, w, k, begin)),
        (e.MultistepShift("lr", rate, at, v), s.multi_step(v, at, rate)),
        (e.PolynomialShift("lr", power, k), s.polynomial(v, k, power)),
        (e.PolynomialShift("lr", power, 60, target=low), s.polynomial(v, 60, power, low)),
        (e.StepShift("lr", rate, k), s.step(v, k, rate)),
        (e.StepShift("lr", rate, k, target=low), s.step(v, k, rate, low)),
    ):
        found = [schedule(number) for number in range(STEPS)]
        assert found == values_of(extension, v), type(extension).__name__
    # Chainer begins with w, not with k * w / k, and stays at k * v / k.
    want = values_of(e.WarmupShift("lr", w, k, v), v)
    found = [s.warm_up(k, v, w)(number) for number in range(STEPS)]
    assert found[1:k] == want[1:k]
    np.testing.assert_allclose(found, want, rtol=2**-52)
