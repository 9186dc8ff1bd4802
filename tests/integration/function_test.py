"""Functions of the client while things go wrong around them."""

import signal
import subprocess
import sys
import time

import chx
import numpy as np
import pytest
from chx.chainerx import _core

from tests.integration.daemon import Daemon

ARRAY = 1 << 18  # float64 elements: 2 MiB


@pytest.fixture(scope="module")
def daemon():
    with Daemon("--session-memory=96MiB", "--lease=1s") as daemon:
        yield daemon


class Double:
    """y = 2 x, in this process."""

    def __init__(self, hook=None):
        self.hook = hook

    def apply(self, x):
        y = chx.array(chx.to_numpy(x) * 2, device=x.device)
        _core._function_node_forward(self, [x], [y], [0], [0])
        return y

    def _backward_chainerx(self, targets, grads, inputs, outputs):
        if self.hook is not None:
            self.hook()
        return [grads[0] * 2]


CLIENT = """
import sys, time
import chx
from tests.integration.function_test import ARRAY, Double

def hang():
    print("in the function", flush=True)
    time.sleep(600)

with chx.connect(sys.argv[1]) as session:
    arrays = [chx.ones((4 * ARRAY,), "float64") for _ in range(8)]
    x = chx.ones((ARRAY,), "float64").require_grad()
    y = Double(hang).apply(x)
    chx.sum(y * y).backward()
"""


def test_a_client_killed_inside_of_a_function_takes_its_nodes_along(daemon):
    with chx.connect(daemon.address):
        x = chx.ones((4,), "float64").require_grad()
        before = daemon.resident_bytes()
        client = subprocess.Popen(
            [sys.executable, "-c", CLIENT, daemon.address], stdout=subprocess.PIPE
        )
        assert client.stdout.readline() == b"in the function\n"
        held = daemon.resident_bytes()
        assert held > before + (64 << 20)
        # A walk that waits keeps nobody from working.
        chx.sum(Double().apply(x)).backward()
        assert x.grad.tolist() == [2, 2, 2, 2]
        client.send_signal(signal.SIGKILL)
        client.wait()
        end = time.monotonic() + 5
        while daemon.resident_bytes() > before + (32 << 20) and time.monotonic() < end:
            time.sleep(0.02)
        assert daemon.resident_bytes() <= before + (32 << 20)
        chx.sum(Double().apply(x)).backward()
        assert x.grad.tolist() == [4, 4, 4, 4]


def test_graphs_with_functions_give_their_memory_back(daemon):
    """One failed walk or graph that stayed would be over the limit before forty."""
    with chx.connect(daemon.address) as session:
        x = chx.ones((ARRAY,), "float64").require_grad()

        def fail():
            raise RuntimeError("no")

        for i in range(40):
            if i % 2 == 0:
                (Double().apply(x) * 3).backward()
                assert x.grad[0].item() == 6
                x.cleargrad()
            else:
                with pytest.raises(RuntimeError, match="no"):
                    (Double(fail).apply(x) * 3).backward()
        for _ in range(20):
            (gx,) = chx.grad([chx.square(Double().apply(x))], [x], enable_double_backprop=True)
            (ggx,) = chx.grad([gx], [x])
            np.testing.assert_array_equal(chx.to_numpy(ggx[:3]), [8, 8, 8])
            del gx, ggx
        assert session.take_errors() == []


def test_a_function_past_the_deadline_fails_its_backward_and_no_other():
    with (
        Daemon("--session-memory=96MiB", "--function-deadline=300ms") as daemon,
        chx.connect(daemon.address) as session,
    ):
        x = chx.ones((4,), "float64").require_grad()

        def dawdle():
            time.sleep(1)
            assert chx.sum(x).item() == 4  # the session goes on

        with pytest.raises(TimeoutError, match="functions to take at most 300ms"):
            chx.sum(Double(dawdle).apply(x)).backward()
        assert x.grad is None
        chx.sum(Double().apply(x)).backward()
        assert x.grad.tolist() == [2, 2, 2, 2]
        assert session.take_errors() == []
