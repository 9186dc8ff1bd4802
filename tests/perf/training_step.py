"""One training step (forward, backward, SGD) of a multi-layer perceptron, in a process of its own.

    training_step.py chx ADDRESS | torch | chainer numpy | chainer ADDRESS

Reads lines "SIZE N EVERY" and answers each with JSON: the seconds of one of N steps, with the loss
read at every EVERY-th, and the commands and round trips of one. A process for each side: chx adapts
the Chainer that it shares a process with, and threads of PyTorch's or gRPC's that still spin would be
the next side's to pay for.
"""

import json
import sys
import time

import numpy as np

SIZES = {"small": ([784, 32, 32, 10], 1), "large": ([784, 1000, 1000, 10], 100)}


def batch_of(sizes, batch):
    """x (batch, inputs) float32, t (batch,) int64, and the layers' weights."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, sizes[0]), dtype=np.float32)
    t = rng.integers(0, sizes[-1], batch)
    ws = [
        (rng.standard_normal((o, i), dtype=np.float32) / np.sqrt(i)).astype(np.float32)
        for i, o in zip(sizes[:-1], sizes[1:], strict=True)
    ]
    return x, t, ws


def chx_step(session, sizes, batch):
    """Returns step(n, every): n steps, the loss read at every `every`-th."""
    import chx

    with chx.using_device(session.devices[0]):
        x, t, ws = batch_of(sizes, batch)
        x, t = chx.array(x), chx.array(t)
        params = []
        for w in ws:
            params.append(chx.array(w).require_grad())
            params.append(chx.array(np.zeros(w.shape[0], np.float32)).require_grad())
        optimizer = chx.optimizers.SGD(lr=0.01).setup(params)

    def step(n, every):
        for i in range(n):
            h = x
            for k in range(0, len(params), 2):
                h = chx.linear(h, params[k], params[k + 1])
                if k + 2 < len(params):
                    h = chx.relu(h)
            loss = chx.mean(chx.softmax_cross_entropy(h, t))
            loss.backward()
            optimizer.update()
            optimizer.cleargrads()
            if (i + 1) % every == 0:
                float(loss)

    return step


def torch_step(sizes, batch):
    """As chx_step, by PyTorch eager."""
    import torch

    x, t, ws = batch_of(sizes, batch)
    x, t = torch.from_numpy(x), torch.from_numpy(t)
    params = []
    for w in ws:
        params.append(torch.from_numpy(w.copy()).requires_grad_())
        params.append(torch.zeros(w.shape[0]).requires_grad_())

    def step(n, every):
        for i in range(n):
            h = x
            for k in range(0, len(params), 2):
                h = torch.nn.functional.linear(h, params[k], params[k + 1])
                if k + 2 < len(params):
                    h = torch.relu(h)
            loss = torch.nn.functional.cross_entropy(h, t)
            loss.backward()
            with torch.no_grad():
                for p in params:
                    p -= p.grad * 0.01
                    p.grad = None
            if (i + 1) % every == 0:
                float(loss)

    return step


def chainer_step(device, sizes, batch):
    """As chx_step, by Chainer on one of its devices."""
    import chainer
    import chainer.functions as F
    import chainer.links as L

    x, t, _ = batch_of(sizes, batch)
    x, t = device.send(x), device.send(t.astype(np.int32))
    links = [L.Linear(i, o) for i, o in zip(sizes[:-1], sizes[1:], strict=True)]
    model = chainer.Sequential(*[f for link in links for f in (link, F.relu)][:-1])
    model.to_device(device)
    optimizer = chainer.optimizers.SGD(lr=0.01).setup(model)

    def step(n, every):
        for i in range(n):
            loss = F.softmax_cross_entropy(model(x), t)
            model.cleargrads()
            loss.backward()
            optimizer.update()
            if (i + 1) % every == 0:
                float(loss.array)

    return step


def make_side(side, where):
    """The steps of each size, and a function that counts a session's commands and round trips."""

    def nothing():
        return {"commands": 0, "round_trips": 0}

    if side == "torch":
        return {name: torch_step(*size) for name, size in SIZES.items()}, nothing
    session = None
    if where != "numpy":
        import chx

        if side == "chainer":
            import chx.chainer
        session = chx.connect(where)
    counts = nothing if session is None else session.stats
    if side == "chx":
        return {name: chx_step(session, *size) for name, size in SIZES.items()}, counts
    import chainer

    device = chainer.get_device("@numpy" if session is None else "native:0")
    device.use()
    return {name: chainer_step(device, *size) for name, size in SIZES.items()}, counts


def main(side, where=None):
    steps, counts = make_side(side, where)
    for step in steps.values():
        step(3, 1)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        name, n, every = line.split()
        steps[name](3, 1)  # other sides ran meanwhile
        before = counts()
        start = time.perf_counter()
        steps[name](int(n), int(every))
        seconds = (time.perf_counter() - start) / int(n)
        answer = {key: (value - before[key]) / int(n) for key, value in counts().items()}
        print(json.dumps({"seconds": seconds, **answer}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
