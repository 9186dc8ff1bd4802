"""For tests of the examples: runs one on a device, and compares what came of it."""

import importlib
import json
import os
import sys

import chainer
import chx
import matplotlib
import numpy as np

matplotlib.use("Agg")

#: The device that examples are tried on: $CHX_TEST_DEVICE, or native:0; and NumPy's before it.
DEVICE = os.environ.get("CHX_TEST_DEVICE", "native:0")
DEVICES = ("@numpy", DEVICE)

EXAMPLES = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples", "chainer"
)


def load(name):
    """An example as a module."""
    if EXAMPLES not in sys.path:
        sys.path.insert(0, EXAMPLES)
    return importlib.import_module(name)


def run(name, device, out, *arguments):
    """What an example's main() returns. Nothing of it may fall back to NumPy.

    Args:
      name: the example.
      device: "@numpy" or a device of the daemon's.
      out: folder for what it writes.
      arguments: further ones; numbers are fine.
    """
    chx.random.seed(1)
    argv = ["--device", device, "--out", str(out), *map(str, arguments)]
    with chainer.using_device(chainer.get_device(device)):  # main() changes it
        result = load(name).main(argv)
    assert not chx.chainer.fallbacks()
    return result


def weights(link):
    """Copies of a link's parameters, in this process, by name."""
    host = chainer.get_device("@numpy")
    return {name: np.array(host.send(p.array)) for name, p in link.namedparams()}


def read_log(out):
    """LogReport's entries in a folder."""
    with open(os.path.join(out, "log")) as file:
        return json.load(file)


def assert_same_curve(actual, expected, keys, rtol):
    """Checks two logs: the same entries, and their numbers within a tolerance."""
    assert len(actual) == len(expected) > 0
    for key in keys:
        np.testing.assert_allclose(
            [entry[key] for entry in actual],
            [entry[key] for entry in expected],
            rtol=rtol,
            err_msg=key,
        )


def assert_equal_weights(actual, expected):
    """Checks two results of weights(): the same bits."""
    assert actual.keys() == expected.keys() and actual
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value, err_msg=name)


def daemon_memory():
    """What the private daemon has of the host's memory, in bytes."""
    session = chx._core._get_default_session()
    session.synchronize()
    with open(f"/proc/{session._daemon.process.pid}/status") as file:
        line = next(line for line in file if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024
