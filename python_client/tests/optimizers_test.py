"""chx.optimizers: steps, state, hooks. The formulas are tested in tests/conformance."""

import dataclasses

import chx
import numpy as np
import pytest
from chx.optimizers._rules import RULES

NAMES = [n for n in chx.optimizers.__all__ if isinstance(getattr(chx.optimizers, n), type)]
OPTIMIZERS = [
    n
    for n in NAMES
    if n != "Optimizer" and issubclass(getattr(chx.optimizers, n), chx.optimizers.Optimizer)
]


@pytest.fixture
def params(rng):
    values = [rng.standard_normal((3, 4)), rng.standard_normal(4)]
    return [chx.array(v.astype(np.float32)).require_grad() for v in values]


@pytest.fixture
def rng():
    seed = np.random.SeedSequence().entropy % 2**32
    print("seed", seed)
    return np.random.default_rng(seed)


def backward(params, x):
    loss = chx.sum(chx.tanh(x @ params[0] + params[1]) ** 2)
    loss.backward()
    return loss


def test_all_are_there():
    assert len(OPTIMIZERS) == 15
    assert len(NAMES) == 15 + 6 + 3


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_loss_falls(params, rng, name):
    x = chx.array(rng.standard_normal((8, 3)).astype(np.float32))
    optimizer = getattr(chx.optimizers, name)().setup(params)
    before = [p.as_grad_stopped(copy=True) for p in params]
    losses = []
    for _ in range(60):
        losses.append(backward(params, x))
        optimizer.update()
        optimizer.cleargrads()
    assert float(losses[-1]) < float(losses[0])
    assert all(
        not np.array_equal(chx.to_numpy(p), chx.to_numpy(b))
        for p, b in zip(params, before, strict=False)
    )
    assert optimizer.t == 60


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_state_comes_back(params, rng, name):
    x = chx.array(rng.standard_normal((8, 3)).astype(np.float32))
    make = getattr(chx.optimizers, name)

    def run(optimizer, params, steps):
        for _ in range(steps):
            backward(params, x)
            optimizer.update()
            optimizer.cleargrads()
        return [chx.to_numpy(p.as_grad_stopped()) for p in params]

    optimizer = make().setup(params)
    run(optimizer, params, 3)
    saved = {
        k: np.array(v) if np.isscalar(v) else v.copy() for k, v in optimizer.state_dict().items()
    }
    others = [p.as_grad_stopped(copy=True).require_grad() for p in params]
    want = run(optimizer, params, 3)
    other = make().setup(others)
    other.load_state_dict(saved)
    assert other.t == 3
    for a, b in zip(run(other, others, 3), want, strict=False):
        np.testing.assert_array_equal(a, b)


def test_loaded_numbers_are_floats(params):
    """Whatever the type of what was there."""
    optimizer = chx.optimizers.RMSprop(lr=1, eps=0).setup(params)
    saved = chx.optimizers.RMSprop(lr=0.1, eps_inside_sqrt=True).setup(params).state_dict()
    optimizer.load_state_dict({name: np.array(value) for name, value in saved.items()})
    assert (optimizer.lr, optimizer.eps, optimizer.eps_inside_sqrt) == (0.1, 1e-8, True)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda s: s.pop("w/v"), KeyError, "expects m, v of 'w', got m"),
        (lambda s: s.pop("beta2"), KeyError, "expects beta2, got no such"),
        (lambda s: s.pop("t"), KeyError, "expects t, got no such"),
        (lambda s: s.update({"w/x": s["w/v"]}), KeyError, "got 'w/x'"),
        (lambda s: s.update({"c/v": s["w/v"]}), KeyError, "of w, b, got 'c/v'"),
        (lambda s: s.update(lr=0.1), KeyError, "got 'lr'"),
        (lambda s: s.update({"w/v": s["b/v"]}), ValueError, r"'w/v' of \(3, 4\), got \(4,\)"),
        (lambda s: s.update({"w/v": 0.5}), ValueError, r"'w/v' of \(3, 4\), got \(\)"),
    ],
)
def test_a_wrong_state_changes_nothing(params, change, error, text):
    named = {"w": params[0], "b": params[1]}
    optimizer = chx.optimizers.Adam(alpha=0.5).setup(named)
    backward(params, chx.ones((2, 3), "float32"))
    optimizer.update()
    saved = {**optimizer.state_dict(), "alpha": 0.25, "t": 7}
    change(saved)
    before = dict(optimizer.state["w"])
    with pytest.raises(error, match=text):
        optimizer.load_state_dict(saved)
    assert (optimizer.alpha, optimizer.t) == (0.5, 1)
    assert optimizer.state["w"] == before


