"""Two networks compete (DCGAN; Radford, Metz, Chintala 2015): one draws, one tells drawn from real.

    python -m chx run dcgan.py --device native:0

Both losses are of one graph, through which backward goes twice. Previews are in the folder --out.
"""

import os

import chainer
import chainer.functions as F
import chainer.links as L
import datasets
import matplotlib.image
import numpy as np
import options
from chainer import training
from chainer.training import extensions, make_extension


def blurred(x, deviation=0.2):
    """The variable with noise in it while training. The numbers are NumPy's."""
    if not chainer.config.train:
        return x
    device = chainer.backend.get_device_from_array(chainer.as_array(x))
    xp = getattr(device, "fallback_device", device).xp
    noise = deviation * xp.random.randn(*x.shape)
    return x + device.send(noise.astype(x.dtype))


class Generator(chainer.Chain):
    """Draws images (N, 3, 32, 32) in (-1, 1) of vectors (N, hidden)."""

    def __init__(self, hidden, channels):
        super().__init__()
        self.hidden = hidden
        self.bottom = channels, 4, 4
        w = chainer.initializers.Normal(0.05)
        with self.init_scope():
            self.start = L.Linear(hidden, channels * 16, initialW=w)
            self.norm0 = L.BatchNormalization(channels * 16)
            self.up1 = L.Deconvolution2D(channels, channels // 2, 4, 2, 1, initialW=w)
            self.norm1 = L.BatchNormalization(channels // 2)
            self.up2 = L.Deconvolution2D(channels // 2, channels // 4, 4, 2, 1, initialW=w)
            self.norm2 = L.BatchNormalization(channels // 4)
            self.up3 = L.Deconvolution2D(channels // 4, 3, 4, 2, 1, initialW=w)

    def make_hidden(self, count):
        return np.random.uniform(-1, 1, (count, self.hidden)).astype(np.float32)

    def forward(self, z):
        h = F.reshape(F.relu(self.norm0(self.start(z))), (len(z), *self.bottom))
        h = F.relu(self.norm1(self.up1(h)))
        h = F.relu(self.norm2(self.up2(h)))
        return F.tanh(self.up3(h))


class Critic(chainer.Chain):
    """How real images look: logits (N, 1)."""

    def __init__(self, channels):
        super().__init__()
        w = chainer.initializers.Normal(0.05)
        with self.init_scope():
            self.down1 = L.Convolution2D(3, channels // 4, 4, 2, 1, initialW=w)
            self.down2 = L.Convolution2D(channels // 4, channels // 2, 4, 2, 1, initialW=w)
            self.norm2 = L.BatchNormalization(channels // 2, use_gamma=False)
            self.down3 = L.Convolution2D(channels // 2, channels, 4, 2, 1, initialW=w)
            self.norm3 = L.BatchNormalization(channels, use_gamma=False)
            self.end = L.Linear(channels * 16, 1, initialW=w)

    def forward(self, x):
        h = F.leaky_relu(blurred(self.down1(blurred(x))))
        h = F.leaky_relu(blurred(self.norm2(self.down2(h))))
        h = F.leaky_relu(blurred(self.norm3(self.down3(h))))
        return self.end(h)


class Updater(training.updaters.StandardUpdater):
    """One step of both networks on a batch."""

    def __init__(self, iterator, generator, critic, **kwargs):
        super().__init__(iterator, {"generator": generator, "critic": critic}, **kwargs)

    def critic_loss(self, critic, drawn, real):
        loss = F.average(F.softplus(-real)) + F.average(F.softplus(drawn))
        chainer.report({"loss": loss}, critic)
        return loss

    def generator_loss(self, generator, drawn):
        loss = F.average(F.softplus(-drawn))
        chainer.report({"loss": loss}, generator)
        return loss

    def update_core(self):
        generator = self.get_optimizer("generator")
        critic = self.get_optimizer("critic")
        images = self.converter(self.get_iterator("main").next(), self.device)
        real = critic.target(images)
        z = self.device.send(generator.target.make_hidden(len(images)))
        drawn = critic.target(generator.target(z))
        critic.update(self.critic_loss, critic.target, drawn, real)
        generator.update(self.generator_loss, generator.target, drawn)


def preview(generator, device, out, count=16):
    """An extension that writes what the generator draws of the same vectors each time."""
    state = np.random.get_state()
    z = generator.make_hidden(count)
    np.random.set_state(state)

    @make_extension(trigger=(100, "iteration"))
    def draw(trainer):
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            images = generator(device.send(z)).array
        images = chainer.get_device("@numpy").send(images) * 0.5 + 0.5
        sheet = np.concatenate(images.transpose(0, 2, 3, 1), axis=1)
        path = os.path.join(out, f"drawn-{trainer.updater.iteration}.png")
        matplotlib.image.imsave(path, sheet.clip(0, 1))

    return draw


def make_optimizer(model):
    optimizer = chainer.optimizers.Adam(alpha=0.0005, beta1=0.5)
    optimizer.setup(model)
    optimizer.add_hook(chainer.optimizer_hooks.WeightDecay(0.0001))
    return optimizer


def main(arguments=None):
    parser = options.parser(
        __doc__, iterations=200, batch_size=16, images=256, channels=32, hidden=16
    )
    args = parser.parse_args(arguments)
    device = options.begin(args)
    generator = Generator(args.hidden, args.channels).to_device(device)
    critic = Critic(args.channels).to_device(device)
    batches = chainer.iterators.SerialIterator(
        datasets.patterned_images(args.images), args.batch_size
    )
    updater = Updater(batches, make_optimizer(generator), make_optimizer(critic), device=device)
    trainer = training.Trainer(updater, (args.iterations, "iteration"), out=args.out)
    trainer.extend(extensions.LogReport(trigger=(10, "iteration")))
    trainer.extend(
        extensions.PrintReport(["iteration", "generator/loss", "critic/loss"]),
        trigger=(10, "iteration"),
    )
    trainer.extend(extensions.FailOnNonNumber())
    trainer.extend(preview(generator, device, args.out))
    trainer.extend(
        extensions.snapshot(filename="trainer-{.updater.iteration}.npz"),
        trigger=(100, "iteration"),
    )
    trainer.run()
    return trainer


if __name__ == "__main__":
    main()
