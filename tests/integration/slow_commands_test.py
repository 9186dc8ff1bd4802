"""What the log says of commands, devices and administrators."""

import os

import chx
import numpy as np
import pytest

from . import raw_frames
from .observed import Observed


def slow_matmul(n):
    x = chx.array(np.full((n, n), 0.123456789))
    y = x @ x
    return float(chx.to_numpy(y.sum()))


def test_a_slow_command_is_told_of_without_values():
    with Observed(
        "--slow-command=20ms",
        "--metrics-listen=127.0.0.1:0",
        "--metrics-open",
        "--threads=1",
    ) as daemon:
        with chx.connect(daemon.address, client_name="trainer") as session:
            slow_matmul(1500)
            line = next(each for each in daemon.soon("slow command") if each["op"] == "matmul")
            assert line["level"] == "warning"
            assert line["session"] == 1 and line["tenant"] == "default"
            assert line["client"] == "trainer"
            assert line["inputs"] == "float64(1500, 1500), float64(1500, 1500)"
            assert line["milliseconds"] >= 20
            assert "slow_commands_test.py" in line["location"]
            y = chx.ones((2_000_000,)) * 0.987654321
            session.synchronize()
            del y
        samples, _ = daemon.metrics()
        assert samples[("chxd_slow_commands_total", "local", "default")] >= 1
        text = daemon.log_path.read_text()
        assert "0.123456" not in text and "0.987654" not in text


def test_nothing_is_slow_where_nobody_asks():
    with Observed(
        "--slow-command=0s", "--metrics-listen=127.0.0.1:0", "--metrics-open", "--threads=1"
    ) as daemon:
        with chx.connect(daemon.address):
            slow_matmul(1500)
        assert not daemon.log("slow command")
        samples, _ = daemon.metrics()
        assert samples[("chxd_slow_commands_total", "local", "default")] == 0


def test_slow_commands_fill_no_disk():
    with Observed("--slow-command=1ms", "--threads=1") as daemon:
        with chx.connect(daemon.address):
            x = chx.array(np.ones((700, 700)))
            for _ in range(60):
                y = x @ x
            chx.to_numpy(y)
        assert 1 <= len(daemon.soon("slow command")) < 60


def test_refusals_say_for_whom():
    with Observed("--session-memory=8MiB") as daemon, chx.connect(daemon.address):
        with pytest.raises(chx.OutOfMemoryError):
            chx.to_numpy(chx.zeros((10_000_000,)))
        [full] = daemon.soon("out of memory")
        assert full["tenant"] == "default"


def test_what_administrators_do_is_kept():
    with Observed() as daemon, raw_frames.connect(daemon.address) as peer:
        chx.connect(daemon.address)
        peer.sendall(raw_frames.hello())
        for number in (1, 7):
            kill = raw_frames.text(8, b"\x09" + number.to_bytes(8, "little"))
            peer.sendall(raw_frames.frame(raw_frames.CALL, kill))
            raw_frames.receive(peer)
        lines = daemon.soon("administrator")
        assert [line["session"] for line in lines] == [1, 7]
        assert {line["action"] for line in lines} == {"kill_session"}
        assert {line["peer"] for line in lines} == {f"uid {os.getuid()}"}
        assert lines[0]["outcome"] == "done" and "no session" in lines[1]["outcome"]
