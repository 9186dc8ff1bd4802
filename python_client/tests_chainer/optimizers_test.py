"""Chainer's optimizers and hooks on the daemon's arrays take NumPy Chainer's steps.

Trajectories are of 20 steps from the same parameters on the same data. Parameters must agree to
1e-12 of the largest in float64. In float32 it is 5e-4: where a gradient is nearly 0, Adam's step
takes the sign of a rounding error. In float16 it is 3e-2: NumPy rounds after every operation, the
daemon after every step.
"""

import io

import chainer
import chainer.functions as F
import chainer.links as L
import chx
import chx.chainer
import numpy as np
import pytest
from chainer import optimizer_hooks, optimizers

STEPS = 20
TOLERANCE = {"float16": 3e-2, "float32": 5e-4, "float64": 1e-12}
OPTIMIZERS = {
    "AdaDelta": {},
    "AdaGrad": {"lr": 0.05},
    "Adam": {"alpha": 0.05},
    "AdamW": {"alpha": 0.05, "weight_decay_rate": 0.1},
    "AMSGrad": {"alpha": 0.05},
    "AdaBound": {"alpha": 0.05},
    "AMSBound": {"alpha": 0.05},
    "CorrectedMomentumSGD": {"lr": 0.05},
    "MomentumSGD": {"lr": 0.05},
    "NesterovAG": {"lr": 0.05},
    "MSVAG": {"lr": 0.05, "weight_decay_rate": 0.01},
    "RMSprop": {"lr": 0.02, "eps": 1e-3},
    "RMSpropGraves": {"lr": 0.01},
    "SGD": {"lr": 0.1},
    "SMORMS3": {},
}
HOOKS = {
    "WeightDecay": lambda: optimizer_hooks.WeightDecay(0.05),
    "Lasso": lambda: optimizer_hooks.Lasso(0.01),
    "GradientClipping": lambda: optimizer_hooks.GradientClipping(0.05),
    "GradientHardClipping": lambda: optimizer_hooks.GradientHardClipping(-0.01, 0.02),
    "GradientLARS": lambda: optimizer_hooks.GradientLARS(0.1, 0.01),
}


def make_model(dtype):
    with chainer.using_config("dtype", np.dtype(dtype)):
        return chainer.Sequential(L.Linear(6, 7), F.tanh, L.Linear(7, 3))


class Run:
    """One model on one device, and its optimizer."""

    def __init__(self, model, device, name, dtype, **arguments):
        self.model = model.copy("copy")
        self.device = chainer.get_device(device)
        self.model.to_device(self.device)
        self.optimizer = getattr(optimizers, name)(**arguments)
        self.before = self.values()

    def setup(self, hooks=()):
        self.optimizer.setup(self.model)
        for hook in hooks:
            self.optimizer.add_hook(hook)
        return self

    def values(self):
        cpu = chainer.get_device("@numpy")
        return {name: np.array(cpu.send(p.array)) for name, p in self.model.namedparams()}

    def steps(self, x, t, steps=STEPS):
        x, t = self.device.send(x), self.device.send(t)
        for _ in range(steps):
            self.optimizer.update(lambda: F.softmax_cross_entropy(self.model(x), t))
        return self


def data(rng, dtype):
    return rng.standard_normal((16, 6)).astype(dtype), rng.integers(0, 3, 16).astype("i")


def both(rng, device, name, dtype="float32", hooks=(), prepare=lambda o: None, **arguments):
    model = make_model(dtype)
    runs = []
    for place in ("@numpy", device):
        run = Run(model, place, name, dtype, **arguments)
        prepare(run.optimizer)
        runs.append(run.setup([make() for make in hooks]))
    x, t = data(rng, dtype)
    for run in runs:
        run.steps(x, t)
    return runs


