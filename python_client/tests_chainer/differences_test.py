"""What docs/chainer.md lists as differences from NumPy's Chainer, where no other test has it."""

import chainer
import chainer.functions as F
import chx
import numpy as np
import pytest
from chainer import gradient_check

CPU = chainer.get_device("@numpy")
MODES = ["edge", "reflect", "symmetric", "wrap", "maximum", "mean"]


def unnormalised(rng):
    t = rng.uniform(0.1, 1, (3, 4))
    return t / t.sum(1, keepdims=True) * 1.7


def cases(rng, place):
    t = place.send(unnormalised(rng))
    soft = {
        "soft": lambda x: F.softmax_cross_entropy(x, t),
        "soft, apart": lambda x: F.softmax_cross_entropy(x, t, reduce="no"),
    }
    pads = {mode: lambda x, m=mode: F.pad(x, ((1, 1), (2, 0)), m) for mode in MODES}
    return {**pads, **soft}


@pytest.mark.parametrize("name", [*MODES, "soft", "soft, apart"])
def test_gradients_are_numerical_ones(rng, device, name):
    """NumPy's are not: the day that they are, the entry of the list goes."""

    def check(place, state):
        rng.bit_generator.state = state
        # Apart from each other: a maximum has no gradient where two are equal.
        apart = rng.permutation(12).reshape(3, 4) / 3
        x = place.send(apart - 2 + rng.uniform(0, 0.1, (3, 4)))
        function = cases(rng, place)[name]
        gy = place.send(rng.uniform(0.5, 1.5, function(x).shape))
        gradient_check.check_backward(function, x, gy, dtype="d", rtol=1e-4, atol=1e-4)

    differ = 0
    for _ in range(5):  # some draws do not show it
        state = rng.bit_generator.state
        check(device, state)
        try:
            check(CPU, state)
        except AssertionError:
            differ += 1
    assert differ


def test_what_is_in_no_graph(device):
    x = chainer.Variable(device.send(np.ones(2, "f")))
    with chainer.no_backprop_mode():
        assert not F.exp(x).requires_grad
    assert F.exp(x).requires_grad and F.exp(x).creator is not None
    assert F.exp(x.array).creator is None


def test_moving_variables_of_a_graph(device):
    for move in ("from_chx", "to_cpu"):
        with pytest.raises(RuntimeError, match="ChainerX array"):
            getattr(chainer.Variable(device.send(np.ones(2, "f"))), move)()
        constant = chainer.Variable(device.send(np.ones(2, "f")), requires_grad=False)
        getattr(constant, move)()
        assert isinstance(constant.array, np.ndarray)
    parameter = chainer.Parameter(np.ones(2, "f"))
    parameter.to_device(device)
    assert isinstance(parameter.array, chx.ndarray)
    parameter.from_chx()
    assert isinstance(parameter.array, np.ndarray)


def test_labels_that_no_path_gives(rng, device):
    """Their loss is NumPy's; their gradient is zero, and not what rounding leaves."""
    scores = rng.uniform(-1, 1, (4, 2, 3))
    grads = {}
    for place in (CPU, device):
        x = chainer.Variable(place.send(scores))
        t = place.send(np.array([[1, 1, 1], [1, 2, 1]], "i"))
        with chainer.using_device(place):
            F.connectionist_temporal_classification(F.separate(x, 0), t, 0).backward()
        grads[place] = CPU.send(x.grad)
    assert not grads[device][:, 0].any()
    assert grads[CPU][:, 0].any()
    np.testing.assert_allclose(grads[device][:, 1], grads[CPU][:, 1], 1e-10, 1e-12)


def test_gradients_of_temporal_classification_have_gradients(rng, device):
    t = device.send(np.array([[1, 2, 2], [3, 1, -1]], "i"))
    lengths = [device.send(np.array(n, "i")) for n in ([6, 5], [3, 2])]
    weights, direction = rng.uniform(-1, 1, (2, 6, 2, 4))

    def weighted(scores):
        """A sum of the gradients of the scores, and the scores."""
        x = chainer.Variable(device.send(scores))
        loss = F.connectionist_temporal_classification(F.separate(x, 0), t, 0, *lengths)
        (gx,) = chainer.grad([loss], [x], enable_double_backprop=True)
        return F.sum(gx * device.send(weights)), x

    scores = rng.uniform(-1, 1, (6, 2, 4))
    total, x = weighted(scores)
    total.backward()
    steps = [float(weighted(scores + s * direction)[0].array) for s in (1e-5, -1e-5)]
    numerical = (steps[0] - steps[1]) / 2e-5
    np.testing.assert_allclose((CPU.send(x.grad) * direction).sum(), numerical, 1e-5, 1e-8)


@pytest.mark.parametrize(
    "what, t, n, m",
    [("labels", 4, 5, 2), ("input_lengths", 3, 6, 2), ("target_lengths", 3, 5, 3)],
)
def test_temporal_classification_checks_its_numbers(device, what, t, n, m):
    x = [chainer.Variable(device.send(np.ones((1, 4), "f"))) for _ in range(5)]
    t, n, m = (device.send(np.array(v, "i")) for v in ([[1, t]], [n], [m]))
    with pytest.raises(IndexError, match=f"expects {what} from 0 to"):
        float(F.connectionist_temporal_classification(x, t, 0, n, m).array)
