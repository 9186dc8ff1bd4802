"""What tests against NumPy share: a session of a module's own, and random inputs from a printed seed."""

import builtins
import os
import signal
import sys
import time

import chx
import numpy as np
import pytest
from chx._compat import zip_strict

if sys.version_info < (3, 10):
    _zip = zip
    builtins.zip = lambda *args, strict=False: zip_strict(*args) if strict else _zip(*args)

SEED = np.random.SeedSequence().entropy % 2**32


@pytest.fixture(scope="module")
def seeded_session():
    print("seed", SEED)
    with chx.connect() as session:
        yield session


@pytest.fixture(params=["known", "unknown"])
def kernel_positions(request, monkeypatch):
    """Kernels of the user twice: this process knows the threads' positions, or only the daemon does."""
    if request.param == "unknown":
        monkeypatch.setattr("chx.kernels._positions.MAX_KNOWN", -1)


def _state(path):
    """A process's or thread's, as in its stat file; "Z" if it is gone."""
    try:
        with open(f"{path}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"


@pytest.fixture
def is_running():
    return lambda pid: _state(f"/proc/{pid}") != "Z"


class Paused:
    """A process does not run within the block: not one of its threads."""

    def __init__(self, pid):
        self._pid = pid

    def __enter__(self):
        os.kill(self._pid, signal.SIGSTOP)
        while any(_state(f"{self._tasks()}/{t}") not in "TZ" for t in os.listdir(self._tasks())):
            time.sleep(0.001)

    def __exit__(self, *_):
        os.kill(self._pid, signal.SIGCONT)

    def _tasks(self):
        return f"/proc/{self._pid}/task"


@pytest.fixture
def paused():
    """Paused, for the daemon of a session."""
    return lambda session: Paused(session._daemon.process.pid)


@pytest.fixture
def beside():
    """A session with a daemon of its own; the default session is another, before and afterwards."""
    default = chx._core._get_default_session()
    with chx.connect() as session:
        chx._core._set_default_session(default)
        yield session


@pytest.fixture
def rng():
    print("seed", SEED)
    return np.random.default_rng(SEED)
