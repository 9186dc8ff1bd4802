"""chx.autocast and chx.optimizers.GradScaler: what is cast, gradients, recordings, scales."""

import threading

import chx
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("seeded_session")

NARROW = ["bfloat16", "float16"]


def normal(rng, *shape):
    return chx.array(rng.normal(size=shape).astype("float32"))


@pytest.mark.parametrize("dtype", NARROW)
def test_what_is_cast(rng, dtype):
    x, w = normal(rng, 4, 3), normal(rng, 2, 3)
    image, filters = normal(rng, 2, 3, 8, 8), normal(rng, 4, 3, 3, 3)
    heads = normal(rng, 2, 5, 4)
    with chx.autocast(dtype):
        assert chx.autocast_dtype() == dtype
        h = chx.linear(x, w)
        assert h.dtype == dtype and (x @ w.T).dtype == dtype
        assert chx.conv(image, filters).dtype == dtype
        assert chx.scaled_dot_product_attention(heads, heads, heads).dtype == dtype
        assert chx.tensordot(x, w, ((1,), (1,))).dtype == dtype
        for wide in (chx.exp(h), chx.softmax(h), h.sum(), chx.mean(h), chx.squared_error(h, h)):
            assert wide.dtype == "float32"
        assert chx.relu(h).dtype == dtype and (h + h).dtype == dtype
        assert (h + x[:, :2]).dtype == "float32"
        assert (x + 1).dtype == "float32"
        doubles = x.astype("float64")
        assert (doubles @ doubles.T).dtype == "float64"
        labels = chx.array([0, 1, 1, 0])
        assert chx.softmax_cross_entropy(h, labels).dtype == "float32"
    assert chx.autocast_dtype() is None
    assert chx.linear(x, w).dtype == "float32"


@pytest.mark.parametrize("dtype", NARROW)
def test_is_as_by_hand(rng, dtype):
    x, t = normal(rng, 6, 5), chx.array(rng.integers(0, 3, 6))

    def train(cast):
        w = chx.array(w0).require_grad()
        loss = chx.mean(chx.softmax_cross_entropy(cast(w), t))
        loss.backward()
        return float(loss), chx.to_numpy(w.grad)

    w0 = rng.normal(size=(3, 5)).astype("float32")

    def by_autocast(w):
        with chx.autocast(dtype):
            return chx.linear(x, w).astype("float32")

    def by_hand(w):
        return chx.linear(x.astype(dtype), w.astype(dtype)).astype("float32")

    loss, grad = train(by_autocast)
    want_loss, want_grad = train(by_hand)
    assert loss == want_loss and grad.dtype == "float32"
    np.testing.assert_array_equal(grad, want_grad)


def test_nests_and_decorates(rng):
    x = normal(rng, 3, 3)

    @chx.autocast("float16")
    def product():
        return x @ x

    with chx.autocast():
        assert chx.autocast_dtype() == "bfloat16"
        with chx.autocast(enabled=False):
            assert (x @ x).dtype == "float32"
        assert product().dtype == "float16"
        assert (x @ x).dtype == "bfloat16"
    with pytest.raises(
        chx.DtypeError, match=r"\[autocast\] expects float16 or bfloat16, got int32"
    ):
        chx.autocast("int32").__enter__()
    with pytest.raises(RuntimeError, match="inside"), chx.autocast():
        raise RuntimeError("inside")
    assert chx.autocast_dtype() is None


def test_is_of_the_thread(rng):
    seen = []
    with chx.autocast():
        thread = threading.Thread(target=lambda: seen.append(chx.autocast_dtype()))
        thread.start()
        thread.join()
    assert seen == [None]


def test_recordings_are_of_their_mode(rng):
    x = normal(rng, 4, 4)
    square = chx.jit(lambda a: a @ a)
    for _ in range(2):
        assert square(x).dtype == "float32"
        with chx.autocast("bfloat16"):
            assert square(x).dtype == "bfloat16"
        with chx.autocast("float16"):
            assert square(x).dtype == "float16"
    assert square.cache_info().currsize == 3


@pytest.mark.parametrize("dtype", NARROW)
def test_double_gradients(rng, dtype):
    w = normal(rng, 3, 3).require_grad()
    with chx.autocast(dtype):
        y = (w @ w).sum()
    (gw,) = chx.grad([y], [w], enable_double_backprop=True)
    (gw * gw).sum().backward()
    w64 = chx.to_numpy(w).astype("float64")
    ones = np.ones((3, 3))
    g = ones @ w64.T + w64.T @ ones
    want = 2 * (g.T @ ones + ones @ g.T)
    np.testing.assert_allclose(chx.to_numpy(w.grad), want, rtol=0.1, atol=0.3)


class TestGradScaler:
    def test_small_gradients_are_not_lost(self, rng):
        def gradient(scaler):
            w = chx.ones((1, 4)).require_grad()
            x = chx.full((1, 4), 1e-4, "float32")
            optimizer = chx.optimizers.SGD(lr=1.0).setup([w])
            with chx.autocast("float16"):
                loss = chx.linear(x, w).sum() * 1e-5
            scaler.scale(loss).backward()
            assert scaler.step(optimizer)
            scaler.update()
            return 1 - chx.to_numpy(w)

        lost = gradient(chx.optimizers.GradScaler(enabled=False))
        kept = gradient(chx.optimizers.GradScaler())
        assert not lost.any()
        np.testing.assert_allclose(kept, 1e-9, rtol=5e-3, atol=6e-8)

    def test_infinite_gradients_leave_out_the_step(self):
        w = chx.ones(3).require_grad()
        optimizer = chx.optimizers.SGD(lr=0.5).setup([w])
        scaler = chx.optimizers.GradScaler(init_scale=8, growth_interval=2)
        scales = []
        for factor in (float("inf"), float("nan"), 1.0, 1.0, 1.0):
            optimizer.cleargrads()
            scaler.scale((w * factor).sum()).backward()
            assert scaler.step(optimizer) == np.isfinite(factor)
            scaler.update()
            scales.append(scaler.get_scale())
        assert scales == [4, 2, 2, 4, 4]
        assert w.tolist() == [-0.5] * 3 and optimizer.t == 3

    def test_gradients_may_be_clipped_between(self):
        w = chx.ones(2).require_grad()
        optimizer = chx.optimizers.SGD(lr=1.0).setup([w])
        scaler = chx.optimizers.GradScaler(init_scale=1024)
        scaler.scale((w * chx.array([3.0, 4.0], "float32")).sum()).backward()
        scaler.unscale(optimizer)
        assert w.grad.tolist() == [3, 4]
        with pytest.raises(RuntimeError, match="since the last update"):
            scaler.unscale(optimizer)
        chx.optimizers.clip_grad_norm([w], 1.0)
        assert scaler.step(optimizer)
        np.testing.assert_allclose(w.tolist(), [0.4, 0.2], rtol=1e-5)

    def test_goes_on_from_its_state(self):
        scaler = chx.optimizers.GradScaler(init_scale=2)
        other = chx.optimizers.GradScaler()
        other.load_state_dict(scaler.state_dict())
        assert other.get_scale() == 2
        with pytest.raises(KeyError):
            other.load_state_dict({})

    @pytest.mark.parametrize(
        "wrong",
        [{"init_scale": 0}, {"growth_factor": 1}, {"backoff_factor": 1}, {"growth_interval": 0}],
        ids=str,
    )
    def test_what_it_refuses(self, wrong):
        with pytest.raises(ValueError, match="GradScaler expects"):
            chx.optimizers.GradScaler(**wrong)
