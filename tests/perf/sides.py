"""The processes that take training steps, and the check that all of them compute the same."""

import json
import os
import subprocess
import tempfile
import time

import forward_sides
import numpy as np
import run_sides
from training_sides import batch_of
from training_step import SIZES

TOLERANCE = 1e-3  # of how far the parameters moved
# The threads of NumPy's OpenBLAS go on spinning for about 0.1 s after a product, on cores that the
# next side needs.
SETTLE_SECONDS = 0.2


def _use_last_core():
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


class Side:
    """A process that takes training steps: training_step.py by `python`. It sleeps until asked.

    one_core: it may run on the last core only, and so has one thread.
    """

    def __init__(self, python, *side, one_core=False):
        self.kind = side[0]
        script = os.path.join(os.path.dirname(__file__), "training_step.py")
        self._process = subprocess.Popen(
            [python, "-W", "ignore", script, *side],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=_use_last_core if one_core else None,
        )
        self.versions = self._answer()  # of its libraries
        self.counts = {}  # of the last run of each size: commands and round trips of a step

    def _answer(self):
        return json.loads(self._process.stdout.readline())

    def _ask(self, *words):
        print(*words, file=self._process.stdin, flush=True)
        return self._answer()

    def time(self, name, n, every):
        answer = self._ask("time", name, n, every)
        time.sleep(SETTLE_SECONDS)
        self.counts[f"{name}, loss every {every}"] = answer
        return answer["seconds"]

    def parameters(self, name):
        with tempfile.NamedTemporaryFile(suffix=".npz") as file:
            self._ask("save", name, file.name)
            return list(np.load(file.name).values())


def check_same_training(sides):
    """The same steps from the same values must have led all sides to the same parameters."""
    for name, size in SIZES.items():
        trained = {peer: side.parameters(name) for peer, side in sides.items()}
        check_same_parameters(name, batch_of(*size)[2], trained)
    print("all sides train both networks to the same parameters")


def check_same_parameters(name, begin, trained):
    want = next(iter(trained.values()))
    for peer, got in trained.items():
        for b, w, g in zip(begin, want, got, strict=True):
            error = np.linalg.norm(g - w) / np.linalg.norm(w - b)
            if not error <= TOLERANCE:
                raise AssertionError(f"{peer} trains the {name} network otherwise: {error:.1e}")


def check_same_results(sides):
    """All sides must give the same results for the steps of forward_sides.py."""
    for name in forward_sides.SIZES:
        first, *others = (side for side in sides if name in forward_sides.names_of(side.kind))
        want = first.parameters(name)[0]
        for side in others:
            np.testing.assert_allclose(side.parameters(name)[0], want, rtol=1e-4, atol=1e-4)


def check_same_runs(sides):
    """Whole runs must have led all sides to the same parameters."""
    for name, sizes in run_sides.SIZES.items():
        for side in sides.values():
            side.time(name, 1, 1)
        trained = {peer: side.parameters(name) for peer, side in sides.items()}
        check_same_parameters(name, batch_of(sizes, 1)[2], trained)
