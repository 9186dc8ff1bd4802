"""A run with all that it has to keep when its daemon ends, and what it gives; a pytest plugin."""

import os
import random
import time

import chx
import numpy as np
import pytest

from .daemon import Daemon, Keeper, wait_until
from .runs import NAME, problem

EPOCHS = 60
LONG = {"epochs": 300, "patience": 150}  # 9000 steps at least


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


def fit(session, seed, evaluations=50, evaluated=None, patience=12, **options):
    """Starts a run with all that it has to keep: Adam, dropout, an order, an evaluation, rules.

    `evaluated`: rows of the evaluation, of 4 each; `patience`: of a rule, in evaluations; options:
    others than those of `batch_size`.
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
        stop=[chx.runs.nan("loss"), chx.runs.no_improvement("evaluation/loss", patience)],
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


def warnings(run):
    return [event for event in run.events() if event.kind == "warning"]


def gates_of(rng, steps, number=12):
    """Steps for `pause_at` of a run that makes so many: until it is resumed at the last it has not ended."""
    each = steps // (number + 1)
    assert each >= 100, f"a run of {steps} steps is too short"
    return [each * (i + 1) + rng.randrange(each // 4) for i in range(number)]


def cut_off(rng, run, gates, end, due=lambda: True):
    """Ends the daemon, by `end`, while the run is under way between two gates: the later one.

    Where it comes to that gate first, it is to be between two others. `due`: whether it is to be now,
    asked from some step on; `end` gives False if it was not the moment.
    """
    while True:
        assert wait_until(lambda: run.state == "paused", 60), run
        gate = run.step
        assert gate in gates[:-1], f"no gate is left: {run} of {gates}"
        later = gates[gates.index(gate) + 1]
        target = rng.randrange(gate + 1, (gate + later) // 2)
        run.resume()
        while run.state == "running":
            if run.step < target or not due():
                continue
            if run.step < later and run.state == "running" and end() is not False:
                return later


def goes_on(run, later, ended_at):
    """Asserts that the next daemon has gone on with a run that was cut off, from a step before its end."""
    told = warnings(run)[-1]
    assert told.time >= ended_at, "the run was not interrupted"
    assert told.message.endswith(f"the run goes on from step {told.step}")
    assert 0 < told.step <= later < run.steps


def kill_under_way(rng, keeper, run, gates, due=lambda: True, kill=None):
    """kill -9 of the daemon while the run is under way; the session and the run in the next one."""
    ended_at = time.time()
    later = cut_off(
        rng, run, gates, kill or keeper.daemon.kill, lambda: bool(keeper.files()) and due()
    )
    keeper.start()
    session = chx.connect(keeper.address, session=NAME)
    again = chx.runs.attach(run.name)
    goes_on(again, later, ended_at)
    return session, again


def restart_under_way(rng, keeper, run, gates):
    """SIGTERM instead; the client goes on."""
    ended_at = time.time()
    later = cut_off(rng, run, gates, keeper.terminate)
    keeper.start()
    goes_on(run, later, ended_at)


def let_end(run):
    """Through the gates that are left."""
    while True:
        assert wait_until(lambda: run.state in ("paused", "ended"), 60), run
        if run.state == "ended":
            return
        run.resume()
