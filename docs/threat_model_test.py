"""Each row of docs/threat_model.md names tests, and those that it names exist."""

import os
import pathlib
import re

PAGE = pathlib.Path(os.environ["THREAT_MODEL_MD"])
# The source tree: Bazel links to the file in it.
ROOT = PAGE.resolve().parent.parent
TEST = re.compile(r"(_test\.(cc|py)|tests/fuzz/\w+\.cc)$")


def tables():
    """The rows of the two tables, as lists of cells."""
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if cells[0] in ("threat", "#"):
            found.append([])
        elif set(line) - set("|-"):
            found[-1].append(cells)
    return found


def test_every_row_names_tests_that_exist():
    threats, classes = tables()
    assert len(threats) > 70
    assert [row[0] for row in classes] == [str(n) for n in range(1, 23)]
    for row in [*threats, *classes]:
        assert len(row) in (3, 4), row
        names = [name for name in re.findall(r"`([^`]+)`", row[-1]) if "/" in name or "." in name]
        assert names, f"no test: {row[0]}"
        for name in names:
            assert TEST.search(name), f"no test is {name}: {row[0]}"
            assert (ROOT / name).is_file(), f"there is no {name}: {row[0]}"
