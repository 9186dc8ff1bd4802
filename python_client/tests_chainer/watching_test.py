"""Type checks, hooks and debug mode on the daemon's arrays."""

import io

import chainer
import chainer.functions as F
import chainer.links as L
import chx
import numpy as np
import pytest
from chainer.utils import type_check


def message(call):
    with pytest.raises(type_check.InvalidType) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: F.matmul(a(2, 3), a(2, 3)),
        lambda a: F.linear(a(2, 3), a(4, 5)),
        lambda a: F.concat([a(2, 3), a(2)]),
        lambda a: F.exp(a(2, dtype="i")),
        lambda a: F.convolution_2d(a(1, 2, 4, 4), a(1, 3, 2, 2)),
        lambda a: a(2) + a(2, dtype="d"),
    ],
)
def test_messages_of_type_checks_are_numpy_s(call, device):
    def on(place):
        def make(*shape, dtype="f"):
            return chainer.Variable(place.send(np.zeros(shape, dtype)))

        return message(lambda: call(make))

    assert on(device) == on(chainer.get_device("@numpy"))
    with chainer.using_config("type_check", False), pytest.raises(Exception) as caught:
        F.matmul(device.send(np.zeros((2, 3), "f")), device.send(np.zeros((2, 3), "f")))
    assert not isinstance(caught.value, type_check.InvalidType)


class Recorder(chainer.FunctionHook):
    name = "Recorder"

    def __init__(self):
        self.calls = []

    def note(self, when, function, in_data, grads=()):
        self.calls.append((when, function.label, [a.shape for a in in_data], len(grads)))

    def forward_preprocess(self, function, in_data):
        self.note("before forward", function, in_data)

    def forward_postprocess(self, function, in_data):
        self.note("after forward", function, in_data)

    def backward_preprocess(self, function, in_data, out_grad):
        self.note("before backward", function, out_grad, out_grad)

    def backward_postprocess(self, function, in_data, out_grad):
        self.note("after backward", function, out_grad, out_grad)


def network(rng):
    model = L.Classifier(chainer.Sequential(L.Linear(4, 6), F.relu, F.tanh, L.Linear(6, 3)))
    model.compute_accuracy = False
    return model, rng.normal(size=(5, 4)).astype("f"), rng.integers(0, 3, 5).astype("i")


def test_hooks_see_forward_and_backward(rng, device):
    model, x, t = network(rng)
    seen, grads = [], []
    for place in (chainer.get_device("@numpy"), device):
        m = model.copy("copy").to_device(place)
        m.cleargrads()
        with Recorder() as recorder:
            m(place.send(x), place.send(t)).backward()
        seen.append(recorder.calls)
        grads.append(
            [place.fallback_device.send(p.grad) if place is device else p.grad for p in m.params()]
        )
    # Linear and the loss, of which NumPy's backward has nodes of its own, which hooks see, too.
    labels = {label for _, label, _, _ in seen[1]}
    assert len(seen[1]) == 20
    assert [c for c in seen[0] if c[1] in labels and "forward" in c[0]][:10] == [
        c for c in seen[1] if "forward" in c[0]
    ]
    assert [c for c in seen[0] if "backward" in c[0]] == [c for c in seen[1] if "backward" in c[0]]
    for a, b in zip(*grads, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-6)


def test_timer_hook(rng, device):
    model, x, t = network(rng)
    model.to_device(device)
    with chainer.function_hooks.TimerHook() as hook:
        model(device.send(x), device.send(t)).backward()
    assert {name for name, _ in hook.call_history} >= {"LinearFunction", "ReLU", "Tanh"}
    assert hook.total_time() > 0


def test_print_hook(device):
    texts = []
    for place in (chainer.get_device("@numpy"), device):
        out = io.StringIO()
        x = chainer.Variable(place.send(np.arange(1, 4, dtype="f")))
        with chainer.function_hooks.PrintHook(file=out):
            F.sum(F.exp(x)).backward()
        texts.append([line for line in out.getvalue().split("\n") if "at 0x" not in line])
    # NumPy's backward applies functions itself, whose forward is printed, too.
    local, remote = (text[text.index("output gradient") :] for text in texts)
    assert texts[1][:20] == texts[0][:20] and len(remote) > 20
    assert remote.count("output gradient") == local.count("output gradient") == 2
    assert set(remote) <= set(texts[0])


