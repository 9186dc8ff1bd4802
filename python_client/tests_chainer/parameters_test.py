"""What Chainer's optimizers on the daemon's arrays are given: masters, parameters to come, numbers."""

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest
from chainer import optimizer_hooks, optimizers

CPU = chainer.get_device("@numpy")
RULES = ["AdaDelta", "AdaGrad", "Adam", "MSVAG", "RMSprop", "RMSpropGraves", "SMORMS3"]


class Model(chainer.Chain):
    def __init__(self, values):
        super().__init__()
        with self.init_scope():
            self.w = chainer.Parameter(values.copy())


def step(device, optimizer, values, steps=3):
    model = Model(values)
    model.to_device(device)
    optimizer.setup(model)
    for _ in range(steps):
        model.w.grad = device.send(values * 0.5)
        optimizer.update()
    rule = model.w.update_rule
    param = model.w if rule._fp32_param is None else rule._fp32_param
    return np.array(CPU.send(param.array))


@pytest.mark.parametrize("name", RULES)
def test_defaults_are_for_the_master(rng, device, name):
    """An eps that is 0 in float16 is what a float32 master needs."""
    values = rng.uniform(0.5, 1.5, 4).astype(np.float16)

    def run(place):
        optimizer = getattr(optimizers, name)()
        optimizer.use_fp32_update()
        return step(place, optimizer, values)

    want, got = run(CPU), run(device)
    assert got.dtype == np.float32 and np.any(got != values)
    np.testing.assert_allclose(got, want, rtol=1e-4)


def test_rmsprop_refuses_an_eps_that_is_zero(device):
    with pytest.raises(ValueError, match=r"RMSprop.*float16.*1e-08"):
        step(device, optimizers.RMSprop(), np.ones(3, np.float16))


@pytest.mark.parametrize("make", [np.float32, np.float64, np.array, float])
@pytest.mark.parametrize("name", ["SGD", "MomentumSGD", "RMSprop", "MSVAG"])
def test_hyperparameters_of_numpy(rng, device, name, make):
    values = rng.uniform(0.5, 1.5, 4).astype(np.float32)
    runs = [
        step(place, getattr(optimizers, name)(lr=make(0.1)), values, 1) for place in (CPU, device)
    ]
    np.testing.assert_allclose(runs[1], runs[0], rtol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("fp32", [False, True])
def test_parameters_without_a_shape_yet(device, fp32, dynamic):
    """They are left alone until a call gives them one; their steps count."""

    def run(place):
        model = chainer.Chain()
        with chainer.using_config("dtype", np.dtype(np.float16 if fp32 else np.float32)):
            with model.init_scope():
                model.a = L.Linear(None, 2, initialW=0.5)
                model.b = L.Linear(3, 2, initialW=0.5)
            model.to_device(place)
            optimizer = optimizers.Adam(0.1, eps=1e-3)
            if fp32:
                optimizer.use_fp32_update()
            optimizer.setup(model)
            if dynamic and place is not CPU:  # NumPy's looks for NaNs in None
                optimizer.loss_scaling()
            optimizer.add_hook(optimizer_hooks.WeightDecay(0.1))
            x = place.send(np.ones((4, 3), np.float16 if fp32 else np.float32))
            with chainer.using_device(place):
                optimizer.update(lambda: F.sum(model.b(x)))
                assert model.a.W.array is None
                optimizer.update(lambda: F.sum(model.a(x)) + F.sum(model.b(x)))
        counts = [p.update_rule.t for p in (model.a.W, model.b.W)]
        return [np.array(CPU.send(p.array)) for p in model.params()], counts

    (want, counts), (got, ours) = run(CPU), run(device)
    assert ours == counts
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3 if fp32 else 1e-5)


def test_a_master_of_a_late_parameter(device):
    with chainer.using_config("dtype", np.dtype(np.float16)):
        model = L.Linear(None, 2, initialW=0.5)
        model.to_device(device)
        optimizer = optimizers.SGD(0.125)
        optimizer.use_fp32_update()
        optimizer.setup(model)
        x = device.send(np.ones((1, 3), np.float16))
        model.cleargrads()
        optimizer.update()  # nothing but the bias, which has no gradient
        with chainer.using_device(device):
            optimizer.update(lambda: F.sum(model(x)))
    np.testing.assert_array_equal(CPU.send(model.W.array), 0.375)
    assert model.W.update_rule._fp32_param.array.dtype == np.float32