def assert_same_way(local, remote, dtype="float32", slack=1):
    want, got = local.values(), remote.values()
    scale = max(np.abs(value).max() for value in want.values())
    for name, value in want.items():
        assert not np.array_equal(got[name], remote.before[name]), "did not move"
        assert np.abs(got[name] - value).max() <= TOLERANCE[dtype] * slack * scale, name


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_trajectory(rng, device, name, dtype):
    arguments = dict(OPTIMIZERS[name])
    # The defaults are 0 in float16, or next to the running squares that are.
    if dtype == "float16" and "SGD" not in name and name not in ("NesterovAG", "MSVAG"):
        arguments["eps"] = 1e-2
    local, remote = both(rng, device, name, dtype, **arguments)
    # M-SVAG divides differences of nearly equal numbers.
    slack = 3 if name == "MSVAG" else 1
    assert_same_way(local, remote, dtype, slack=slack)
    assert not chx.chainer.fallbacks()


def test_all_optimizers_are_tried():
    names = {n for n in dir(optimizers) if isinstance(getattr(optimizers, n), type)}
    assert {n for n in names if issubclass(getattr(optimizers, n), chainer.Optimizer)} == set(
        OPTIMIZERS
    )


@pytest.mark.parametrize("name", list(HOOKS))
def test_hook(rng, device, name):
    assert_same_way(*both(rng, device, "MomentumSGD", hooks=[HOOKS[name]]))
    assert not chx.chainer.fallbacks()


def test_hooks_together_and_of_a_parameter(rng, device):
    def prepare_rules(run):
        for p in run.model.params():
            p.update_rule.add_hook(optimizer_hooks.WeightDecay(0.1))

    model = make_model("float32")
    x, t = data(rng, "float32")
    runs = [
        Run(model, place, "Adam", "float32").setup([HOOKS["Lasso"]()])
        for place in ("@numpy", device)
    ]
    for run in runs:
        prepare_rules(run)
        run.steps(x, t)
    assert_same_way(*runs)


def test_gradient_noise_is_of_the_device(rng, device):
    model = make_model("float32")
    x, t = data(rng, "float32")
    run = Run(model, device, "SGD", "float32").setup([optimizer_hooks.GradientNoise(0.3)])
    chx.random.seed(1)
    one = run.steps(x, t, 3).values()
    run = Run(model, device, "SGD", "float32").setup([optimizer_hooks.GradientNoise(0.3)])
    chx.random.seed(1)
    np.random.seed(0)  # has no say
    two = run.steps(x, t, 3).values()
    for name, value in one.items():
        np.testing.assert_array_equal(value, two[name])
    assert not chx.chainer.fallbacks()