def test_a_step_that_is_refused_does_not_count(params):
    optimizer = chx.optimizers.SGD().setup(params)
    backward(params, chx.ones((2, 3), "float32"))
    optimizer.lr = "much"
    with pytest.raises(TypeError):
        optimizer.update()
    assert optimizer.t == 0
    optimizer.lr = 0.1
    optimizer.update()
    assert optimizer.t == 1


def test_a_step_is_one_command(params, monkeypatch):
    calls = []
    rule = RULES["Adam"]

    def counted(*args):
        calls.append(len(args[0]))
        return rule.operator(*args)

    monkeypatch.setitem(RULES, "Adam", dataclasses.replace(rule, operator=counted))
    optimizer = chx.optimizers.Adam().setup(params)
    backward(params, chx.ones((2, 3), "float32"))
    optimizer.update()
    assert calls == [2]


def test_hyperparameters():
    optimizer = chx.optimizers.Adam(alpha=0.5)
    assert (optimizer.alpha, optimizer.beta1) == (0.5, 0.9)
    for wrong in ({"lr": 0.1}, {"amsgrad": True}):
        with pytest.raises(TypeError, match="Adam has no hyperparameter"):
            chx.optimizers.Adam(**wrong)


def test_attributes_without_an_effect_are_refused(params):
    for optimizer, known in (
        (chx.optimizers.Adam(), "alpha, beta1, beta2, eps, eta, weight_decay_rate"),
        (chx.optimizers.SGD().setup(params), "lr"),
    ):
        name = type(optimizer).__name__
        text = f"{name} has no attribute 'rate'; its hyperparameters are {known}"
        with pytest.raises(AttributeError, match=f"^{text}$"):
            optimizer.rate = 5
        assert not hasattr(optimizer, "rate")
    optimizer.lr = 0.5
    optimizer.t = 3
    assert (optimizer.lr, optimizer.t) == (0.5, 3)
    with pytest.raises(AttributeError, match="hyperparameters are alpha"):
        chx.optimizers.Adam().lr = 5

    class Counting(chx.optimizers.SGD):
        count: int
        note = ""

    mine = Counting(lr=0.1)
    mine.count, mine.note = 1, "text"
    with pytest.raises(AttributeError, match="Counting has no attribute 'other'"):
        mine.other = 1


def test_adamw_is_pytorchs_by_the_conversion_in_its_documentation(rng):
    """PyTorch's rule: p -= lr * decay * p, then Adam's step with the rate lr."""
    assert "AdamW(alpha=lr, weight_decay_rate=lr * d)" in chx.optimizers.AdamW.__doc__
    p, lr, decay = rng.standard_normal(5), 0.03, 0.4
    w = chx.array(p).require_grad()
    optimizer = chx.optimizers.AdamW(alpha=lr, weight_decay_rate=lr * decay).setup([w])
    m = v = np.zeros(5)
    for t in range(1, 6):
        if t == 4:  # a schedule's step
            lr /= 2
            optimizer.alpha, optimizer.weight_decay_rate = lr, lr * decay
        g = rng.standard_normal(5)
        w.set_grad(chx.array(g))
        optimizer.update()
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p = p - lr * decay * p
        p = p - lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        np.testing.assert_allclose(chx.to_numpy(w.as_grad_stopped()), p, rtol=1e-5, atol=1e-6)


def test_changed_rate_counts(params):
    optimizer = chx.optimizers.SGD(lr=1.0).setup(params)
    before = chx.to_numpy(params[1].as_grad_stopped(copy=True))
    for p in params:
        p.set_grad(chx.ones_like(p))
    optimizer.lr = 0.25
    optimizer.update()
    np.testing.assert_allclose(chx.to_numpy(params[1].as_grad_stopped()), before - 0.25, rtol=1e-6)


def test_without_gradients_nothing_moves(params):
    optimizer = chx.optimizers.Adam().setup({"w": params[0], "b": params[1]})
    params[0].set_grad(chx.ones_like(params[0]))
    before = chx.to_numpy(params[1].as_grad_stopped(copy=True))
    optimizer.update()
    np.testing.assert_array_equal(chx.to_numpy(params[1].as_grad_stopped()), before)
    assert list(optimizer.state) == ["w"]


def test_setup_wants_parameters():
    with pytest.raises(ValueError, match="require gradients"):
        chx.optimizers.SGD().setup([chx.ones(3)])


