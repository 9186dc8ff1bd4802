"""Trains a small residual network (He et al. 2015) on digits of MNIST; the last ones are held out.

python resnet.py --images train-images-idx3-ubyte.gz --labels train-labels-idx1-ubyte.gz --jit
"""

import argparse
import time

import chx
import numpy as np
from common import add_digits, digits, scaled

HELD_OUT = 500
CLASSES = 10


def initial(widths, seed):
    """Parameters, and means and variances of batch normalizations, by name, as NumPy arrays.

    A stage of one block for each width; the first layer has the first width. Weights are He's.
    """
    random = np.random.RandomState(seed)
    params, stats = {}, {}

    def conv(name, inputs, outputs, size):
        weight = random.standard_normal((outputs, inputs, size, size))
        params[f"{name}.weight"] = (weight * (2 / (inputs * size**2)) ** 0.5).astype(np.float32)
        params[f"{name}.norm.weight"] = np.ones(outputs, np.float32)
        params[f"{name}.norm.bias"] = np.zeros(outputs, np.float32)
        stats[f"{name}.norm.running_mean"] = np.zeros(outputs, np.float32)
        stats[f"{name}.norm.running_var"] = np.ones(outputs, np.float32)

    conv("first", 1, widths[0], 3)
    inputs = widths[0]
    for i, width in enumerate(widths):
        conv(f"blocks.{i}.conv1", inputs, width, 3)
        conv(f"blocks.{i}.conv2", width, width, 3)
        if i > 0:
            conv(f"blocks.{i}.shortcut", inputs, width, 1)
        inputs = width
    weight = random.standard_normal((CLASSES, inputs)) / inputs**0.5
    params["last.weight"] = weight.astype(np.float32)
    params["last.bias"] = np.zeros(CLASSES, np.float32)
    return params, stats


class ResNet:
    """Scores of the classes, of images (N, 1, height, width)."""

    def __init__(self, widths, params, stats):
        self._widths = widths
        self.params = params
        self.stats = stats

    def __call__(self, x, training):
        h = chx.relu(self._conv("first", x, 1, training))
        for i in range(len(self._widths)):
            h = self._block(f"blocks.{i}", h, 1 if i == 0 else 2, training)
        h = chx.mean(h, axis=(2, 3))
        return chx.linear(h, self.params["last.weight"], self.params["last.bias"])

    def _block(self, name, x, stride, training):
        h = chx.relu(self._conv(f"{name}.conv1", x, stride, training))
        h = self._conv(f"{name}.conv2", h, 1, training)
        if stride != 1:
            x = self._conv(f"{name}.shortcut", x, stride, training)
        return chx.relu(h + x)

    def _conv(self, name, x, stride, training):
        """A convolution and its normalization."""
        weight = self.params[f"{name}.weight"]
        y = chx.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        norm = f"{name}.norm"
        gamma, beta = self.params[f"{norm}.weight"], self.params[f"{norm}.bias"]
        mean, var = self.stats[f"{norm}.running_mean"], self.stats[f"{norm}.running_var"]
        normalize = chx.batch_norm if training else chx.fixed_batch_norm
        return normalize(y, gamma, beta, mean, var, eps=1e-5, axis=(0, 2, 3))


def optimizer_of(params, rate, decay=1e-4):
    """SGD with momentum, as PyTorch's, and what sets its rate for each step."""
    optimizer = chx.optimizers.CorrectedMomentumSGD(momentum=0.9).setup(params)
    optimizer.add_hook(chx.optimizers.WeightDecay(decay))
    return optimizer, chx.schedules.on(optimizer, lr=rate)


def step_of(model, optimizer):
    """A function that takes a step for images and labels, and gives the loss before it."""

    def step(x, t):
        loss = chx.cross_entropy(model(x, training=True), t)
        loss.backward()
        optimizer.update()
        optimizer.cleargrads()
        return loss.as_grad_stopped()  # whoever keeps that, keeps no graph

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_digits(parser)
    parser.add_argument("--server", help="address of a chxd; default: $CHX_SERVER or a private one")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--rate", type=float, default=0.1, help="the greatest")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jit", action="store_true", help="each step is one command")
    parser.add_argument("--save", metavar="FILE", help="write parameters and means: .safetensors")
    parser.add_argument("--min-accuracy", type=float, default=0.0, help="fail below this")
    args = parser.parse_args()
    widths = (16, 32, 64)
    train, (images, labels) = digits(args, HELD_OUT)
    per_epoch = len(train[1]) // args.batch_size
    with chx.connect(args.server):
        params, stats = (
            {name: chx.array(value) for name, value in values.items()}
            for values in initial(widths, args.seed)
        )
        for param in params.values():
            param.require_grad()
        model = ResNet(widths, params, stats)
        rate = chx.schedules.one_cycle(args.rate, args.epochs * per_epoch)
        optimizer, set_rate = optimizer_of(params, rate)
        step = step_of(model, optimizer)
        if args.jit:
            step = chx.jit(step)
        x_test, t_test = chx.array(scaled(images)), chx.array(labels)
        batches = chx.data.minibatches(
            train, args.batch_size, args.epochs, shuffle=args.seed, drop_last=True
        )
        batches = chx.data.prefetch((scaled(x), t) for x, t in batches)
        print("epoch  train loss  test accuracy  samples/s")
        start, losses, accuracy = time.perf_counter(), [], 0.0
        for number, (x, t) in enumerate(batches):
            set_rate(number)
            losses.append(step(x, t))
            if len(losses) == per_epoch:
                # The only wait of the epoch.
                train_loss = float(chx.mean(chx.stack(losses)))
                speed = per_epoch * args.batch_size / (time.perf_counter() - start)
                with chx.no_backprop_mode():
                    accuracy = float(chx.accuracy(model(x_test, training=False), t_test))
                epoch = (number + 1) // per_epoch
                print(f"{epoch:5}  {train_loss:10.4f}  {accuracy:13.4f}  {speed:9.0f}")
                start, losses = time.perf_counter(), []
        if args.save:
            chx.safetensors.save_file(params | stats, args.save)
    if accuracy < args.min_accuracy:
        raise SystemExit(f"accuracy {accuracy:.4f} is below {args.min_accuracy}")


if __name__ == "__main__":
    main()
