"""Runs whose session comes to its memory limit on the way: what is said, what is left, and how to go on."""

import chx
import numpy as np
import pytest

from .daemon import Daemon, wait_until

ROWS = 1 << 18  # float32: 1 MiB
STEPS = 12


@pytest.fixture
def daemon():
    with Daemon("--session-memory=64m", "--memory=1g") as started:
        yield started


@pytest.fixture
def session(daemon):
    with chx.connect(daemon.address) as opened:
        yield opened


@pytest.fixture
def rows():
    """Of each step."""
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    return np.random.default_rng(seed).integers(0, 8, size=(STEPS, 2))


class Training:
    """Two parameters, and a statistic that a step writes before all that needs memory."""

    def __init__(self):
        self.w = chx.zeros((ROWS,)).require_grad()
        self.b = chx.zeros((ROWS,)).require_grad()
        self.mean = chx.zeros((4,))
        self.optimizer = chx.optimizers.Adam().setup([self.w, self.b])
        self.data = chx.array(np.arange(32, dtype="f").reshape(8, 4) / 50)

        @chx.jit
        def step(x):
            self.optimizer.cleargrads()
            self.mean.__imul__(0.9)
            self.mean.__iadd__(chx.mean(x, axis=0))
            loss = chx.mean((self.w * chx.sum(x) + self.b * 2 - 1) ** 2)
            loss.backward()
            self.optimizer.update()
            return loss

        self.step = step

    def start(self, rows, **options):
        return chx.runs.start(
            self.step, self.data, rows=rows, log_at=range(1, len(rows) + 1), **options
        )

    def bits(self):
        return [chx.to_numpy(a.as_grad_stopped()).tobytes() for a in (self.w, self.b, self.mean)]


def fill(session, free):
    """Arrays that leave the session about so much memory."""
    kept, size = [], ROWS
    while size >= 256:
        try:
            kept.append(chx.ones((size,), dtype="float32", device=session.devices[0]))
            float(kept[-1][0])
        except chx.OutOfMemoryError:
            kept.pop()
            size //= 4
    while free > 0:
        free -= 4 * kept.pop(0).size
    float(kept[-1][0])
    return kept


@pytest.fixture
def expected(daemon, rows):
    """What a run that is never short of memory leaves after each number of steps."""
    with chx.connect(daemon.address) as session, session:
        training = Training()
        run = training.start(rows, pause_at=range(2, STEPS))
        found = {}
        for step in range(2, STEPS):
            assert wait_until(lambda s=step: run.step == s and run.state == "paused", 30)
            found[step] = training.bits()
            run.resume()
        assert run.wait(30).reason == "done"
        return {**found, STEPS: training.bits()}, run.metrics()["loss"].tolist()


@pytest.fixture
def other(daemon):
    """Opened before `session`, which is the default one so."""
    with chx.connect(daemon.address) as opened:
        yield opened


@pytest.mark.parametrize("free", [0, 1, 2, 3, 4, 8])
def test_other_arrays_take_it(free, rows, expected, other, session):
    """In the middle of it. It goes on from there to the same parameters as if nothing had been."""
    states, losses = expected
    training = Training()
    run = training.start(rows, pause_at=[5])
    assert wait_until(lambda: run.state == "paused", 30)
    kept = fill(session, free << 20)
    run.resume()
    assert wait_until(lambda: run.state == "ended", 30)
    last = run.events()[-1]
    assert last.reason == ("done" if free == 8 else "error" if free < 3 else last.reason)
    if last.reason == "error":
        assert last.step == run.step < STEPS
        assert last.message.startswith(f"step {run.step + 1}: [run_program] out of memory: ")
        assert "release arrays, or raise the limit: chxd's --session-memory" in last.message
        with pytest.raises(chx.ChainerxError, match="out of memory"):
            run.wait()
    assert chx.ones((ROWS,), device=other.devices[0]).sum().item() == ROWS  # notices nothing
    done = run.step
    del kept
    assert training.bits() == states[done]
    found = run.metrics()["loss"].tolist()
    if done < STEPS:
        training.optimizer.t = done
        run = training.start(rows[done:])
        assert run.wait(30).reason == "done"
        found += run.metrics()["loss"].tolist()
    assert training.bits() == states[STEPS]
    assert found == losses


def test_an_evaluation_takes_it(rows, expected, session):
    """Steps have had enough. The parameters are as the last one has left them."""
    states, _ = expected
    training = Training()
    evaluated = chx.zeros((64, 4))

    def evaluate(x):
        each = chx.broadcast_to(chx.sum(x, axis=1)[:, None], (64, ROWS // 8))  # 8 MiB
        return {"loss": chx.mean(chx.tanh(each * 1.5) + chx.exp(each))}

    run = training.start(rows, pause_at=[5], evaluate=(evaluate, evaluated), evaluate_at=[7])
    assert wait_until(lambda: run.state == "paused", 30)
    kept = fill(session, 7 << 20)
    run.resume()
    with pytest.raises(
        chx.ChainerxError, match="evaluation after step 7: \\[.*\\] out of memory: "
    ):
        run.wait(30)
    assert run.step == 7 and training.bits() == states[7]
    del kept
    training.optimizer.t = 7
    rest = training.start(rows[7:], evaluate=(evaluate, evaluated), evaluate_at=[1])
    assert rest.wait(30).reason == "done" and len(rest.metrics()["evaluation/loss"]) == 2
    assert training.bits() == states[STEPS]
