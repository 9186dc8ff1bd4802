"""Plug-in backends in a real daemon: the example's kernel runs, the rest is native's, and what
cannot be loaded is said at start."""

import os
import re
import signal
import subprocess

import chx
import numpy as np
import pytest

CHXD = os.path.abspath(os.environ["CHX_CHXD"])
EXAMPLE = os.path.abspath(os.environ["CHX_EXAMPLE"])
BROKEN = os.path.join(os.path.dirname(EXAMPLE), "testing")


class ExampleDaemon:
    """Serves example:0 and native:0 until the with block ends; then has the plug-in's counts."""

    def __init__(self, directory):
        command = [
            CHXD,
            f"--plugins=example={EXAMPLE}",
            "--devices=example:0,native:0",
            f"--listen=unix:{directory}/chxd.sock",
        ]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        line = self._process.stdout.readline()
        assert line.startswith("chxd ready"), self._process.stderr.read()
        self.address = line.split()[2]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.send_signal(signal.SIGTERM)
        _, errors = self._process.communicate(timeout=60)
        counts = re.search(r"relu ran (\d+) times here and (\d+) times in native", errors)
        self.own, self.native = int(counts[1]), int(counts[2])


def train(device, steps=3):
    """Losses and weights of a small network, from the same start on every device."""
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(16, 5)), rng.integers(0, 3, 16)
    x = chx.array(x.astype("float32"), device=device)
    t = chx.array(t, device=device)
    w1 = chx.array(rng.normal(size=(8, 5)).astype("float32"), device=device)
    w2 = chx.array(rng.normal(size=(3, 8)).astype("float32"), device=device)
    losses = []
    for _ in range(steps):
        w1.require_grad()
        w2.require_grad()
        hidden = chx.relu(chx.dot(x, w1.T))
        loss = chx.softmax_cross_entropy(chx.dot(hidden, w2.T), t).mean()
        loss.backward()
        assert w1.grad.device.name == device
        w1 = (w1 - 0.5 * w1.grad).as_grad_stopped()
        w2 = (w2 - 0.5 * w2.grad).as_grad_stopped()
        losses.append(float(loss))
    return losses, chx.to_numpy(w1), chx.to_numpy(w2)


def test_training_runs_by_the_plugins_kernel(tmp_path):
    with ExampleDaemon(tmp_path) as daemon, chx.connect(daemon.address):
        assert chx.get_device("example:0").backend.name == "example"
        example = train("example:0", steps=3)
        native = train("native:0", steps=5)
    assert daemon.own == 3, "once a step, and not for native:0"
    assert daemon.native == 0
    assert example[0] == native[0][:3]
    assert example[0][2] < example[0][0]


def test_values_are_natives(tmp_path):
    values = np.array([[-1.5, 0.0, np.nan], [2.0, -np.inf, np.inf]])
    with ExampleDaemon(tmp_path) as daemon, chx.connect(daemon.address):
        for dtype in ["float32", "float64", "float16"]:
            x = chx.array(values.astype(dtype), device="example:0")
            for made in [x, x.T, x[:, ::-1], x[:0]]:
                want = np.maximum(chx.to_numpy(made), 0)
                np.testing.assert_array_equal(chx.to_numpy(chx.relu(made)), want)
        y = chx.relu(x).to_device("native:0")
        assert y.device.name == "native:0"
        np.testing.assert_array_equal(chx.to_numpy(y), np.maximum(values, 0))
    assert daemon.own >= 1, "float32 arrays without gaps"
    assert daemon.own + daemon.native == 13
    assert daemon.native >= 9, "of other dtypes"


def refusal(*flags):
    """What the daemon says instead of starting."""
    result = subprocess.run(
        [CHXD, "--listen=127.0.0.1:0", "--allow-unauthenticated-loopback", *flags],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 1, result
    assert result.stdout == ""
    return result.stderr


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--plugins=x=/none/lib.so"], "cannot open the 'x' backend: there is no /none/lib.so"),
        (["--plugins=x=lib.so"], "expects NAME=/PATH"),
        ([f"--plugins=x={EXAMPLE},x={EXAMPLE}"], "expects each name once, got 'x' twice"),
        ([f"--plugins=native={EXAMPLE}"], "got 'native', which is built in"),
        ([f"--plugins=x={CHXD}"], "cannot open the 'x' backend"),
        (["--plugins=x=/lib/x86_64-linux-gnu/libm.so.6"], "libm.so.6 is not a chxd backend"),
        (
            [f"--plugins=x={BROKEN}/libwrong_abi.so"],
            "libwrong_abi.so: made for plug-in interface 2, but the daemon has interface 1",
        ),
        (
            [f"--plugins=x={BROKEN}/libwrong_layout.so"],
            "libwrong_layout.so: compiled with headers of another chxd",
        ),
        (
            [f"--plugins=x={BROKEN}/libunknown_operator.so", "--devices=x:0"],
            "plug-in 'x' cannot set its kernels: there is no operator 'rellu'",
        ),
        ([f"--plugins=example={EXAMPLE}", "--devices=example:9"], "'example' has 4 devices"),
        ([f"--plugins=example={EXAMPLE}", "--devices=other:0"], "there is no backend 'other'"),
    ],
)
def test_the_daemon_says_what_it_cannot_load(flags, message):
    assert message in refusal(*flags)


def test_clients_cannot_name_a_library(tmp_path):
    with ExampleDaemon(tmp_path) as daemon, chx.connect(daemon.address):
        for name in [f"x={EXAMPLE}", EXAMPLE, "x:0"]:
            with pytest.raises(chx.BackendError, match="does not serve"):
                chx.array([1.0], device=name)
    assert daemon.own == 0


def test_a_private_daemon_loads_plugins():
    with chx.connect(devices="native:0,example:0", plugins={"example": EXAMPLE}) as session:
        assert [d.name for d in session.devices] == ["native:0", "example:0"]
        x = chx.array([-1.0, 2.0], device="example:0")
        assert chx.relu(x).tolist() == [0, 2]
    with pytest.raises(ValueError, match="private daemon"):
        chx.connect("unix:/nowhere/chxd.sock", plugins={"example": EXAMPLE})
    with pytest.raises(ConnectionError):
        chx.connect(plugins={"example": EXAMPLE + ".not"})
