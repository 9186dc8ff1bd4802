"""A run that a process has started in Python is attached to by another one, in C++."""

import os
import subprocess

import chx
import numpy as np
import pytest

from tests.integration.daemon import Daemon

KINDS = ("started", "log", "evaluation", "paused", "resumed", "warning", "ended")
RUNNING, PAUSED, ENDED = range(3)


@pytest.fixture
def daemon():
    with Daemon() as daemon:
        yield daemon


def attach(daemon, *args, ok=True):
    """What the program prints, each line as words; or its error."""
    command = [os.environ["ATTACH_PROGRAM"], daemon.address, *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode == 0) == ok, done.stderr
    return [line.split() for line in done.stdout.splitlines()] if ok else done.stderr


def words_of(event):
    """As the program prints an event."""
    numbers = [f"{event.epoch:.17g}", f"{event.time:.17g}"]
    metrics = [f"{name}={value:.17g}" for name, value in sorted(event.metrics.items())]
    words = [str(event.number), str(KINDS.index(event.kind)), str(event.step), *numbers, *metrics]
    return words + event.reason.split()


def test_attached_from_cpp(daemon):
    """It has the same events to the last bit, sees both arrays as one step has left them, and stops it."""
    session = chx.connect(daemon.address, session="shared")
    w, b = chx.zeros((3,)), chx.zeros((2,))
    session.save("model", {"w": w, "b": b})

    @chx.jit
    def step(x):
        b.__iadd__(chx.sum(x))
        w.__iadd__(chx.sum(x))
        return {"ratio": chx.sum(w) / 7, "b": chx.sum(b)}

    chx.runs.start(step, chx.ones((8, 1)), batch_size=2, steps=10**9, log_every=500, name="fit")
    session.close()

    lines = attach(daemon, "shared", "fit")
    states = [tuple(map(int, line[1:])) for line in lines if line[0] == "state"]
    assert [state for state, _ in states] == [RUNNING, PAUSED, ENDED]
    steps = [step for _, step in states]
    assert 0 < steps[0] < steps[1] <= steps[2] < 10**9

    fetched = np.array([line[1:] for line in lines if line[0] == "weights"], "f")
    assert fetched.shape == (200, 5)
    assert (fetched == fetched[:, :1]).all()
    seen = fetched[:, 0] / 2  # steps
    assert (np.diff(seen) >= 0).all() and steps[0] <= seen[0] < seen[-1] <= steps[1]
    for kind, at in (("paused", steps[1]), ("stopped", steps[2])):
        assert [line[1:] for line in lines if line[0] == kind] == [[str(2 * at)] * 5]

    # The next process finds what that one has left.
    with chx.connect(daemon.address, session="shared") as again:
        run = chx.runs.attach("fit")
        events = run.events()
        assert [words_of(event) for event in events] == [
            line[1:] for line in lines if line[0] == "event"
        ]
        kinds = [event.kind for event in events]
        assert [kind for kind in kinds if kind != "log"] == [
            "started",
            "paused",
            "resumed",
            "ended",
        ]
        assert kinds.index("paused") > 1 and events[-1].reason == "stopped"
        assert run.step == steps[2]
        assert chx.to_numpy(again.load("model")["w"]).tolist() == [2 * steps[2]] * 3
        again.discard()


def test_names_that_there_are_not(daemon):
    with chx.connect(daemon.address, session="shared") as session:
        session.save("model", {"w": chx.zeros((3,))})
    assert "no run 'fit'" in attach(daemon, "shared", "fit", ok=False)
