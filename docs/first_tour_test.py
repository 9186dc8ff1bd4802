"""The notebook runs, and shows what is stored in it."""

import os

# A test has none, and Jupyter and matplotlib keep files there.
os.environ["HOME"] = os.environ["TEST_TMPDIR"]
# The kernel runs in the notebook's folder.
os.environ["CHX_CHXD"] = os.path.abspath(os.environ["CHX_CHXD"])

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from docs.execute_notebook import execute

NOTEBOOK = os.environ["FIRST_TOUR"]


def shown(cell):
    """The texts among a cell's outputs."""
    return [
        output.get("text") or output["data"]["text/plain"] for output in cell.get("outputs", [])
    ]


def test_first_tour():
    """If it fails after a change of the notebook: python docs/execute_notebook.py NOTEBOOK."""
    stored = nbformat.read(NOTEBOOK, as_version=4)
    executed = execute(NOTEBOOK)
    assert len(stored.cells) == len(executed.cells) > 20
    for notebook in (stored, executed):  # the curve
        outputs = [o for cell in notebook.cells for o in cell.get("outputs", [])]
        assert sum("image/png" in output.get("data", {}) for output in outputs) == 1
    for before, after in zip(stored.cells, executed.cells, strict=True):
        if "varies" not in before.metadata.get("tags", []):
            assert shown(after) == shown(before), before.source


def test_a_cell_that_raises_is_an_error(tmp_path):
    path = tmp_path / "bad.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")]), path)
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        execute(path)
