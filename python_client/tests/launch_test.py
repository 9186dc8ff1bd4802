"""python -m chx launch."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.integration.daemons import daemons

SCRIPT = """
import os
import sys
import time
import chx

group = chx.distributed.init()
total = chx.distributed.all_reduce(chx.full((1,), float(group.rank + 1)))
if sys.argv[1:] == ["fail"] and group.rank == 1:
    sys.exit(3)
if sys.argv[1:] == ["fail"]:
    try:
        chx.distributed.barrier()
    except chx.ContextError:
        time.sleep(60)
if sys.argv[1:] == ["where"]:
    print(f"{group.rank} at {os.environ['CHX_SERVER']}\\n", end="", flush=True)
if sys.argv[1:] == ["wait"]:
    print("waits", flush=True)
    while True:
        chx.distributed.barrier()
if sys.argv[1:] == ["last"] and group.rank == 1:
    x = chx.ones((1000, 1000))
    for _ in range(30):
        x = chx.tanh(x @ x)
    chx.distributed.send(chx.mean(x), 0)
    print("rank 1 of 2: 3.0\\n", end="", flush=True)
    sys.exit()  # total.item() would wait for all of that
elif sys.argv[1:] == ["last"] and group.rank == 0:
    assert float(chx.distributed.recv(chx.zeros(()), 1)) > 0.5
print(f"rank {group.rank} of {group.size}: {total.item()}\\n", end="", flush=True)
"""


def start(tmp_path, size, *arguments, options=()):
    program = tmp_path / "program.py"
    program.write_text(SCRIPT)
    env = {name: value for name, value in os.environ.items() if name != "CHX_SERVER"}
    return subprocess.Popen(
        [sys.executable, "-m", "chx", "launch", "-n", size, *options, str(program), *arguments],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_all_ranks_have_run(tmp_path):
    process = start(tmp_path, "3")
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert sorted(output.split("\n")) == ["", *(f"rank {i} of 3: 6.0" for i in range(3))]


def test_what_is_sent_last_arrives(tmp_path):
    """The sender's process ends while the daemon still computes it."""
    process = start(tmp_path, "2", "last")
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert sorted(output.split("\n")) == ["", "rank 0 of 2: 3.0", "rank 1 of 2: 3.0"]


def test_where_one_fails_the_others_end(tmp_path):
    process = start(tmp_path, "2", "fail")
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 3, (output, errors)
    assert "rank 1 has failed: 3" in errors


def test_a_signal_ends_all(tmp_path):
    process = start(tmp_path, "2", "wait")
    assert process.stdout.readline() == "waits\n"
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert time.monotonic() - began < 20


def test_what_it_is_told_is_checked(tmp_path):
    process = start(tmp_path, "0")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "expects at least one rank, got 0" in errors


def across(places, meet_at):
    """Options for ranks of several daemons."""
    return "--daemons", ",".join(daemon.address for daemon in places), "--meet-at", meet_at


@pytest.fixture(scope="module")
def two_daemons():
    with daemons(2) as places:
        yield places


@pytest.mark.parametrize("size", [2, 3, 4])
def test_ranks_of_two_daemons(tmp_path, two_daemons, size):
    """Blocks of them, of equal size if that is possible, which meet at either."""
    for met in two_daemons:
        options = across(two_daemons, met.peer_address)
        process = start(tmp_path, str(size), "where", options=options)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        lines = output.split("\n")
        total = size * (size + 1) / 2
        said = sorted(line for line in lines if line.startswith("rank"))
        assert said == [f"rank {i} of {size}: {total}" for i in range(size)]
        found = sorted(line for line in lines if " at " in line)
        first, second = (daemon.address for daemon in two_daemons)
        half = (size + 1) // 2
        assert found == [f"{i} at {first if i < half else second}" for i in range(size)]


def test_where_one_fails_those_of_the_other_daemon_end(tmp_path, two_daemons):
    process = start(tmp_path, "2", "fail", options=across(two_daemons, two_daemons[0].peer_address))
    began = time.monotonic()
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 3, (output, errors)
    assert "rank 1 has failed: 3" in errors
    assert time.monotonic() - began < 30
    for daemon in two_daemons:
        assert daemon.alive()


def test_a_place_to_meet_is_needed(tmp_path):
    for options in (("--daemons", "unix:a,unix:b"), ("--meet-at", "127.0.0.1:1")):
        process = start(tmp_path, "2", options=options)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 2
        assert "expects --daemons and --meet-at, or neither" in errors
