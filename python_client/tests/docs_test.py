"""Programs in the documentation run and print what it says."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

README = pathlib.Path(os.environ["README_MD"])
DOCS = README.parent / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"# → (.*)$", re.MULTILINE)

# Pages whose programs stand alone.
APART = [
    "clients.md",
    "distributed.md",
    "migrating_from_numpy.md",
    "migrating_from_pytorch.md",
    "mixed_precision.md",
    "numpy.md",
    "programs.md",
    "runs.md",
    "sharing.md",
    "state.md",
]
# Pages whose programs go on from one another, and what is added to see that they work.
TOGETHER = {
    "array_api.md": """
from chx import array_api as xp
print(xp.sum(softmax(xp.asarray([1.0, 2.0, 3.0]))))  # → array(1., shape=(), dtype=float64, device='native:0')
""",
    "chainer.md": "print(type(model.W.array))  # → <class 'chx.ndarray'>\n",
}
# A line of one of our own files, which docs/adding_an_operator.md tells to write.
LINES = {"adding_an_operator.md": 1}
# Pages of other tests: docs/user_pages_test.py, tests/integration/chxctl_trace_test.py, and
# tests_onnx/docs_test.py.
ELSEWHERE = re.compile(r"(for_\w+|index|chxctl|onnx)\.md")


def blocks(page):
    return BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))


def run(program):
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_no_page_is_left_out():
    with_programs = {page.name for page in DOCS.glob("*.md") if blocks(page.name)}
    here = {page for page in with_programs if not ELSEWHERE.fullmatch(page)}
    assert here == {*APART, *TOGETHER, *LINES}


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(program, id=f"{page}-{number}")
        for page in APART
        for number, program in enumerate(blocks(page))
    ],
)
def test_apart(program):
    assert run(program) == PRINTED.findall(program)


@pytest.mark.parametrize("page", TOGETHER)
def test_together(page):
    program = "\n".join([*blocks(page), TOGETHER[page]])
    assert run(program) == PRINTED.findall(program)


@pytest.mark.parametrize("page", LINES)
def test_lines(page):
    found = blocks(page)
    assert len(found) == LINES[page]
    sources = DOCS.parent.glob("tests/conformance/cases/*.py")
    text = "\n".join(source.read_text(encoding="utf-8") for source in sources)
    for line in found:
        assert line.strip() in text


def test_readme():
    """Its programs go on from one another."""
    programs = BLOCK.findall(README.read_text(encoding="utf-8"))
    assert len(programs) == 2
    assert len(run("\n".join(programs))) > 0