def test_hooks(params, rng):
    for p in params:
        p.set_grad(chx.array(rng.standard_normal(p.shape).astype(np.float32)))
    values = [chx.to_numpy(p.as_grad_stopped(copy=True)) for p in params]
    grads = [chx.to_numpy(p.grad.copy()) for p in params]
    optimizer = chx.optimizers.SGD(lr=1.0).setup(params)
    optimizer.add_hook(chx.optimizers.WeightDecay(0.1))
    optimizer.add_hook(chx.optimizers.GradientClipping(0.5))
    with pytest.raises(KeyError):
        optimizer.add_hook(chx.optimizers.WeightDecay(0.1))
    optimizer.update()
    decayed = [g + 0.1 * v for g, v in zip(grads, values, strict=False)]
    norm = np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in decayed))
    for p, v, g in zip(params, values, decayed, strict=False):
        np.testing.assert_allclose(
            chx.to_numpy(p.as_grad_stopped()), v - g * min(0.5 / norm, 1), rtol=1e-5, atol=1e-6
        )
    optimizer.remove_hook("WeightDecay")
    optimizer.update()


def test_noise_is_of_the_device(params):
    optimizer = chx.optimizers.SGD(lr=1.0).setup(params)
    optimizer.add_hook(chx.optimizers.GradientNoise(4.0))
    chx.random.seed(3)
    big = chx.zeros((100, 100), "float32").require_grad()
    optimizer.setup([big])
    big.set_grad(chx.zeros_like(big))
    optimizer.update()
    assert abs(chx.to_numpy(big.as_grad_stopped()).std() - 2.0) < 0.1


@pytest.mark.parametrize(
    ("lists", "error", "text"),
    [
        (lambda p, q: ([p], [p]), ValueError, r"share no memory, got params\[0\]"),
        (lambda p, q: ([p], [q[:2]]), chx.DimensionError, r"params\[0\] .* and grads\[0\]"),
        (lambda p, q: ([p, p], [q]), chx.DimensionError, "lists of one length, got 2 and 1"),
        (lambda p, q: ([], []), chx.DimensionError, "at least one array"),
        (lambda p, q: ([p.astype("int32")], [q]), chx.DtypeError, "expects float arrays"),
        (
            lambda p, q: ([chx.broadcast_to(p[:1], (3, 4))], [q]),
            ValueError,
            r"share no memory, got params\[0\]",
        ),
    ],
)
def test_bad_lists(lists, error, text):
    p, q = chx.ones((3, 4), "float32"), chx.ones((3, 4), "float32")
    with pytest.raises(error, match=text):
        chx.optimizers.sgd_update(*lists(p, q), 0.1)
        p.device.synchronize()  # overlaps are the daemon's to find


def test_refused_in_a_graph(params):
    with pytest.raises(chx.ChainerxError, match="In-place"):
        chx.optimizers.sgd_update(params, [chx.ones_like(p) for p in params], 0.1)


def test_more_parameters_than_a_command_can_name():
    count = chx.optimizers._rules.MAX_OPERANDS // 2 + 10
    params = [chx.zeros(1, "float32").require_grad() for _ in range(count)]
    grad = chx.ones(1, "float32")
    for p in params:
        p.set_grad(grad)
    optimizer = chx.optimizers.SGD(lr=1.0).setup(params)
    optimizer.update()
    for p in (params[0], params[-1]):
        assert float(p.as_grad_stopped()[0]) == -1
    with pytest.raises(ValueError, match="at most 65535 arrays"):
        chx.concatenate([grad] * 65536)


def test_a_bad_batch_costs_nothing_but_its_step(params):
    """A label out of range is found in the daemon, after the update was sent."""
    optimizer = chx.optimizers.Adam().setup(params)
    x = chx.ones((2, 3), "float32")

    def step(label):
        scores = x @ params[0] + params[1]
        loss = chx.mean(chx.softmax_cross_entropy(scores, chx.array([0, label])))
        loss.backward()
        optimizer.update()
        optimizer.cleargrads()
        return loss

    before = chx.to_numpy(params[0].as_grad_stopped())
    bad = step(9)
    with pytest.raises(IndexError):
        float(bad)
    np.testing.assert_array_equal(chx.to_numpy(params[0].as_grad_stopped()), before)
    losses = [float(step(1)) for _ in range(20)]
    assert losses[-1] < losses[0]
    assert not np.array_equal(chx.to_numpy(params[0].as_grad_stopped()), before)
