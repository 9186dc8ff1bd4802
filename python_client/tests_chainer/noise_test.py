"""Noise is the device's: repeatable by its seed, as it should be on average, and only in training."""

import chainer
import chainer.functions as F
import chx
import numpy as np
import pytest


def host(x):
    return chx.to_numpy(chainer.as_array(x))


@pytest.fixture
def x(device):
    return chainer.Variable(device.send(np.full((100, 200), 2.0, "f")))


def test_dropout(x):
    y, mask = F.dropout(x, 0.25, return_mask=True)
    mask, values = host(mask), host(y)
    assert set(np.unique(mask)) == {0, np.float32(1 / 0.75)}
    np.testing.assert_array_equal(values, 2 * mask)
    assert abs((mask == 0).mean() - 0.25) < 0.02
    F.sum(y).backward()
    np.testing.assert_array_equal(host(x.grad), mask)
    again, _ = F.dropout(x, 0.25, return_mask=True)
    assert (host(again) != values).any()
    with chainer.using_config("train", False):
        np.testing.assert_array_equal(host(F.dropout(x)), host(x))


def test_seeds(x):
    made = []
    for _ in range(2):
        chx.random.seed(5)
        made.append([host(f(x)) for f in (F.dropout, lambda x: F.gaussian(x, x), F.gumbel_softmax)])
    for a, b in zip(*made, strict=True):
        np.testing.assert_array_equal(a, b)


def test_noise_in_halves(device):
    """float16 has few values, of which the mask must not make some likelier."""
    x = device.send(np.ones((200, 200), np.float16))
    y = F.dropout(x, 0.5)
    assert y.dtype == np.float16 and set(np.unique(host(y))) == {0, 2}
    assert abs(host(y).mean() - 1) < 0.05
    z = F.gaussian(x, x)
    assert z.dtype == np.float16 and np.isfinite(host(z)).all()


def test_gaussian(device):
    mean = chainer.Variable(device.send(np.full((200, 100), 3.0)))
    ln_var = chainer.Variable(device.send(np.full((200, 100), np.log(4.0))))
    y, eps = F.gaussian(mean, ln_var, return_eps=True)
    assert abs(host(y).mean() - 3) < 0.1 and abs(host(y).std() - 2) < 0.1
    F.sum(y).backward()
    np.testing.assert_array_equal(host(mean.grad), 1)
    np.testing.assert_allclose(host(ln_var.grad), host(eps))  # exp(ln_var / 2) / 2 = 1


def test_rrelu(device):
    x = chainer.Variable(device.send(np.linspace(-1, 1, 10000)))
    y, r = F.rrelu(x, 0.2, 0.4, return_r=True)
    values, r = host(y), host(r)
    assert 0.2 <= r.min() < 0.21 and 0.39 < r.max() <= 0.4
    np.testing.assert_allclose(values, np.where(host(x) >= 0, host(x), host(x) * r))
    F.sum(y).backward()
    np.testing.assert_allclose(host(x.grad), np.where(host(x) >= 0, 1, r))
    with chainer.using_config("train", False):
        np.testing.assert_allclose(host(F.rrelu(x, 0.2, 0.4))[0], -0.3)


def test_zoneout(device):
    h, x = (chainer.Variable(device.send(np.full((100, 100), v, "f"))) for v in (1.0, 2.0))
    y = F.zoneout(h, x, 0.3)
    old = host(y) == 1
    assert abs(old.mean() - 0.3) < 0.03 and (host(y)[~old] == 2).all()
    F.sum(y).backward()
    np.testing.assert_array_equal(host(h.grad), old)
    np.testing.assert_array_equal(host(x.grad), ~old)
    with chainer.using_config("train", False):
        assert F.zoneout(h, x, 0.3) is x


def test_gumbel_softmax(device):
    log_pi = chainer.Variable(device.send(np.log(np.tile([0.2, 0.5, 0.3], (20000, 1)))))
    y = F.gumbel_softmax(log_pi, 0.5)
    np.testing.assert_allclose(host(y).sum(1), 1)
    chosen = np.bincount(host(y).argmax(1), minlength=3) / 20000
    np.testing.assert_allclose(chosen, [0.2, 0.5, 0.3], atol=0.02)
    F.sum(y[:, 0]).backward()
    assert np.isfinite(host(log_pi.grad)).all() and host(log_pi.grad).any()


def test_simplified_dropconnect(device):
    x = chainer.Variable(device.send(np.ones((50, 40), "f")))
    w = chainer.Variable(device.send(np.ones((30, 40), "f")))
    y = F.simplified_dropconnect(x, w, None, 0.4)
    assert y.shape == (50, 30) and abs(host(y).mean() - 40) < 1
    F.sum(y).backward()
    assert abs(host(w.grad).mean() - 50) < 1


def test_recurrent_networks_with_dropout(rng, device):
    """With dropout between layers they are made of single functions."""
    link = chainer.links.NStepLSTM(2, 3, 4, 0.5)
    remote = link.copy("copy").to_device(device)
    xs = [rng.normal(size=(n, 3)).astype("f") for n in (4, 2)]
    sent = [device.send(x) for x in xs]
    with chainer.using_config("train", False):
        h, c, ys = link(None, None, xs)
        rh, rc, rys = remote(None, None, sent)
    for a, b in zip([h, c, *ys], [rh, rc, *rys], strict=True):
        np.testing.assert_allclose(host(b), a.array, rtol=1e-5, atol=1e-6)
    one, other = (remote(None, None, sent)[0] for _ in range(2))
    assert (host(one) != host(other)).any()
    remote.cleargrads()
    F.sum(one).backward()
    assert all(np.isfinite(host(p.grad)).all() for p in remote.params() if p.grad is not None)


def test_noise_on_another_device():
    other = chainer.get_device("native:1")
    x = chainer.Variable(other.send(np.ones((3, 4), "f")))
    for f in (F.dropout, F.rrelu, F.gumbel_softmax, lambda x: F.gaussian(x, x)):
        y = f(x)
        F.sum(y).backward()
        assert y.device == other == x.device
