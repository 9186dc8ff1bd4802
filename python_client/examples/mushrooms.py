"""Trains a classifier of mushrooms, edible or poisonous: the main job.

A 22-44-44-1 multi-layer perceptron with sigmoid cross entropy and SGD, batches of 100, 70 % of the
8,124 mushrooms for training. Prints a table, saves the curves (PNG) and the weights (npz).

With --detach the daemon trains by itself, as a run in the named session "mushrooms": the program starts
that and ends. With --attach it looks at the run, waits for it, and saves what has come of it.
"""

import argparse
import csv
import math
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
SESSION = RUN = "mushrooms"


def load(path):
    """Features (N, 22) float32, each letter as its rank in its column, and labels (N, 1) int32."""
    with open(path, newline="") as file:
        rows = np.array(list(csv.reader(file))[1:])
    columns = [np.unique(column, return_inverse=True)[1] for column in rows.T]
    table = np.stack(columns, axis=1)
    return table[:, 1:].astype(np.float32), table[:, :1].astype(np.int32)


def evaluate(params, x, t):
    """Mean loss and accuracy, as arrays."""
    with chx.no_backprop_mode():
        y = mlp(x, params)
        loss = chx.mean(chx.sigmoid_cross_entropy(y, t))
        accuracy = chx.mean((chx.greater(y, 0) == t.astype("bool")).astype("float32"))
    return {"loss": loss, "accuracy": accuracy}


def load_parts(args, shuffler):
    """Arrays of the daemon: x and t for training, and for validation."""
    x, t = load(args.data)
    order = list(range(len(x)))
    shuffler.shuffle(order)
    split = int(len(x) * 0.7)
    parts = order[:split], order[split:]
    return [(chx.array(x[part]), chx.array(t[part])) for part in parts]


def train(args):
    shuffler = Shuffler(args.seed)
    (x_train, t_train), test = load_parts(args, shuffler)
    split = len(x_train)
    batches = list(range(split))
    params = init_mlp([x_train.shape[1], 44, 44, 1], args.seed)
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
        val_loss, val_accuracy = map(float, evaluate(params, *test).values())
        history.append((epoch, train_loss, val_loss, val_accuracy, speed))
        print(
            f"{epoch:5}  {train_loss:10.4f}  {val_loss:10.4f}  {val_accuracy:8.4f}  {speed:10.0f}"
        )
    return params, history


def detach(args, session):
    """Starts the run, which goes on when this process has ended."""
    train, test = load_parts(args, Shuffler(args.seed))
    params = init_mlp([train[0].shape[1], 44, 44, 1], args.seed)
    optimizer = chx.optimizers.SGD(lr=args.lr).setup(params)
    session.save("params", params)
    per_epoch = math.ceil(len(train[0]) / BATCH)

    @chx.jit
    def step(x, t):
        optimizer.cleargrads()
        loss = chx.mean(chx.sigmoid_cross_entropy(mlp(x, params), t))
        loss.backward()
        optimizer.update()
        return loss

    def decay(number):
        optimizer.lr = args.lr * (1 - number // per_epoch / args.epochs)

    chx.runs.start(
        step,
        data=train,
        batch_size=BATCH,
        epochs=args.epochs,
        name=RUN,
        shuffle=args.seed,
        schedule=decay,
        evaluate=(lambda x, t: evaluate(params, x, t), test),
        stop=[chx.runs.nan("loss")],
    )
    print(f"the daemon trains: run {RUN!r} in session {SESSION!r}")


def attach(args, session):
    """Shows the run to its end; saves its curves and the weights. The final accuracy."""
    run = chx.runs.attach(RUN)
    print(f"run {RUN!r}: {run.state}, step {run.step} of {run.steps}")
    ended = run.show_progress()
    os.makedirs(args.out, exist_ok=True)
    curves = os.path.join(args.out, "mushrooms-run.png")
    run.plot(curves)
    print(f"it has ended: {ended.reason}, step {ended.step}\ncurves: {curves}")
    save_weights(args.out, session.load("params"))
    accuracy = run.metrics()["evaluation/accuracy"][-1]
    print(f"validation accuracy: {accuracy:.4f}")
    session.discard()
    return accuracy


def save_weights(out, params):
    names = [f"{kind}{i}" for i in range(1, len(params) // 2 + 1) for kind in "wb"]
    weights = os.path.join(out, "mushrooms.npz")
    np.savez(weights, **{n: chx.to_numpy(p) for n, p in zip(names, params, strict=True)})
    print(f"weights: {weights}")


def save(out, params, history):
    os.makedirs(out, exist_ok=True)
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
    print(f"curves: {curves}")
    save_weights(out, params)


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
    parser.add_argument(
        "--detach", action="store_true", help="start a run of the daemon's, and end"
    )
    parser.add_argument("--attach", action="store_true", help="wait for that run; save its results")
    args = parser.parse_args()
    if args.detach or args.attach:
        if not (args.server or os.environ.get("CHX_SERVER")):
            parser.error("a private daemon ends with this program: give --server")
        with chx.connect(args.server, session=SESSION) as session:
            if args.detach:
                detach(args, session)
            if not args.attach:
                return
            accuracy = attach(args, session)
    else:
        with chx.connect(args.server):
            params, history = train(args)
            save(args.out, params, history)
        accuracy = history[-1][3]
    if accuracy < args.min_accuracy:
        raise SystemExit(f"validation accuracy {accuracy:.4f} is below {args.min_accuracy}")


if __name__ == "__main__":
    main()
