"""Trains a 784-1000-1000-10 perceptron on MNIST images; the last 2,000 are held out.

client/examples/mnist.cc is the same program in C++. It draws other weights from the same seed, so its
losses differ a little.
Images and labels are IDX files (LeCun, Cortes, Burges), plain or gzipped.
"""

import argparse
import time

import chx
import numpy as np
from common import Shuffler, init_mlp, load_idx, mlp, sgd

BATCH = 100
HELD_OUT = 2000


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images")
    parser.add_argument("labels")
    parser.add_argument("--server", help="address of a chxd; default: $CHX_SERVER or a private one")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--min-accuracy", type=float, default=0.0, help="fail below this")
    args = parser.parse_args()
    images = load_idx(args.images).reshape(-1, 784).astype(np.float32) / np.float32(255)
    labels = load_idx(args.labels).astype(np.int32)
    split = len(images) - HELD_OUT
    order = list(range(split))
    shuffler = Shuffler(args.seed)
    accuracy = 0.0
    with chx.connect(args.server):
        x_train, t_train = chx.array(images[:split]), chx.array(labels[:split])
        x_test, t_test = chx.array(images[split:]), chx.array(labels[split:])
        params = init_mlp([784, 1000, 1000, 10], args.seed)
        print("epoch  train loss  test loss  test accuracy  samples/s")
        for epoch in range(1, args.epochs + 1):
            start = time.perf_counter()
            shuffler.shuffle(order)
            indices = chx.array(order)
            losses = []
            for i in range(0, split - BATCH + 1, BATCH):
                batch = indices[i : i + BATCH]
                y = mlp(x_train.take(batch, axis=0), params)
                loss = chx.mean(chx.softmax_cross_entropy(y, t_train.take(batch, axis=0)))
                loss.backward()
                sgd(params, args.lr)
                losses.append(loss.as_grad_stopped())
            # The only wait of the epoch.
            train_loss = float(chx.mean(chx.stack(losses)))
            speed = len(losses) * BATCH / (time.perf_counter() - start)
            with chx.no_backprop_mode():
                y = mlp(x_test, params)
                test_loss = float(chx.mean(chx.softmax_cross_entropy(y, t_test)))
                accuracy = float(chx.accuracy(y, t_test))
            print(
                f"{epoch:5}  {train_loss:10.6f}  {test_loss:9.6f}  {accuracy:13.4f}  {speed:9.0f}",
                flush=True,
            )
    if accuracy < args.min_accuracy:
        raise SystemExit(f"accuracy {accuracy:.4f} is below {args.min_accuracy}")


if __name__ == "__main__":
    main()
