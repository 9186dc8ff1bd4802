"""How much memory a private daemon lets its client hold."""

import os
import re
import subprocess
import sys
from pathlib import Path

import chx
import numpy as np
import pytest

MIB = 1 << 20


def limit_of(session):
    """What the session's own error says its limit is."""
    with pytest.raises(chx.OutOfMemoryError) as raised:
        float(chx.zeros(1 << 60, "int8", device=session.devices[0])[0])
    return re.search(r"the session's limit is ([0-9.]+ [KMGT]iB)", str(raised.value)).group(1)


def machine_memory():
    """Bytes: the machine's, or the control group's that this process is in if that has a limit."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        if os.path.exists(path) and (text := Path(path).read_text().strip()).isdigit():
            total = min(total, int(text))
    return total


@pytest.mark.parametrize(
    ("memory", "limit"),
    [("64MiB", "64 MiB"), ("64Mi", "64 MiB"), (64 * MIB, "64 MiB"), ("67108864", "64 MiB")],
)
def test_memory_is_the_limit(memory, limit):
    with chx.connect(memory=memory) as session:
        assert limit_of(session) == limit


def test_the_environment_says_it(monkeypatch):
    monkeypatch.setenv("CHX_MEMORY", "96MiB")
    with chx.connect() as session:
        assert limit_of(session) == "96 MiB"
    with chx.connect(memory="64MiB") as session:
        assert limit_of(session) == "64 MiB"


@pytest.mark.parametrize(("memory", "share"), [(None, 0.8), (0.5, 0.5), ("25%", 0.25)])
def test_shares_are_of_the_machine(memory, share, monkeypatch):
    monkeypatch.delenv("CHX_MEMORY", raising=False)
    with chx.connect(memory=memory) as session:
        number, unit = limit_of(session).split()
    held = float(number) * {"MiB": MIB, "GiB": 1024 * MIB, "TiB": 1024**2 * MIB}[unit]
    # A control group further up may be tighter than what this test can see.
    assert held <= share * machine_memory()
    assert held > 0


def test_errors_say_what_holds_the_memory_and_what_to_do():
    with chx.connect(memory="64MiB"):
        held = chx.zeros(48 * MIB, "int8")
        with pytest.raises(chx.OutOfMemoryError) as raised:
            float(chx.zeros(32 * MIB, "int8")[0])
        text = str(raised.value)
        assert "of its limit of 64 MiB (48" in text and "in arrays" in text
        assert "chx.connect(memory=...)" in text and "--session-memory" in text
        assert held.shape == (48 * MIB,)
        del held
        np.testing.assert_array_equal(chx.to_numpy(chx.ones(32 * MIB, "int8")), 1)


@pytest.mark.parametrize("memory", ["lots", "-1", "0", "1.5", "200%"])
def test_nonsense_is_refused_with_a_reason(memory):
    with pytest.raises(ConnectionError, match="--session-memory expects a number of bytes such as"):
        chx.connect(memory=memory)


def test_only_a_private_daemon_takes_it():
    with chx.connect() as session, pytest.raises(ValueError, match="expects memory for a private"):
        chx.connect(session._daemon.address, memory="1GiB")


def test_run_takes_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import chx\n"
        "try:\n"
        "    float(chx.zeros(1 << 60, 'int8')[0])\n"
        "except chx.OutOfMemoryError as error:\n"
        "    print(error)\n"
    )
    safe = ["-P"] if sys.version_info >= (3, 11) else []
    run = [sys.executable, *safe, "-m", "chx", "run", "--memory", "80MiB", str(script)]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert "limit is 80 MiB" in done.stdout
