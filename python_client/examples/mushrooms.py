"""Trains a classifier of mushrooms, edible or poisonous: the main job.

A 22-44-44-1 multi-layer perceptron with sigmoid cross entropy and SGD, batches of 100, 70 % of the
8,124 mushrooms for training. Prints a table, saves the curves (PNG) and the weights (npz).
"""

import argparse
import csv
import os
import time

import chx
import matplotlib
import numpy as np
from common import Shuffler, init_mlp, mlp, sgd
from tqdm import tqdm

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # , the backend comes first

BATCH = 100


def load(path):
    """Features (N, 22) float32, each letter as its rank in its column, and labels (N, 1) int32."""
    with open(path, newline="") as file:
        rows = np.array(list(csv.reader(file))[1:])
    columns = [np.unique(column, return_inverse=True)[1] for column in rows.T]
    table = np.stack(columns, axis=1)
    return table[:, 1:].astype(np.float32), table[:, :1].astype(np.int32)


def evaluate(params, x, t):
    """Mean loss and accuracy."""
    with chx.no_backprop_mode():
        y = mlp(x, params)
        loss = chx.mean(chx.sigmoid_cross_entropy(y, t))
        accuracy = chx.mean((chx.greater(y, 0) == t.astype("bool")).astype("float32"))
    return float(loss), float(accuracy)


def train(args):
    x, t = load(args.data)
    shuffler = Shuffler(args.seed)
    order = list(range(len(x)))
    shuffler.shuffle(order)
    split = int(len(x) * 0.7)
    x_train, t_train = chx.array(x[order[:split]]), chx.array(t[order[:split]])
    x_test, t_test = chx.array(x[order[split:]]), chx.array(t[order[split:]])
    batches = list(range(split))
    params = init_mlp([x.shape[1], 44, 44, 1], args.seed)
    history = []
    print(f"{'epoch':>5}  {'train loss':>10}  {'val loss':>10}  {'val acc':>8}  {'samples/s':>10}")
    for epoch in range(1, args.epochs + 1):
        start = time.perf_counter()
        shuffler.shuffle(batches)
        indices = chx.array(batches)
        lr = args.lr * (1 - (epoch - 1) / args.epochs)  # linear decay: the end is calm
        losses = []
        for i in tqdm(range(0, split, BATCH), desc=f"epoch {epoch}", leave=False):
            batch = indices[i : i + BATCH]
            xb, tb = x_train.take(batch, axis=0), t_train.take(batch, axis=0)
            loss = chx.mean(chx.sigmoid_cross_entropy(mlp(xb, params), tb))
            loss.backward()
            sgd(params, lr)
            losses.append(loss.as_grad_stopped())
        # One wait for the whole epoch.
        train_loss = float(chx.mean(chx.stack(losses)))
        speed = split / (time.perf_counter() - start)
        val_loss, val_accuracy = evaluate(params, x_test, t_test)
        history.append((epoch, train_loss, val_loss, val_accuracy, speed))
        print(
            f"{epoch:5}  {train_loss:10.4f}  {val_loss:10.4f}  {val_accuracy:8.4f}  {speed:10.0f}"
        )
    return params, history


def save(out, params, history):
    os.makedirs(out, exist_ok=True)
    names = [f"{kind}{i}" for i in range(1, len(params) // 2 + 1) for kind in "wb"]
    weights = os.path.join(out, "mushrooms.npz")
    np.savez(weights, **{n: chx.to_numpy(p) for n, p in zip(names, params, strict=True)})
    epochs, train_loss, val_loss, val_accuracy, _ = zip(*history, strict=True)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    left.plot(epochs, train_loss, label="training")
    left.plot(epochs, val_loss, label="validation")
    left.set(xlabel="epoch", ylabel="loss", title="Sigmoid cross entropy")
    left.legend()
    right.plot(epochs, val_accuracy)
    right.set(xlabel="epoch", ylabel="accuracy", title="Validation accuracy")
    figure.tight_layout()
    curves = os.path.join(out, "mushrooms.png")
    figure.savefig(curves, dpi=100)
    print(f"curves: {curves}\nweights: {weights}")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.path.join(here, "data", "mushrooms.csv"))
    parser.add_argument("--server", help="address of a chxd; default: $CHX_SERVER or a private one")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default="demo-results", help="folder for the results")
    parser.add_argument("--min-accuracy", type=float, default=0.0, help="fail below this")
    args = parser.parse_args()
    with chx.connect(args.server):
        params, history = train(args)
        save(args.out, params, history)
    accuracy = history[-1][3]
    if accuracy < args.min_accuracy:
        raise SystemExit(f"validation accuracy {accuracy:.4f} is below {args.min_accuracy}")


if __name__ == "__main__":
    main()
