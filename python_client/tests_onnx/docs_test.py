"""The programs of docs/onnx.md run, in the order of the page."""

import os
import pathlib
import re

import pytest

PAGE = pathlib.Path(os.environ["ONNX_MD"]).read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_page_has_programs():
    assert len(BLOCKS) == 2


@pytest.mark.parametrize("block", BLOCKS)
def test_a_program_runs(block, tmp_path, monkeypatch):
    if "CHX_CHXD" in os.environ:  # a path that is relative to the folder of now
        monkeypatch.setenv("CHX_CHXD", os.path.abspath(os.environ["CHX_CHXD"]))
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "onnx.md", "exec"), {"__name__": "__main__"})
