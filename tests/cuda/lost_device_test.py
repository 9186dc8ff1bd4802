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
        sessions = [chx.connect(daemon.address) for _ in range(2)]
        on_gpu = [chx.arange(4, device=session.devices[1]) for session in sessions]
        on_cpu = chx.arange(4, device=sessions[0].devices[0]) + 1
        loss.touch()
        for session, array in zip(sessions, on_gpu):
            with pytest.raises(chx.DeviceError, match="lost for a test"):
                chx.to_numpy(array)
            with pytest.raises(chx.DeviceError, match="the device cuda:0 is lost"):
                chx.to_numpy(chx.ones(2, device=session.devices[1]))
        np.testing.assert_array_equal(chx.to_numpy(on_cpu), [1, 2, 3, 4])
        sessions.append(chx.connect(daemon.address))
        cpu, gpu = sessions[-1].devices
        assert chx.to_numpy(chx.ones(2, device=cpu) * 3).tolist() == [3, 3]
        with pytest.raises(chx.DeviceError, match="the device cuda:0 is lost"):
            chx.to_numpy(chx.ones(2, device=gpu))
        devices = {
            device.name: device.lost for device in chx.admin.connect(daemon.address).devices()
        }
        assert devices == {"native:0": "", "cuda:0": "cuda: synchronize: lost for a test"}
        assert healthy(daemon.address) and daemon.alive()
        for session in sessions:
            session.close()


def test_the_loss_of_the_last_device_ends_the_daemon(loss):
    with Daemon("--devices=cuda:0", "--drain-timeout=5s") as daemon:
        session = chx.connect(daemon.address)
        array = chx.ones(3)
        loss.touch()
        with pytest.raises(chx.DeviceError, match="lost for a test"):
            chx.to_numpy(array)
        # Sessions have as long as at any other end.
        assert wait_until(lambda: not healthy(daemon.address))
        session.close()
        assert daemon.process.wait(60) == 1
        assert b"a device is lost" in daemon.process.stderr.read()
