"""Moving averages of parameters, and clipping of gradients by hand."""

import chx
import numpy as np
import pytest


@pytest.fixture
def params(seeded_session, rng):
    return {name: chx.array(rng.normal(size=(3, 4))).require_grad() for name in ("w", "b")}


def test_moving_averages(params, rng):
    averages = chx.optimizers.MovingAverage(params, decay=0.9)
    expected = {name: chx.to_numpy(p).copy() for name, p in params.items()}
    for _ in range(5):
        for name, p in params.items():
            new = rng.normal(size=p.shape)
            p.as_grad_stopped()[...] = chx.array(new)
            expected[name] = 0.9 * expected[name] + 0.1 * new
        averages.update()
    for name, want in expected.items():
        np.testing.assert_allclose(chx.to_numpy(averages.averages[name]), want, rtol=1e-12)
        assert not averages.averages[name].is_backprop_required()
    averages.copy_to(params)
    np.testing.assert_allclose(chx.to_numpy(params["w"]), expected["w"], rtol=1e-12)
    with pytest.raises(KeyError, match="copy_to"):
        averages.copy_to([params["w"]])
    averages.decay = 0.0
    params["w"].as_grad_stopped()[...] = 2.0
    averages.update()
    np.testing.assert_allclose(chx.to_numpy(averages.averages["w"]), 2.0, rtol=1e-15)


def test_clipping_by_hand(params, rng):
    values = {name: rng.normal(size=p.shape) * 3 for name, p in params.items()}
    for name, p in params.items():
        p.set_grad(chx.array(values[name]))
    norm = np.sqrt(sum((v * v).sum() for v in values.values()))
    chx.optimizers.clip_grad_norm(params.values(), 1e4)
    np.testing.assert_array_equal(chx.to_numpy(params["w"].grad), values["w"])
    chx.optimizers.clip_grad_norm(params.values(), 2.0)
    for name, p in params.items():
        np.testing.assert_allclose(chx.to_numpy(p.grad), values[name] * (2 / norm), rtol=1e-12)
    params["b"].cleargrad()
    chx.optimizers.clip_grad_value(list(params.values()), 0.1)
    np.testing.assert_allclose(
        chx.to_numpy(params["w"].grad), np.clip(values["w"] * (2 / norm), -0.1, 0.1), rtol=1e-12
    )
    chx.optimizers.clip_grad_norm([params["b"]], 1.0)  # without a gradient
    assert params["b"].grad is None
