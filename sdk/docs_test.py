"""The C++ in README and docs is compiled: by a target here, by the SDK's test, or in our own files."""

import os
import pathlib
import re

import pytest

# The source tree: Bazel links to the file in it. Not declared as data, so never cached.
ROOT = pathlib.Path(os.environ["README_MD"]).resolve().parent
BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Above a block: the file that the page tells to change, which has that text.
FILE = re.compile(r"^## .*`([\w/.]+)`$", re.MULTILINE)

# Page -> blocks, and what compiles them.
TARGETS = {
    "README.md": (1, "sdk/BUILD"),
    "docs/cpp_sdk.md": (1, "sdk/BUILD"),
    "docs/plugins.md": (1, "examples/plugin/BUILD"),
    "docs/chainerx.md": (1, "tests/chainerx/BUILD"),
    "docs/cpp.md": (7, "tests/client/BUILD"),
    "docs/distributed.md": (1, "tests/client/BUILD"),
    "docs/runs.md": (1, "tests/client/BUILD"),
}
OF_FILES = "docs/adding_an_operator.md"
# Pages of other tests: docs/user_pages_test.py.
ELSEWHERE = re.compile(r"docs/(for_\w+|index)\.md")


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def test_no_page_is_left_out():
    pages = ["README.md", *(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]
    with_blocks = {page for page in pages if BLOCK.search(read(page))}
    assert {page for page in with_blocks if not ELSEWHERE.fullmatch(page)} == {*TARGETS, OF_FILES}


@pytest.mark.parametrize("page", TARGETS)
def test_is_compiled(page):
    count, build = TARGETS[page]
    assert len(BLOCK.findall(read(page))) == count
    package, name = ("//", page) if "/" not in page else page.rsplit("/", 1)
    label = f"//:{name}" if package == "//" else f"//{package}:{name}"
    assert label in read(build)


def test_is_in_the_file_that_the_page_names():
    text = read(OF_FILES)
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) == 2
    for block in blocks:
        path = FILE.findall(text[: block.start()])[-1]
        assert block[1] in read(path), path
