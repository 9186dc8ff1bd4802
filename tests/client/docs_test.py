"""The programs of docs/cpp.md print what it says."""

import os
import re
import subprocess

import pytest

from tests.integration.daemon import Daemon

BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"// → (.*)$", re.MULTILINE)
PROGRAMS = os.environ["PROGRAMS"].split()


def blocks():
    with open(os.environ["CPP_MD"], encoding="utf-8") as file:
        return BLOCK.findall(file.read())


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
