"""Trains a 784-1000-1000-10 perceptron on MNIST images: 4/5 of them, the rest is held out.

client/examples/mnist.cc is the same program in C++ and reaches the same losses from the same seed.
Images and labels are IDX files (LeCun, Cortes, Burges), plain or gzipped.
"""

import argparse
import gzip
import time

import numpy as np
from common import init_mlp, mlp, permutation, sgd

import chx

BATCH = 100


def load_idx(path):
    """An IDX file of unsigned bytes as a NumPy array."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        data = file.read()
    ndim = data[3]
    shape = np.frombuffer(data, ">i4", ndim, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * ndim).reshape(shape)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images")
    parser.add_argument("labels")
    parser.add_argument("--server", help="address of a chxd; default: $CHX_SERVER or a private one")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--min-accuracy", type=float, default=0.0, help="fail below this")
    args = parser.parse_args()
    images = load_idx(args.images).reshape(-1, 784).astype(np.float32) / np.float32(255)
    labels = load_idx(args.labels).astype(np.int32)
    split = len(images) * 4 // 5
    accuracy = 0.0
    with chx.connect(args.server):
        x_train, t_train = chx.array(images[:split]), chx.array(labels[:split])
        x_test, t_test = chx.array(images[split:]), chx.array(labels[split:])
        params = init_mlp([784, 1000, 1000, 10], args.seed)
        for epoch in range(1, args.epochs + 1):
            start = time.perf_counter()
            order = np.array(permutation(split, args.seed + epoch), dtype=np.int64)
            losses = []
            for i in range(0, split, BATCH):
                batch = chx.array(order[i : i + BATCH])
                y = mlp(x_train.take(batch, axis=0), params)
                loss = chx.mean(chx.softmax_cross_entropy(y, t_train.take(batch, axis=0)))
                loss.backward()
                sgd(params, args.lr)
                losses.append(loss.as_grad_stopped())
            mean_loss = float(chx.mean(chx.stack(losses)))
            speed = split / (time.perf_counter() - start)
            with chx.no_backprop_mode():
                accuracy = float(chx.accuracy(mlp(x_test, params), t_test))
            print(f"epoch {epoch} loss {mean_loss:.6f} accuracy {accuracy:.4f} {speed:.0f} samples/s")
    if accuracy < args.min_accuracy:
        raise SystemExit(f"accuracy {accuracy:.4f} is below {args.min_accuracy}")


if __name__ == "__main__":
    main()
