"""A GPU that is lost costs what is on it, and nothing else (a stand-in loses itself on demand)."""

import os
import subprocess

import chx
import numpy as np
import pytest

from tests.integration.daemon import Daemon, wait_until

CHXD = os.path.abspath(os.environ["CHX_CHXD"])


def healthy(address):
    return subprocess.run([CHXD, "--health", address], stdout=subprocess.DEVNULL).returncode == 0


@pytest.fixture
def loss(tmp_path, monkeypatch):
    """The file whose existence is the loss of cuda:0."""
    monkeypatch.setenv("CHX_EMULATED_LOSS", str(tmp_path / "loss"))
    return tmp_path / "loss"


def test_other_devices_and_sessions_go_on(loss):
    with Daemon("--devices=native:0,cuda:0") as daemon:
        one, other = chx.connect(daemon.address), chx.connect(daemon.address)
        with one:
            there = chx.arange(4, device="cuda:0")
            here = chx.arange(4, device="native:0") + 1
        with other:
            others = chx.ones(3, device="cuda:0")
        loss.touch()
        for session, array in ((one, there), (other, others)):
            with session, pytest.raises(chx.DeviceError, match="lost for a test"):
                chx.to_numpy(array)
            with session, pytest.raises(chx.DeviceError, match="the device cuda:0 is lost"):
                chx.to_numpy(chx.ones(2, device="cuda:0"))
        with one:
            np.testing.assert_array_equal(chx.to_numpy(here), [1, 2, 3, 4])
        with chx.connect(daemon.address):
            assert chx.to_numpy(chx.ones(2, device="native:0") * 3).tolist() == [3, 3]
            with pytest.raises(chx.DeviceError, match="the device cuda:0 is lost"):
                chx.to_numpy(chx.ones(2, device="cuda:0"))
        devices = {device.name: device.lost for device in chx.admin.connect(daemon.address).devices()}
        assert devices == {"native:0": "", "cuda:0": "cuda: synchronize: lost for a test"}
        assert healthy(daemon.address) and daemon.alive()
        one.close()
        other.close()


def test_the_loss_of_the_last_device_ends_the_daemon(loss):
    with Daemon("--devices=cuda:0", "--drain-timeout=5s") as daemon:
        session = chx.connect(daemon.address)
        with session:
            array = chx.ones(3)
            loss.touch()
            with pytest.raises(chx.DeviceError, match="lost for a test"):
                chx.to_numpy(array)
        # Sessions have as long as at any other end.
        assert wait_until(lambda: not healthy(daemon.address))
        session.close()
        assert daemon.process.wait(60) == 1
        assert b"a device is lost" in daemon.process.stderr.read()
