"""docs/conformance.md is up to date."""

import os
import pathlib

import pytest

from . import cases
from .array_api_suite import table
from .report import dtypes_of, report, table_of_ops
from .table import ALL, ROWS, Row


@pytest.fixture(scope="module")
def text():
    return report(os.environ["OPS_MD"], os.environ["NAMES"])


def test_checked_in_report_is_what_the_rows_give(text):
    checked_in = pathlib.Path(os.environ["CHECKED_IN"]).read_text(encoding="utf-8")
    assert checked_in == text, "run: tools/conformance.sh"


def test_all_public_operators_are_in_the_report(text):
    ops = {op for _, entries in table_of_ops(os.environ["OPS_MD"]) for op, *_ in entries}
    listed = pathlib.Path(os.environ["OPS_MD"]).read_text(encoding="utf-8").splitlines()
    assert len(ops) == sum(s.startswith("| [`") and "*internal*" not in s for s in listed)
    assert {"relu", "svd", "batch_norm", "abs"} <= ops
    assert not {"relu_grad", "add_", "getitem"} & ops
    assert ops <= {r.op for r in ROWS}
    assert text.count("\n| `") == len(ops)
    assert "\n| `abs`, `absolute` | " in text


def test_files_of_rows_are_named_as_groups_or_parts_of_them():
    groups = {group for group, _ in table_of_ops(os.environ["OPS_MD"])}
    stray = {f for f in cases.__all__ if not any(f == g or f.startswith(f"{g}_") for g in groups)}
    assert stray == set()


def test_converters_of_onnx_chainer_are_counted(text):
    """That each has a case is tested in python_client/tests_chainer."""
    import onnx_chainer  # which imports Chainer: not in the other tests

    sets = f"{onnx_chainer.MINIMUM_OPSET_VERSION} to {onnx_chainer.MAXIMUM_OPSET_VERSION}"
    assert f"each of its {len(onnx_chainer.mapping.converters)} converters" in text
    assert f"operator sets {sets}" in text


def test_dtypes_are_named_shortly():
    def named(*dtypes):
        return dtypes_of([Row("relu", None, None, [(1,)] * len(dtypes), dtypes)])

    assert named(ALL) == "bool, integers, floats"
    assert named(["float32", "float64"], ["int32"]) == "int32, float32, float64"
    assert dtypes_of([Row("zeros", None, None, [])]) == "no arrays"


def test_table_of_the_array_api_suite(tmp_path):
    junit = tmp_path / "junit.xml"
    junit.write_text(
        """<testsuites><testsuite>
        <testcase classname="array_api_tests.test_linalg" name="test_inv"/>
        <testcase classname="array_api_tests.test_linalg" name="test_det"><failure/></testcase>
        <testcase classname="array_api_tests.test_fft" name="test_fft"><skipped/></testcase>
        <testcase classname="array_api_tests.test_fft.TestX" name="test_y"><error/></testcase>
        </testsuite></testsuites>"""
    )
    assert table(junit).splitlines()[2:] == [
        "| test_fft | 0 | 1 | 1 |",
        "| test_linalg | 1 | 1 | 0 |",
        "| all | 1 | 2 | 1 |",
    ]
