"""The files and functions that docs/tour.md names exist."""

import os
import pathlib
import re

import pytest

TOUR = pathlib.Path(os.environ["TOUR_MD"])
# The source tree: Bazel links to the file in it.
ROOT = TOUR.resolve().parent.parent
PATH = re.compile(r"`(\w+/[\w./]+\.\w+)`(?:\s+\(((?:`[\w:]+`(?:,\s+)?)+)\))?")


def named():
    """{path: names of functions or classes} of the page."""
    files = {}
    for path, functions in PATH.findall(TOUR.read_text(encoding="utf-8")):
        names = files.setdefault(path, set())
        names.update(name.split("::")[-1] for name in re.findall(r"[\w:]+", functions))
    return files


def test_names_files_and_functions():
    files = named()
    assert len(files) > 30
    assert sum(len(functions) for functions in files.values()) > 40


@pytest.mark.parametrize("path", sorted(named()))
def test_exists(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    missing = [name for name in named()[path] if not re.search(rf"\b{name}\b", text)]
    assert missing == [], f"{path} does not contain what docs/tour.md names"
