"""Chainer's training step in a process of its own: on NumPy without chx, or on a daemon.

    chainer_step.py numpy | ADDRESS

Reads lines "NAME N EVERY" and answers each with JSON: the seconds of one of N steps, with the loss
read at every EVERY-th, and the commands and round trips of one. One process for each side: chx adapts
the Chainer that it shares a process with.
"""

import json
import sys
import time

import numpy as np

SIZES = {"small": ([784, 32, 32, 10], 1), "large": ([784, 1000, 1000, 10], 100)}


def make_step(device, sizes, batch):
    import chainer
    import chainer.functions as F
    import chainer.links as L

    rng = np.random.default_rng(0)
    x = device.send(rng.standard_normal((batch, sizes[0]), dtype=np.float32))
    t = device.send(rng.integers(0, sizes[-1], batch).astype(np.int32))
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


def main(where):
    def counts():
        return {"commands": 0, "round_trips": 0}

    if where != "numpy":
        import chx
        import chx.chainer

        counts = chx.connect(where).stats
    import chainer

    device = chainer.get_device("@numpy" if where == "numpy" else "native:0")
    device.use()
    steps = {name: make_step(device, *sizes) for name, sizes in SIZES.items()}
    for step in steps.values():
        step(3, 1)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        name, n, every = line.split()
        before = counts()
        start = time.perf_counter()
        steps[name](int(n), int(every))
        seconds = (time.perf_counter() - start) / int(n)
        answer = {key: (value - before[key]) / int(n) for key, value in counts().items()}
        print(json.dumps({"seconds": seconds, **answer}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
