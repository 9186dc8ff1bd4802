"""Programs in the documentation run and print what it says."""

import os
import re
import subprocess
import sys

import pytest

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"# → (.*)$", re.MULTILINE)


def blocks(name):
    with open(os.environ[name]) as file:
        return BLOCK.findall(file.read())


def run(program):
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("number", range(6))
def test_clients(number):
    programs = blocks("CLIENTS_MD")
    assert len(programs) == 6
    program = programs[number]
    assert run(program) == PRINTED.findall(program)


def test_numpy():
    (program,) = blocks("NUMPY_MD")
    assert run(program) == PRINTED.findall(program)


def test_readme():
    """Its programs go on from one another."""
    programs = blocks("README_MD")
    assert len(programs) == 2
    assert len(run("\n".join(programs))) > 0
