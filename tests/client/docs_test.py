"""The programs in C++ of docs/cpp.md, docs/runs.md and docs/distributed.md print what these say."""

import os
import re
import subprocess

import pytest

from tests.integration.daemon import Daemon

BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"// → (.*)$", re.MULTILINE)
PROGRAMS = os.environ["PROGRAMS"].split()


def blocks():
    found = []
    for page in os.environ["PAGES"].split():
        with open(page, encoding="utf-8") as file:
            found += BLOCK.findall(file.read())
    return found


def test_all_are_programs():
    assert len(blocks()) == len(PROGRAMS)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_prints(number, tmp_path):
    program = os.path.abspath(PROGRAMS[number])
    with Daemon() as daemon:
        done = subprocess.run(
            [program, daemon.address], cwd=tmp_path, capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == PRINTED.findall(blocks()[number])
