"""python -m chx launch."""

import os
import signal
import subprocess
import sys
import time

SCRIPT = """
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
if sys.argv[1:] == ["wait"]:
    print("waits", flush=True)
    while True:
        chx.distributed.barrier()
print(f"rank {group.rank} of {group.size}: {total.item()}\\n", end="", flush=True)
"""


def start(tmp_path, size, *arguments):
    program = tmp_path / "program.py"
    program.write_text(SCRIPT)
    env = {name: value for name, value in os.environ.items() if name != "CHX_SERVER"}
    return subprocess.Popen(
        [sys.executable, "-m", "chx", "launch", "-n", size, str(program), *arguments],
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
