"""Chainer on chx, in the process of a test. Random inputs come from a seed that is printed."""

import os
import socket
import subprocess

import chx
import chx.chainer
import numpy as np
import pytest

SEED = int(os.environ.get("CHX_TEST_SEED", 0)) or int.from_bytes(os.urandom(4), "little")


def pytest_report_header():
    return f"CHX_TEST_SEED={SEED}"


@pytest.fixture(autouse=True)
def settings():
    """Every test starts with the same settings, and its own numbers from the seed."""
    np.random.seed(SEED % 2**32)
    chx.config.fallback = "raise"
    yield
    chx.config.fallback = "warn"
    chx.chainer.clear_fallbacks()


@pytest.fixture
def rng():
    print(f"CHX_TEST_SEED={SEED}")
    return np.random.default_rng(SEED)


@pytest.fixture
def device():
    """Chainer's device that most tests are on, by default: $CHX_TEST_DEVICE, or native:0."""
    import chainer

    device = chainer.get_device(os.environ.get("CHX_TEST_DEVICE", "native:0"))
    with device.create_context():
        yield device


@pytest.fixture(scope="module")
def daemons(tmp_path_factory):
    """Two daemons: where they listen, and where groups of both meet."""
    directory = tmp_path_factory.mktemp("chxd")
    (directory / "secret").write_text("s" * 32)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        meet_at = "127.0.0.1:%d" % probe.getsockname()[1]
    processes = []
    for number, peer_listen in enumerate((meet_at, "127.0.0.1:0")):
        command = [os.environ["CHX_CHXD"], f"--listen=unix:{directory}/{number}.sock"]
        command += ["--devices=native:0,native:1", f"--peer-listen={peer_listen}"]
        command += ["--peers=127.0.0.1:*", f"--peer-secret-file={directory}/secret"]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    yield [process.stdout.readline().split()[2] for process in processes], meet_at
    for process in processes:
        process.terminate()
        process.wait(30)