def test_master_weights_are_float32(rng, device):
    """Steps too small for float16 add up."""
    local, remote = both(
        rng, device, "SGD", "float16", prepare=lambda o: o.use_fp32_update(), lr=2e-3
    )
    want, got = local.values(), remote.values()
    for name, p in remote.model.namedparams():
        assert p.array.dtype == np.float16
        assert p.update_rule._fp32_param.array.dtype == np.float32
        assert not np.array_equal(got[name], remote.before[name])
        np.testing.assert_allclose(got[name], want[name], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("scale", [128.0, None])
def test_loss_scaling(rng, device, scale):
    local, remote = both(rng, device, "Adam", prepare=lambda o: o.loss_scaling(scale=scale))
    assert_same_way(local, remote)
    assert remote.optimizer._loss_scale == local.optimizer._loss_scale


def test_dynamic_loss_scaling_skips_bad_steps(rng, device):
    model = make_model("float32")
    run = Run(model, device, "SGD", "float32").setup()
    run.optimizer.loss_scaling()
    x, t = data(rng, "float32")
    run.steps(x, t, 1)
    before, scale = run.values(), run.optimizer._loss_scale
    x[0, 0] = np.inf
    with pytest.warns(UserWarning, match="Non finite"):
        run.steps(x, t, 1)
    assert run.optimizer._loss_scale == scale * 0.5
    for name, value in run.values().items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize("name", ["Adam", "SMORMS3", "AMSBound", "MSVAG"])
def test_resumes_from_npz(rng, device, name):
    model = make_model("float32")
    x, t = data(rng, "float32")
    run = Run(model, device, name, "float32").setup().steps(x, t, 5)
    files = io.BytesIO(), io.BytesIO()
    chainer.serializers.save_npz(files[0], run.model)
    chainer.serializers.save_npz(files[1], run.optimizer)
    with np.load(io.BytesIO(files[1].getvalue())) as states:
        assert len(states.files) > 2
    want = run.steps(x, t, 5).values()
    other = Run(make_model("float32"), device, name, "float32").setup()
    if name == "MSVAG":  # Chainer does not save its beta_power
        for p, q in zip(other.model.params(), run.model.params(), strict=True):
            p.update_rule.beta_power = q.update_rule.hyperparam.beta**6
    for file, target in zip(files, (other.model, other.optimizer), strict=True):
        file.seek(0)
        chainer.serializers.load_npz(file, target)
    for key, value in other.steps(x, t, 5).values().items():
        np.testing.assert_array_equal(value, want[key])


def test_a_disabled_rule_leaves_its_parameter(rng, device):
    run = Run(make_model("float32"), device, "Adam", "float32").setup()
    run.model[0].W.update_rule.enabled = False
    x, t = data(rng, "float32")
    after = run.steps(x, t, 2).values()
    moved = {name for name, value in after.items() if not np.array_equal(value, run.before[name])}
    assert moved == set(after) - {"/0/W"}


def test_hyperparameters_of_one_parameter(rng, device):
    model = make_model("float32")
    x, t = data(rng, "float32")
    runs = [Run(model, place, "Adam", "float32").setup() for place in ("@numpy", device)]
    for run in runs:
        run.model[2].b.update_rule.hyperparam.alpha = 0.2
        run.steps(x, t)
    assert_same_way(*runs)


class HalvingRule(chainer.optimizer.UpdateRule):
    def init_state(self, param):
        with chainer.using_device(param.device):
            self.state["seen"] = param.device.xp.zeros_like(param.data)

    def update_core_cpu(self, param):
        self.state["seen"] += 1
        param.data *= 0.5


class Halving(chainer.optimizer.GradientMethod):
    def create_update_rule(self):
        return HalvingRule()


def test_a_rule_of_the_user_falls_back(rng, device):
    run = Run(make_model("float32"), device, "SGD", "float32")
    run.optimizer = Halving()
    run.setup()
    x, t = data(rng, "float32")
    with pytest.raises(chx.chainer.FallbackError, match="HalvingRule"):
        run.steps(x, t, 1)
    chx.config.fallback = "allow"
    for name, value in run.steps(x, t, 2).values().items():
        np.testing.assert_allclose(value, run.before[name] * 0.25)
    assert chx.chainer.fallbacks()["HalvingRule"] == 2 * 4
    state = run.model[0].W.update_rule.state["seen"]
    assert isinstance(state, chx.ndarray) and float(state.max()) == 2


def test_three_ways_to_update(rng, device):
    """A loss function, gradients that are there, and each parameter by itself."""
    model = make_model("float32")
    x, t = data(rng, "float32")
    results = []
    for way in range(3):
        run = Run(model, device, "Adam", "float32").setup()
        xs, ts = run.device.send(x), run.device.send(t)
        for _ in range(3):
            if way == 0:
                run.optimizer.update(
                    lambda r, a, b: F.softmax_cross_entropy(r.model(a), b), run, xs, ts
                )
                continue
            run.model.cleargrads()
            F.softmax_cross_entropy(run.model(xs), ts).backward()
            if way == 1:
                run.optimizer.update()
            else:
                for p in run.model.params():
                    p.update()
        results.append(run.values())
    for other in results[1:]:
        for name, value in other.items():
            np.testing.assert_array_equal(value, results[0][name])


def test_commands_of_a_step(rng, device):
    """A training step waits once, for the loss that is read, and an update is one command."""
    run = Run(make_model("float32"), device, "Adam", "float32").setup([HOOKS["WeightDecay"]()])
    x, t = (run.device.send(a) for a in data(rng, "float32"))
    session = chx._core._get_default_session()

    def step():
        run.model.cleargrads()
        loss = F.softmax_cross_entropy(run.model(x), t)
        loss.backward()
        run.optimizer.update()
        return float(loss.array)

    step()
    before = session.stats()
    for _ in range(10):
        step()
    after = session.stats()
    assert after["round_trips"] - before["round_trips"] == 10
    print("commands", (after["commands"] - before["commands"]) / 10)
    assert after["commands"] - before["commands"] <= 10 * 40
