"""Loss scaling on the daemon's arrays is NumPy Chainer's: gradients stay scaled until the update."""

import chainer
import chainer.functions as F
import chx
import numpy as np
import pytest
from chainer import optimizer_hooks, optimizers

CPU = chainer.get_device("@numpy")
HOOKS = {
    "none": None,
    "WeightDecay": lambda: optimizer_hooks.WeightDecay(0.5),
    "GradientClipping": lambda: optimizer_hooks.GradientClipping(8.0),
    "GradientLARS": lambda: optimizer_hooks.GradientLARS(0.1, 0.01),
}


class Model(chainer.Chain):
    def __init__(self, **values):
        super().__init__()
        with self.init_scope():
            for name, value in values.items():
                setattr(self, name, chainer.Parameter(value.copy()))


def train(device, values, scale, *, lr=0.1, slope=1.0, hook=None, prepare=None, steps=1, fp32=True):
    """Parameters w, its master and gradient after steps on the sum of slope * w ** 2 / 2."""
    model = Model(w=values)
    model.to_device(device)
    optimizer = optimizers.MomentumSGD(lr)
    if fp32:
        optimizer.use_fp32_update()
    optimizer.setup(model)
    optimizer.loss_scaling(scale=scale)
    if hook is not None:
        optimizer.add_hook(hook())
    if prepare is not None:
        prepare(model.w.update_rule)
    factor = device.send(np.array(slope / 2, "f"))
    with chainer.using_device(device):
        for _ in range(steps):

            def loss():
                w = F.cast(model.w, "float32")
                return F.sum(w * w * F.broadcast_to(factor, w.shape))

            optimizer.update(loss)
    rule = model.w.update_rule
    arrays = [model.w.array, model.w.grad, *([rule._fp32_param.array] if fp32 else [])]
    return [np.array(CPU.send(a)) for a in arrays], model.w._loss_scale


def test_small_gradients_survive_in_float16(device):
    """1e-8 is 0 in float16, and 2 ** 15 times that is not."""
    arguments = {"lr": 1e4, "slope": 1e-8}
    want, _ = train(CPU, np.ones(3, np.float16), 2.0**15, **arguments)
    got, scale = train(device, np.ones(3, np.float16), 2.0**15, **arguments)
    assert want[2][0] < 1 and scale == 2.0**15
    np.testing.assert_allclose(got[2], want[2], rtol=1e-6)
    np.testing.assert_array_equal(got[1], want[1])  # a half keeps its own, scaled


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("fp32", [False, True])
@pytest.mark.parametrize("of_the_rule", [False, True])
@pytest.mark.parametrize("name", list(HOOKS))
def test_hooks(rng, device, name, of_the_rule, fp32, debug):
    values = rng.uniform(0.5, 1.5, (2, 3)).astype(np.float16 if fp32 else np.float32)
    hook = HOOKS[name]
    arguments = {"steps": 3, "fp32": fp32, "slope": 0.1, "lr": 0.01}
    if not of_the_rule or name == "GradientClipping":
        arguments["hook"] = hook
    elif hook is not None:
        arguments["prepare"] = lambda rule: rule.add_hook(hook())
    else:
        arguments["prepare"] = lambda rule: rule.add_hook(lambda rule, param: None, name="nothing")
    want, scale = train(CPU, values, 96.0, **arguments)
    with chainer.using_config("debug", debug):
        got, noted = train(device, values, 96.0, **arguments)
    assert noted == scale == 96.0
    assert not np.array_equal(got[2 if fp32 else 0], values), "did not move"
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=2e-3 if fp32 else 1e-5)


def test_parameters_of_different_scales_decay_alike(device):
    values = {"a": np.ones(3, "f"), "b": np.full(2, 2, "f")}
    model = Model(**values)
    model.to_device(device)
    optimizer = optimizers.SGD(1.0)
    optimizer.setup(model)
    optimizer.add_hook(optimizer_hooks.WeightDecay(0.25))
    F.sum(model.a * 3).backward(loss_scale=8)
    F.sum(model.b * 3).backward()
    assert (model.a._loss_scale, model.b._loss_scale) == (8, None)
    optimizer.update()
    for name, value in values.items():
        np.testing.assert_allclose(CPU.send(getattr(model, name).array), value * 0.75 - 3)


@pytest.mark.parametrize("backward", ["of the variable", "of chainer"])
def test_a_backward_without_a_scale_takes_it_back(device, backward):
    model = Model(a=np.ones(3, "f"))
    model.to_device(device)
    F.sum(model.a * 3).backward(loss_scale=8)
    assert model.a._loss_scale == 8
    model.cleargrads()
    y = F.sum(model.a * 3)
    if backward == "of chainer":
        y.grad = device.send(np.ones((), "f"))
        chainer.backward([y])
    else:
        y.backward()
    assert model.a._loss_scale is None
    np.testing.assert_array_equal(CPU.send(model.a.grad), 3)


def test_leaves_and_gradients_that_are_set(device):
    """A gradient that is set is not scaled; that of a leaf is the scale itself."""

    def run(place):
        x = chainer.Variable(place.send(np.array(2.0, "f")))
        x.backward(loss_scale=8)
        y = x * x
        y.grad = place.send(np.array(5.0, "f"))
        first = float(x.grad)
        x.cleargrad()
        y.backward(loss_scale=8)
        assert y.grad is None
        z = x * 3
        second = float(x.grad)
        x.cleargrad()
        z.backward(retain_grad=True, loss_scale=8)
        return first, second, float(x.grad), float(z.grad)

    assert run(device) == run(CPU) == (8, 20, 24, 8)


def test_parameters_behind_functions_of_chx(device):
    model = Model(a=np.ones(3, "f"))
    model.to_device(device)
    optimizer = optimizers.SGD(1.0)
    optimizer.setup(model)
    optimizer.loss_scaling(scale=8)

    def loss():
        return chainer.Variable(chx.sum(model.a.chx_array * 0.5)) * 1

    optimizer.update(loss)
    np.testing.assert_array_equal(CPU.send(model.a.array), 0.5)


def test_dynamic_scaling_sees_scaled_gradients(device):
    """A scale that float16 overflows with is halved, and that step skipped."""

    def run(place):
        model = Model(w=np.full(2, 100, np.float16))
        model.to_device(place)
        optimizer = optimizers.SGD(0.01)
        optimizer.use_fp32_update()
        optimizer.setup(model)
        optimizer.loss_scaling(interval=4)
        history = []
        with chainer.using_device(place):
            for _ in range(16):
                optimizer.update(lambda: F.sum(F.cast(model.w, "float32") ** 2))
                history.append((optimizer._loss_scale, *CPU.send(model.w.array).tolist()))
        return history

    with pytest.warns(UserWarning, match="Non finite"):
        want = run(CPU)
    with pytest.warns(UserWarning, match="Non finite"):
        got = run(device)
    assert max(scale for scale, *_ in want) >= 256
    assert min(b[0] / a[0] for a, b in zip(want, want[1:], strict=False)) == 0.5
    np.testing.assert_allclose(got, want, rtol=2e-3)
