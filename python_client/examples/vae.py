"""Trains a variational autoencoder (Kingma and Welling 2013) on digits of MNIST, and draws some.

python vae.py --epochs 50 --jit --out digits.png
"""

import argparse
import time

import chx
import numpy as np
from common import add_digits, digits, scaled

HELD_OUT = 500
PIXELS = 784


def initial(hidden, latent, seed):
    """Parameters by name, as NumPy arrays: weights ~ N(0, 1 / inputs), biases 0."""
    random = np.random.RandomState(seed)
    params = {}
    for name, inputs, outputs in (
        ("encoder", PIXELS, hidden),
        ("mean", hidden, latent),
        ("log_variance", hidden, latent),
        ("decoder", latent, hidden),
        ("pixels", hidden, PIXELS),
    ):
        weight = random.standard_normal((outputs, inputs)) / inputs**0.5
        params[f"{name}.weight"] = weight.astype(np.float32)
        params[f"{name}.bias"] = np.zeros(outputs, np.float32)
    return params


def linear(params, name, x):
    return chx.linear(x, params[f"{name}.weight"], params[f"{name}.bias"])


def decode(params, z):
    """Logits of the pixels."""
    return linear(params, "pixels", chx.relu(linear(params, "decoder", z)))


def loss_of(params, x, noise):
    """The negative evidence lower bound in nats per image, of images (N, 784) in [0, 1].

    noise ~ N(0, 1) is (N, latent).
    """
    h = chx.relu(linear(params, "encoder", x))
    mean, log_variance = linear(params, "mean", h), linear(params, "log_variance", h)
    y = decode(params, mean + chx.exp(log_variance / 2) * noise)
    reconstruction = chx.sum(chx.softplus(y) - x * y)
    divergence = chx.sum(chx.square(mean) + chx.exp(log_variance) - log_variance - 1) / 2
    return (reconstruction + divergence) / len(x)


def step_of(params, optimizer):
    """A function that takes a step for images and noise, and gives the loss before it."""

    def step(x, noise):
        loss = loss_of(params, x, noise)
        loss.backward()
        optimizer.update()
        optimizer.cleargrads()
        return loss.as_grad_stopped()  # whoever keeps that, keeps no graph

    return step


def draw(params, latent, path):
    """An image of eight by eight digits that the model makes up."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with chx.no_backprop_mode():
        z = chx.random.normal(size=(64, latent), dtype="float32")
        images = chx.to_numpy(chx.sigmoid(decode(params, z)))
    sheet = images.reshape(8, 8, 28, 28).transpose(0, 2, 1, 3).reshape(8 * 28, 8 * 28)
    plt.imsave(path, sheet, cmap="gray")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_digits(parser)
    parser.add_argument("--server", help="address of a chxd; default: $CHX_SERVER or a private one")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--latent", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jit", action="store_true", help="each step is one command")
    parser.add_argument("--out", metavar="FILE", help="draw digits that the model makes up: PNG")
    parser.add_argument("--max-loss", type=float, help="fail above this loss of the held out ones")
    args = parser.parse_args()
    (images, _), (held_out, _) = digits(args, HELD_OUT)
    images, held_out = (values.reshape(-1, PIXELS) for values in (images, held_out))
    per_epoch = len(images) // args.batch_size
    with chx.connect(args.server):
        chx.random.seed(args.seed)
        params = {
            name: chx.array(value).require_grad()
            for name, value in initial(400, args.latent, args.seed).items()
        }
        step = step_of(params, chx.optimizers.Adam().setup(params))
        if args.jit:
            step = chx.jit(step)

        def noise_for(x):
            return chx.random.normal(size=(len(x), args.latent), dtype="float32")

        x_test = chx.array(scaled(held_out))
        batches = chx.data.minibatches(
            (images,), args.batch_size, args.epochs, shuffle=args.seed, drop_last=True
        )
        print("epoch  train loss  test loss  samples/s")
        start, losses, test_loss = time.perf_counter(), [], float("nan")
        for number, x in enumerate(chx.data.prefetch(scaled(x) for (x,) in batches)):
            losses.append(step(x, noise_for(x)))
            if len(losses) == per_epoch:
                train_loss = float(chx.mean(chx.stack(losses)))
                speed = per_epoch * args.batch_size / (time.perf_counter() - start)
                with chx.no_backprop_mode():
                    test_loss = float(loss_of(params, x_test, noise_for(x_test)))
                epoch = (number + 1) // per_epoch
                print(f"{epoch:5}  {train_loss:10.3f}  {test_loss:9.3f}  {speed:9.0f}")
                start, losses = time.perf_counter(), []
        if args.out:
            draw(params, args.latent, args.out)
    if args.max_loss is not None and not test_loss <= args.max_loss:
        raise SystemExit(f"a loss of {test_loss:.3f} is above {args.max_loss}")


if __name__ == "__main__":
    main()
