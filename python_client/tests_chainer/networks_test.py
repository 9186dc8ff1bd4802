"""Training loops as in Chainer's documents, on the daemon and on NumPy: the same losses, no fallback."""

import chainer
import chainer.functions as F
import chainer.links as L
import chx
import numpy as np


class Generator(chainer.Chain):
    def __init__(self):
        super().__init__()
        w = chainer.initializers.Normal(0.1)
        with self.init_scope():
            self.first = L.Linear(10, 4 * 4 * 16, initialW=w)
            self.norm = L.BatchNormalization(4 * 4 * 16)
            self.middle = L.Deconvolution2D(16, 8, 4, 2, 1, initialW=w)
            self.norm2 = L.BatchNormalization(8)
            self.last = L.Deconvolution2D(8, 3, 4, 2, 1, initialW=w)

    def forward(self, z):
        h = F.reshape(F.relu(self.norm(self.first(z))), (len(z), 16, 4, 4))
        return F.sigmoid(self.last(F.relu(self.norm2(self.middle(h)))))


class Critic(chainer.Chain):
    def __init__(self):
        super().__init__()
        w = chainer.initializers.Normal(0.1)
        with self.init_scope():
            self.first = L.Convolution2D(3, 8, 4, 2, 1, initialW=w)
            self.middle = L.Convolution2D(8, 16, 4, 2, 1, initialW=w)
            self.norm = L.BatchNormalization(16, use_gamma=False)
            self.last = L.Linear(4 * 4 * 16, 1, initialW=w)

    def forward(self, x):
        h = F.leaky_relu(self.first(x))
        return self.last(F.leaky_relu(self.norm(self.middle(h))))


def adam(model):
    optimizer = chainer.optimizers.Adam(alpha=2e-4, beta1=0.5).setup(model)
    optimizer.add_hook(chainer.optimizer_hooks.WeightDecay(1e-4))
    return optimizer


def train_gan(device, seed, steps=6):
    """Two updates over one graph, of which the first one's changes parameters that it holds."""
    np.random.seed(seed)
    rng = np.random.default_rng(seed)
    generator, critic = (model().to_device(device) for model in (Generator, Critic))
    before = chainer.get_device("@numpy").send(generator.last.W.array.copy())
    updates = [adam(model) for model in (generator, critic)]
    losses = []
    for _ in range(steps):
        x = device.send(rng.random((6, 3, 16, 16), dtype=np.float32))
        z = device.send(rng.normal(size=(6, 10)).astype("f"))
        real, fake = critic(x), critic(generator(z))
        loss_critic = (F.sum(F.softplus(-real)) + F.sum(F.softplus(fake))) / 6
        loss_generator = F.sum(F.softplus(-fake)) / 6
        for optimizer, loss in zip(updates, (loss_generator, loss_critic), strict=True):
            optimizer.target.cleargrads()
            loss.backward()
            optimizer.update()
        losses.append((float(loss_generator.array), float(loss_critic.array)))
    after = chainer.get_device("@numpy").send(generator.last.W.array)
    assert np.abs(after - before).max() > 1e-4
    return losses


class Words(chainer.Chain):
    """A stateful recurrent network over words."""

    def __init__(self, n=50, units=16):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(n, units)
            self.first = L.LSTM(units, units)
            self.second = L.LSTM(units, units)
            self.last = L.Linear(units, n)
        for p in self.params():
            p.array[...] = np.random.uniform(-0.1, 0.1, p.shape)

    def forward(self, x):
        h = self.first(F.dropout(self.embed(x), 0.0))
        return self.last(F.dropout(self.second(h), 0.0))


def train_words(device, seed, steps=6):
    np.random.seed(seed)
    rng = np.random.default_rng(seed)
    model = Words().to_device(device)
    optimizer = chainer.optimizers.SGD(1.0).setup(model)
    optimizer.add_hook(chainer.optimizer_hooks.GradientClipping(5))
    losses = []
    for _ in range(steps):
        loss = 0
        for _ in range(5):
            x, t = (device.send(rng.integers(0, 50, 4).astype("i")) for _ in range(2))
            loss = loss + F.softmax_cross_entropy(model(x), t)
        model.cleargrads()
        loss.backward()
        loss.unchain_backward()
        optimizer.update()
        losses.append(float(loss.array))
    return losses


def compare(train, rng, device):
    seed = int(rng.integers(2**31))
    expected = train(chainer.get_device("@numpy"), seed)
    np.testing.assert_allclose(train(device, seed), expected, rtol=1e-3)
    assert chx.chainer.fallbacks() == {}


def test_generative_adversarial_networks(rng, device):
    compare(train_gan, rng, device)


def test_truncated_backpropagation_through_words(rng, device):
    compare(train_words, rng, device)
