"""The examples' models train as those of PyTorch do, from the same parameters and minibatches.

torch_curves.py has made the curves. In float64 only the last digits may differ. In float32 each library
rounds sums in an order of its own, and training makes the differences grow: chx may be ten times as far
from the curve in float64 as PyTorch's own float32 is.
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
    return chx.stack(losses).tolist()


def train_gpt(dtype, jit):
    case = cases.gpt_case()
    params = leaves(case.initial, dtype)
    optimizer, set_rate = gpt.optimizer_of(params, case.rate, case.decay)
    step = gpt.step_of(params, case.config, optimizer, case.max_norm)
    return losses_of(step, case.batches, jit, set_rate)


def train_resnet(dtype, jit):
    """Its losses, then scores by the means and variances of all batches."""
    case = cases.resnet_case()
    params, stats = leaves(case.initial, dtype), arrays(case.stats, dtype)
    model = resnet.ResNet(case.widths, params, stats)
    optimizer, set_rate = resnet.optimizer_of(params, case.rate, case.decay)
    batches = [(x.astype(dtype), t) for x, t in case.batches]
    losses = losses_of(resnet.step_of(model, optimizer), batches, jit, set_rate)
    with chx.no_backprop_mode():
        scores = model(chx.array(batches[0][0]), training=False)
    return losses + scores[0].tolist()


def train_vae(dtype, jit):
    case = cases.vae_case()
    params = leaves(case.initial, dtype)
    step = vae.step_of(params, chx.optimizers.Adam().setup(params))
    batches = [(x.astype(dtype), noise.astype(dtype)) for x, noise in case.batches]
    return losses_of(step, batches, jit)


MODELS = {"gpt": train_gpt, "resnet": train_resnet, "vae": train_vae}


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("model", MODELS)
def test_losses_are_those_of_pytorch(model, dtype, jit):
    want = np.array(CURVES[model]["float64"])
    by_rounding = np.abs(np.array(CURVES[model]["float32"]) - want).max()
    got = np.array(MODELS[model](dtype, jit))
    error = np.abs(got - want).max()
    print(model, dtype, "differs by", error, "and PyTorch's float32 by", by_rounding)
    assert want[0] - want.min() > 1  # it learns
    assert error <= (1e-9 * want[0] if dtype == "float64" else 10 * by_rounding)


def test_a_state_dict_of_pytorch_gives_the_scores_of_pytorch():
    """Of the residual network that PyTorch has trained in float32."""
    case = cases.resnet_case()
    state = chx.safetensors.load_file(os.path.join(HERE, "torch_resnet.safetensors"))
    tracked = [name for name in state if name.endswith("num_batches_tracked")]
    assert set(state) - set(tracked) == set(case.initial) | set(case.stats)
    assert {(state[name].dtype.name, state[name].item()) for name in tracked} == {("int64", 40)}
    model = resnet.ResNet(case.widths, state, state)
    scores = model(chx.array(case.batches[0][0]), training=False)
    want = CURVES["resnet"]["float32"][-10:]
    np.testing.assert_allclose(scores[0].tolist(), want, rtol=1e-4, atol=1e-5)
