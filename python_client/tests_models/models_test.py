"""The examples' models train as those of PyTorch do, from the same parameters and minibatches.

torch_curves.py has made the curves. In float64 only the last digits may differ. In float32 each library
rounds sums in an order of its own, and training makes the differences grow: in each tenth of the steps,
chx may be ten times as far from the curve in float64 as PyTorch's own float32 has been until then.
"""

import json
import os

import cases
import chx
import gpt
import numpy as np
import pytest
import resnet
import vae

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "torch_curves.json")) as file:
    CURVES = json.load(file)


@pytest.fixture(scope="module", autouse=True)
def session():
    with chx.connect() as session:
        yield session


def arrays(values, dtype):
    return {name: chx.array(value.astype(dtype)) for name, value in values.items()}


def leaves(values, dtype):
    return {name: array.require_grad() for name, array in arrays(values, dtype).items()}


def losses_of(step, batches, jit, set_rate=lambda number: None):
    step = chx.jit(step) if jit else step
    losses = []
    for number, batch in enumerate(chx.data.prefetch(batches)):
        set_rate(number)
        losses.append(step(*batch))
    if jit:
        assert step.cache_info().misses == 1
        assert step.cache_info().unplanned == ()
    return {"losses": chx.stack(losses).tolist()}


def train_gpt(dtype, jit):
    case = cases.gpt_case()
    params = leaves(case.initial, dtype)
    optimizer, set_rate = gpt.optimizer_of(params, case.rate, case.decay)
    step = gpt.step_of(params, case.config, optimizer, case.max_norm)
    return losses_of(step, case.batches, jit, set_rate)


def scores_of(model, images):
    """By the means and variances of all batches."""
    with chx.no_backprop_mode():
        return model(chx.array(images), training=False)


def train_resnet(dtype, jit):
    """Its losses; then its scores of a digit that it has not seen, and its accuracy for such ones."""
    case = cases.resnet_case()
    params, stats = leaves(case.initial, dtype), arrays(case.stats, dtype)
    model = resnet.ResNet(case.widths, params, stats)
    optimizer, set_rate = resnet.optimizer_of(params, case.rate, case.decay)
    batches = [(x.astype(dtype), t) for x, t in case.batches]
    images, labels = case.held_out[0].astype(dtype), chx.array(case.held_out[1])
    before = chx.accuracy(scores_of(model, images), labels).item()
    curve = losses_of(resnet.step_of(model, optimizer), batches, jit, set_rate)
    scores = scores_of(model, images)
    accuracy = chx.accuracy(scores, labels).item()
    assert before < 0.2 and accuracy > 0.85
    return curve | {"scores": scores[0].tolist(), "accuracy": accuracy}


def train_vae(dtype, jit):
    case = cases.vae_case()
    params = leaves(case.initial, dtype)
    step = vae.step_of(params, chx.optimizers.Adam().setup(params))
    batches = [(x.astype(dtype), noise.astype(dtype)) for x, noise in case.batches]
    return losses_of(step, batches, jit)


MODELS = {"gpt": train_gpt, "resnet": train_resnet, "vae": train_vae}

# Of the loss at first, what the last tenth of the steps may still have.
LEFT = {"gpt": 0.5, "resnet": 0.25, "vae": 0.5}


def tenths(values):
    return np.array(values).reshape(10, -1)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("model", MODELS)
def test_losses_are_those_of_pytorch(model, dtype, jit):
    want, single = CURVES[model]["float64"], CURVES[model]["float32"]
    got = MODELS[model](dtype, jit)
    assert got.keys() == want.keys()
    means = tenths(got["losses"]).mean(axis=1)
    print(model, dtype, "means of the losses:", means.round(3))
    assert means[-1] < LEFT[model] * got["losses"][0]  # it learns
    errors = tenths(np.abs(np.subtract(got["losses"], want["losses"]))).max(axis=1)
    by_rounding = tenths(np.abs(np.subtract(single["losses"], want["losses"]))).max(axis=1)
    by_rounding = np.maximum.accumulate(by_rounding)
    print("they differ by", errors, "and PyTorch's float32 by", by_rounding)
    exact = 1e-9 * want["losses"][0]
    assert (errors <= (exact if dtype == "float64" else 10 * by_rounding)).all()
    if model == "resnet":
        # In float32 the scores are others by now; a test below has those of one network.
        if dtype == "float64":
            np.testing.assert_allclose(got["scores"], want["scores"], rtol=1e-9)
        assert got["accuracy"] == pytest.approx(want["accuracy"], abs=0.03)


def test_a_state_dict_of_pytorch_gives_the_scores_of_pytorch():
    """Of the residual network that PyTorch has trained in float32."""
    case = cases.resnet_case()
    state = chx.safetensors.load_file(os.path.join(HERE, "torch_resnet.safetensors"))
    tracked = [name for name in state if name.endswith("num_batches_tracked")]
    assert set(state) - set(tracked) == set(case.initial) | set(case.stats)
    assert {(state[name].dtype.name, state[name].item()) for name in tracked} == {
        ("int64", len(case.batches))
    }
    model = resnet.ResNet(case.widths, state, state)
    scores = scores_of(model, case.held_out[0])
    want = CURVES["resnet"]["float32"]
    np.testing.assert_allclose(scores[0].tolist(), want["scores"], rtol=1e-4, atol=1e-5)
    accuracy = chx.accuracy(scores, chx.array(case.held_out[1])).item()
    assert accuracy == pytest.approx(want["accuracy"], abs=1e-6)
