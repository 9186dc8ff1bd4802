"""Sessions, steps and data for tests of runs."""

import random
import subprocess
import sys
import textwrap

import chx
import numpy as np
import pytest

from .daemon import Daemon

NAME = "exp-7"
ENDLESS = 10**9


@pytest.fixture
def daemon():
    with Daemon("--lease=1s", "--memory=2g") as started:
        yield started


@pytest.fixture
def session(daemon):
    with chx.connect(daemon.address, session=NAME) as opened:
        yield opened
        opened.discard()


@pytest.fixture
def rng():
    seed = random.randrange(2**32)
    print("seed", seed)
    return np.random.default_rng(seed)


def problem(rng, rows=60, columns=5):
    x = rng.normal(size=(rows, columns)).astype("f")
    return x, (x @ rng.normal(size=(columns, 2))).astype("f")


def make_step(kind, start, seed=1):
    """A step, its parameters, and what steps need that are made one by one."""
    chx.random.seed(seed)
    w = chx.array(start).require_grad()
    b = chx.zeros((start.shape[1],)).require_grad()
    optimizer = (chx.optimizers.SGD(lr=0.03) if kind == "sgd" else chx.optimizers.Adam()).setup(
        [w, b]
    )

    def step(x, t):
        optimizer.cleargrads()
        if kind == "dropout":
            x = x * (chx.random.uniform(size=x.shape) < 0.8)
        loss = chx.mean((chx.tanh(x @ w + b) - t) ** 2)
        loss.backward()
        optimizer.update()
        return {"loss": loss, "size": chx.sum(w * w)}

    return step, (w, b), optimizer


def endless_step(w):
    """One that is never done with."""

    @chx.jit
    def step(x):
        w.__iadd__(chx.sum(x, axis=0))
        return chx.sum(w)

    return step


def endless(rows=8, **options):
    w = chx.zeros((4,))
    x = chx.ones((rows, 4))
    return w, chx.runs.start(endless_step(w), x, batch_size=2, steps=ENDLESS, **options)


def in_another_process(daemon, code, wait=True):
    """Runs code with `session` and `runs`; what it prints."""
    begin = (
        "import chx, sys, time, numpy as np\nfrom chx import runs\n"
        f"session = chx.connect({daemon.address!r}, session={NAME!r})\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", begin + textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    if not wait:
        return process
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return out.strip()
