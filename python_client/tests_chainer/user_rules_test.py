"""Update rules of users: which of their methods is called, and with what."""

import chainer
import chx
import chx.chainer
import numpy as np
import pytest
from chainer import optimizer
from chainer.backends import cuda
from chainer.optimizers.sgd import SGDRule
from chx.chainer import _optimizers

CPU = chainer.get_device("@numpy")


class Decaying(optimizer.UpdateRule):
    """Momentum and decay, with a state that is replaced and one that is written to."""

    def init_state(self, param):
        with chainer.using_device(param.device):
            self.state["v"] = param.device.xp.zeros_like(param.data)
            self.state["steps"] = param.device.xp.zeros_like(param.data)


class OnCpu(Decaying):
    def update_core_cpu(self, param):
        assert type(param.data) is type(param.grad) is np.ndarray
        self.state["v"] = 0.9 * self.state["v"] - 0.1 * param.grad
        self.state["steps"] += 1
        param.data += self.state["v"] - param.data.dtype.type(0.01) * param.data


class Replacing(Decaying):
    """Sets the array instead of writing to it."""

    def update_core_cpu(self, param):
        param.data = param.data - 0.5 * param.grad


class Signs(SGDRule):
    """One of Chainer's rules with another step."""

    def update_core_cpu(self, param):
        param.data -= self.hyperparam.lr * np.sign(param.grad)


class OnGpu(Decaying):
    def update_core_gpu(self, param):
        cuda.elementwise(
            "T grad, T momentum",
            "T param, T v, T steps",
            "v = momentum * v - (T)0.1 * grad; steps += 1; param += v - (T)0.01 * param",
            "on_gpu",
        )(param.grad, 0.9, param.data, self.state["v"], self.state["steps"])


class LaterOnCpu(OnGpu):
    update_core_cpu = OnCpu.update_core_cpu


class InOneClass(Decaying):
    update_core_gpu = OnGpu.update_core_gpu
    update_core_cpu = OnCpu.update_core_cpu


class SignsOnGpu(SGDRule):
    def update_core_gpu(self, param):
        raise NotImplementedError


class Optimizer(optimizer.GradientMethod):
    def __init__(self, rule):
        super().__init__()
        self.hyperparam.lr = 0.1
        self.rule = rule

    def create_update_rule(self):
        return self.rule(self.hyperparam)


def train(rule, values, place, steps=4):
    """The parameter after each step, and its states."""
    link = chainer.Link()
    with link.init_scope():
        link.w = chainer.Parameter(values.copy())
    link.to_device(place)
    run = Optimizer(rule).setup(link)
    seen = []
    for _ in range(steps):
        run.update(lambda: chainer.functions.sum(link.w**3))
        seen.append(np.array(CPU.send(link.w.array)))
    return seen, {key: np.array(CPU.send(a)) for key, a in link.w.update_rule.state.items()}


def assert_same_way(values, results, references):
    for key, value in references[1].items():
        np.testing.assert_allclose(results[1][key], value, 1e-5)
    before = values
    for got, want in zip(results[0], references[0], strict=True):
        assert got.dtype == values.dtype and not np.array_equal(got, before)
        np.testing.assert_allclose(got, want, 1e-5, 1e-6)
        before = got


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rule", [OnCpu, Replacing, Signs])
def test_update_core_cpu_gets_numpy_arrays(rule, dtype, rng, device):
    values = rng.uniform(0.5, 1, (3, 4)).astype(dtype)
    chx.config.fallback = "allow"
    assert_same_way(values, train(rule, values, device), train(rule, values, CPU))
    assert chx.chainer.fallbacks() == {rule.__name__: 4}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_update_core_gpu_gets_the_devices_arrays(dtype, rng, device):
    """Where there is no update_core_cpu it is called on every device; nothing falls back."""
    values = rng.uniform(0.5, 1, (3, 4)).astype(dtype)
    assert_same_way(values, train(OnGpu, values, device), train(OnCpu, values, CPU))
    assert not chx.chainer.fallbacks()


def test_a_rule_without_either_is_an_error(rng, device):
    chx.config.fallback = "allow"
    with pytest.raises(NotImplementedError):
        train(Decaying, np.ones(3, "f"), device)


@pytest.mark.parametrize(
    ("rule", "on_native", "on_cuda"),
    [
        (OnCpu, False, False),
        (OnGpu, True, True),
        (LaterOnCpu, False, False),
        (InOneClass, False, True),
        (Signs, False, False),
        (SignsOnGpu, False, True),
        (type("OfAdam", (chainer.optimizers.adam.AdamRule,), {}), False, False),
        (Decaying, False, False),
    ],
)
def test_what_is_called_on_which_backend(rule, on_native, on_cuda):
    choose = _optimizers._takes_device_arrays
    assert (choose(rule, "native"), choose(rule, "cuda")) == (on_native, on_cuda)
