"""A run with all that it has to keep when its daemon ends, and what it gives; a pytest plugin."""

import os
import random

import chx
import numpy as np
import pytest

from .daemon import Daemon, Keeper
from .runs import NAME, problem

EPOCHS = 60


@pytest.fixture
def rng():
    seed = int(os.environ.get("CHX_TEST_SEED", random.randrange(2**31)))
    print(f"CHX_TEST_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def keeper(tmp_path):
    made = Keeper(tmp_path, "--lease=1h")
    yield made
    made.daemon.kill()


def fit(session, seed, evaluations=50, evaluated=None, **options):
    """Starts a run with all that it has to keep: Adam, dropout, an order, an evaluation, rules.

    `evaluated`: rows of the evaluation, of 4 each; options: others than those of `batch_size`.
    """
    evaluated = 4 * evaluations if evaluated is None else evaluated
    if "rows" not in options:
        options = {"batch_size": 10, "epochs": EPOCHS, "shuffle": seed, "log_every": 7} | options
    data, targets = problem(np.random.default_rng(seed), rows=600)
    chx.random.seed(seed)
    w = chx.random.normal(size=(5, 8), dtype="float32").require_grad()
    v = chx.random.normal(size=(8, 2), dtype="float32").require_grad()
    optimizer = chx.optimizers.Adam(alpha=0.01).setup([w, v])
    session.save("model", {"w": w, "v": v})
    x, t = chx.array(data), chx.array(targets)

    def step(x, t):
        optimizer.cleargrads()
        h = chx.tanh(x @ w)
        h = h * (chx.random.uniform(size=h.shape) < 0.8)
        loss = chx.mean((h @ v - t) ** 2)
        loss.backward()
        optimizer.update()
        return {"loss": loss, "size": chx.sum(w * w)}

    def evaluate(x, t):
        return {"loss": chx.mean((chx.tanh(x @ w) @ v - t) ** 2)}

    return chx.runs.start(
        step,
        (x, t),
        name="fit",
        evaluate=(evaluate, (x[:evaluated], t[:evaluated])),
        evaluate_batch_size=4,
        schedule=lambda number: setattr(optimizer, "alpha", 0.01 / (1 + number / 1000)),
        stop=[chx.runs.nan("loss"), chx.runs.no_improvement("evaluation/loss", 12)],
        **options,
    )


def found(session, run):
    """All that is to be equal."""
    end = run.wait(120)
    model = session.load("model")
    events = [
        (event.kind, event.step, dict(event.metrics), event.reason)
        for event in run
        if event.kind not in ("warning", "paused", "resumed")
    ]
    metrics = {name: values.tolist() for name, values in run.metrics().items()}
    return end.step, events, metrics, {k: chx.to_numpy(a).tobytes() for k, a in model.items()}


def uninterrupted(seed, **options):
    with Daemon() as daemon, chx.connect(daemon.address, session=NAME) as session:
        return found(session, fit(session, seed, **options))
