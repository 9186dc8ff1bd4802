"""mypy --strict accepts the package, and of a program what is right."""

import os
import re
import subprocess
import sys

import chx
import pytest

SOURCES = os.path.dirname(os.path.dirname(chx.__file__))
PROGRAM = os.path.abspath(os.environ["TYPED_PROGRAM"])


@pytest.fixture(scope="module")
def mypy(tmp_path_factory):
    """Runs it, with one cache for all tests, where a program would find the package; as the oldest
    Python that there is a wheel for, which lacks syntax and names."""
    cache = tmp_path_factory.mktemp("cache")

    def run(*arguments):
        config = os.path.abspath(os.environ["PYPROJECT"])
        command = [sys.executable, "-m", "mypy", f"--config-file={config}", f"--cache-dir={cache}"]
        command.append("--python-version=3.9")
        done = subprocess.run(
            [*command, *arguments], cwd=SOURCES, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_package(mypy):
    status, output = mypy("-p", "chx")
    assert status == 0, output
    checked = re.search(r"no issues found in (\d+) source files", output)
    assert int(checked[1]) > 100


def test_program(mypy):
    status, output = mypy(PROGRAM)
    assert status == 0, output
    subprocess.run([sys.executable, PROGRAM], check=True)


MISTAKES = [
    ("chx.exponential(x)", 'Module has no attribute "exponential"'),
    ("chx.exp('x')", 'incompatible type "str"; expected "ndarray"'),
    ("chx.sort(x, kind=1)", 'incompatible type "int"; expected "Optional[str]"'),
    ("chx.linalg.det(1)", 'incompatible type "int"; expected "ndarray"'),
    ("chx.optimizers.SGD(rate=1.0)", 'Unexpected keyword argument "rate"'),
    ("chx.optimizers.sgd_update(x, x, 'fast')", 'incompatible type "str"; expected "float"'),
    (
        "chx.chainerx.zeros_like(x, 1)",
        'incompatible type "int"; expected "Union[str, Device, None]"',
    ),
    ("x.transposed()", '"ndarray" has no attribute "transposed"'),
    ("chx.random.normal(scale='1')", 'incompatible type "str"; expected "float"'),
    ("chx.connect(port=1)", 'Unexpected keyword argument "port"'),
]


def test_mistakes_are_found(mypy, tmp_path):
    program = tmp_path / "program.py"
    lines = ["import chx.chainerx", "x = chx.ones((2,))", *(line for line, _ in MISTAKES)]
    program.write_text("\n".join(lines) + "\n")
    status, output = mypy(str(program))
    assert status == 1
    found = {}
    for number, error in re.findall(r"program.py:(\d+): error: (.*)", output):
        found[lines[int(number) - 1]] = error
    assert found.keys() == {line for line, _ in MISTAKES}
    for line, error in MISTAKES:
        assert error in found[line]