def test_a_function_s_own_hook(device):
    function = F.activation.relu.ReLU()
    recorder = Recorder()
    function.add_hook(recorder)
    (y,) = function.apply((device.send(np.ones(3, "f")),))
    assert [c[0] for c in recorder.calls] == ["before forward", "after forward"]


@pytest.mark.parametrize("hooks", ["function_hooks", "link_hooks"])
def test_timers_wait_for_the_device_of_the_arrays(device, hooks):
    """Which may be another daemon's, or another session's, than the default one."""
    context = chx.Context()
    other = chainer.backend.ChainerxDevice(context.get_device("native:0"))
    link = L.Linear(3, 3, nobias=True)
    link.to_device(other)
    x = other.send(np.ones((2, 3), "f"))
    link(x)
    session = context._session
    before = session.stats()["round_trips"]
    with getattr(chainer, hooks).TimerHook() as hook:
        link(x)
    assert len(hook.call_history) == 1
    assert session.stats()["round_trips"] == before + 2


def test_debug_mode_finds_nans_of_forward(device):
    values = np.array([-1.0, 1.0], "f")
    x = chainer.Variable(device.send(values))
    assert np.isnan(chx.to_numpy(F.log(x).array)[0])
    with (
        chainer.using_config("debug", True),
        np.errstate(invalid="ignore"),
        pytest.raises(RuntimeError, match=r"\[log\] expects no NaN.* in output 0") as caught,
    ):
        with pytest.raises(RuntimeError) as expected:
            F.log(values)
        F.log(x)
    assert str(caught.value).splitlines()[0] == str(expected.value)


def test_debug_mode_finds_nans_of_backward(device):
    """The gradient of sqrt at 0 is inf, times 0 NaN: by no function but the product's."""
    x = chainer.Variable(device.send(np.array([0.0, 1.0], "f")))
    with chainer.using_config("debug", True):
        y = F.sum(F.sqrt(x * 0))
        with pytest.raises(RuntimeError, match=r"gradient of input 0") as caught:
            y.backward()
        assert str(caught.value).startswith("NaN is detected on backward computation of _ * 0")
        assert x.grad is None
        y = F.sum(F.sqrt(x + 1))
        y.backward(loss_scale=4.0)
    np.testing.assert_allclose(chx.to_numpy(x.grad), 2.0 / np.sqrt([1, 2]), rtol=1e-6)
    assert x._loss_scale == 4.0


def test_walks_give_the_gradients_of_the_daemon(rng, device):
    """Shared inputs, inputs that depend on each other, several outputs, double backprop."""

    def run(debug):
        generator = np.random.default_rng(7)
        x = chainer.Variable(device.send(generator.uniform(0.5, 1.5, (4, 3))))
        w = chainer.Variable(device.send(generator.uniform(0.5, 1.5, (4, 3))))
        with chainer.using_config("debug", debug):
            y = x * w
            a, b = F.split_axis(F.exp(y) * w * y, 2, 0)
            c = F.sum(a * b * b) + F.sum(x * x)
            c.backward(enable_double_backprop=True, retain_grad=True)
            found = [v.grad for v in (x, w, y, a, b, c)]
            g = F.sum(x.grad_var * w.grad_var)
            x.cleargrad()
            w.cleargrad()
            g.backward()
        return [chx.to_numpy(v) for v in [*found, x.grad, w.grad]]

    for a, b in zip(run(True), run(False), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_hooks_that_come_too_late_warn(device):
    x = chainer.Variable(device.send(np.ones(3, "f")))
    y = F.sum(F.exp(x))
    from chx.chainer import _variables

    _variables._unseen.clear()
    with Recorder() as recorder, pytest.warns(RuntimeWarning, match="are not seen"):
        y.backward()
    assert recorder.calls == []
    np.testing.assert_allclose(chx.to_numpy(x.grad), np.exp(np.ones(3)), rtol=1e-6)
