"""A whole training run by the sides that take training steps: ten epochs of the mushroom demo.

As in training_sides.py, make() gives step(n, every), which trains n times from the beginning, and
values(), the last parameters as NumPy arrays. chx trains by a run of the daemon, from `start` to the
last event; PyTorch by the loop that one would write. Both see the same minibatches, and evaluate after
each epoch. Reading the file, and moving it to the daemon, are not measured.
"""

import csv
import itertools
import os

import numpy as np
from training_sides import batch_of

SIZES = {"mushrooms": [22, 44, 44, 1]}
PEERS = ("jit", "torch")
EPOCHS, BATCH, RATE, SEED = 10, 100, 0.05, 1
DATA = os.path.join(
    os.path.dirname(__file__), "..", "..", "python_client", "examples", "data", "mushrooms.csv"
)


def load():
    """Features (N, 22) float32 and labels (N, 1) int32: for training, and for evaluation."""
    with open(DATA, newline="") as file:
        rows = np.array(list(csv.reader(file))[1:])
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    columns = [np.unique(column, return_inverse=True)[1] for column in rows.T]
    table = np.stack(columns, axis=1)
    x, t = table[:, 1:].astype(np.float32), table[:, :1].astype(np.int32)
    split = int(len(x) * 0.7)
    return (x[:split], t[:split]), (x[split:], t[split:])


def mlp(lib, x, params):
    for k in range(0, len(params), 2):
        x = lib.linear(x, params[k], params[k + 1])
        x = lib.relu(x) if k + 2 < len(params) else x
    return x


def chx_run(session, sizes):
    import chx

    device = session.devices[0]
    train, test = ([chx.array(a, device=device) for a in part] for part in load())
    names = (f"mushrooms-{i}" for i in itertools.count())
    trained = []

    def run():
        params = [chx.array(p, device=device).require_grad() for p in batch_of(sizes, 1)[2]]
        optimizer = chx.optimizers.SGD(lr=RATE).setup(params)

        @chx.jit
        def update(x, t):
            loss = chx.mean(chx.sigmoid_cross_entropy(mlp(chx, x, params), t))
            loss.backward()
            optimizer.update()
            optimizer.cleargrads()
            return loss

        def evaluate(x, t):
            with chx.no_backprop_mode():
                y = mlp(chx, x, params)
                right = chx.greater(y, 0) == t.astype("bool")
                return {
                    "loss": chx.mean(chx.sigmoid_cross_entropy(y, t)),
                    "accuracy": chx.mean(right.astype("float32")),
                }

        run = chx.runs.start(
            update,
            data=train,
            batch_size=BATCH,
            epochs=EPOCHS,
            name=next(names),
            shuffle=SEED,
            evaluate=(evaluate, test),
        )
        assert run.wait().reason == "done"
        trained[:] = params

    def step(n, every):
        del every
        for _ in range(n):
            run()

    return step, lambda: [chx.to_numpy(p) for p in trained]


def torch_run(sizes):
    import torch
    import torch.nn.functional as F
    from chx.runs import order

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    (x_train, t_train), (x_test, t_test) = (
        (torch.from_numpy(x), torch.from_numpy(t).float()) for x, t in load()
    )
    orders = [order(SEED, epoch, len(x_train)) for epoch in range(EPOCHS)]  # the daemon's
    trained = []

    def run():
        params = [torch.from_numpy(p).requires_grad_() for p in batch_of(sizes, 1)[2]]
        for rows_of_epoch in orders:
            losses = []
            for i in range(0, len(rows_of_epoch), BATCH):
                rows = torch.from_numpy(rows_of_epoch[i : i + BATCH])
                loss = F.binary_cross_entropy_with_logits(
                    mlp(F, x_train[rows], params), t_train[rows]
                )
                loss.backward()
                with torch.no_grad():
                    for p in params:
                        p -= p.grad * RATE
                        p.grad = None
                losses.append(loss.detach())
            with torch.no_grad():
                torch.stack(losses).mean().item()
                y = mlp(F, x_test, params)
                F.binary_cross_entropy_with_logits(y, t_test).item()
                ((y > 0) == t_test.bool()).float().mean().item()
        trained[:] = params

    def step(n, every):
        del every
        for _ in range(n):
            run()

    return step, lambda: [p.detach().numpy() for p in trained]


def make(side, session, name):
    """Of one of SIZES; `session`: chx's."""
    sizes = SIZES[name]
    return torch_run(sizes) if side == "torch" else chx_run(session, sizes)
