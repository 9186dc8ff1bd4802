"""docs/conformance.md is up to date."""

import os
import pathlib

import pytest

from .report import dtypes_of, report, table_of_ops
from .table import ALL, ROWS, Row


@pytest.fixture(scope="module")
def text():
    return report(os.environ["OPS_MD"], os.environ["NAMES"])


def test_checked_in_report_is_what_the_rows_give(text):
    checked_in = pathlib.Path(os.environ["CHECKED_IN"]).read_text(encoding="utf-8")
    assert checked_in == text, "run: tools/conformance.sh"


def test_all_public_operators_are_in_the_report(text):
    ops = {op for _, entries in table_of_ops(os.environ["OPS_MD"]) for op, _, _ in entries}
    assert {"relu", "svd", "batch_norm"} <= ops
    assert not {"relu_grad", "add_", "getitem"} & ops
    assert ops <= {r.op for r in ROWS}
    assert text.count("\n| `") == len(ops)


def test_dtypes_are_named_shortly():
    def named(*dtypes):
        return dtypes_of([Row("relu", None, None, [(1,)] * len(dtypes), dtypes)])

    assert named(ALL) == "bool, integers, floats"
    assert named(["float32", "float64"], ["int32"]) == "int32, float32, float64"
    assert dtypes_of([Row("zeros", None, None, [])]) == "no arrays"
