"""Runs a notebook and stores what its cells show in it: execute_notebook.py PATH.

Cells tagged "varies" show something else each time. What those tagged "local" show is not stored.
"""

import os
import sys

import nbformat
from nbclient import NotebookClient


def execute(path):
    """The notebook with its outputs, from a kernel of this Python in the notebook's folder.

    Raises:
      nbclient.exceptions.CellExecutionError: a cell raised something; the text says which and what.
    """
    notebook = nbformat.read(path, as_version=4)
    folder = os.path.dirname(os.path.abspath(path))
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times
        if "local" in cell.metadata.get("tags", []):
            cell.outputs = []
    return notebook


if __name__ == "__main__":
    nbformat.write(execute(sys.argv[1]), sys.argv[1])
