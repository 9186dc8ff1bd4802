"""ONNX's own test-suite by chx.onnx.load: what passes, and docs/onnx.md, which says so."""

import os
import pathlib

import chx
import chx.onnx
import pytest
import suite

CASES = [(kind, name) for kind in suite.KINDS for name in suite.cases(kind)[0]]


def run(case):
    """All data sets of a case."""
    model = chx.onnx.load(suite.model_of(case))
    for inputs, outputs in suite.data_sets(case):
        found = model(*inputs)
        found = found if isinstance(found, tuple) else (found,)
        for got, want in zip(found[: len(outputs)], outputs, strict=True):
            yield got, want, case


@pytest.mark.parametrize("kind, name", [c for c in CASES if c[1] not in suite.DIFFERENCES])
def test_a_case(kind, name):
    case = suite.cases(kind)[0][name]
    results = list(run(case))
    assert results
    for got, want, _ in results:
        suite.check(got, want, case.rtol, case.atol)


@pytest.mark.parametrize("kind, name", [c for c in CASES if c[1] in suite.DIFFERENCES])
def test_what_differs_does_so_for_the_reason_that_is_listed(kind, name):
    case, reason = suite.cases(kind)[0][name], suite.DIFFERENCES[name]
    if reason == suite._RANDOM:
        for got, want, _ in run(case):
            assert (str(got.dtype), got.shape) == (str(want.dtype), want.shape)
    elif reason in (suite._HALF, suite._BRAIN):
        rtol = 4e-3 if reason == suite._HALF else 1.6e-2
        for got, want, _ in run(case):
            suite.check(got, want, rtol, rtol / 4)
    else:
        with pytest.raises(chx.NotImplementedError, match="an operator that is known here"):
            list(run(case))


def table():
    """Lines of docs/onnx.md: for each kind the cases, those with dtypes of chx, and those that pass."""
    lines = ["| cases | all | with dtypes of chx | pass | |", "|---|---|---|---|---|"]
    for kind, text in suite.KINDS.items():
        found, count = suite.cases(kind)
        passing = len(found.keys() - suite.DIFFERENCES.keys())
        share = f"{100 * passing / len(found):.1f} %"
        lines.append(f"| {text} | {count} | {len(found)} | {passing} | {share} |")
    return "\n".join(lines)


def reasons():
    counts = {}
    for reason in suite.DIFFERENCES.values():
        counts[reason] = counts.get(reason, 0) + 1
    return "\n".join(f"| {count} | {reason} |" for reason, count in counts.items())


def test_the_list_has_cases_of_the_suite_only():
    assert suite.DIFFERENCES.keys() <= {name for _, name in CASES}


def test_at_least_19_of_20_pass():
    for kind in suite.KINDS:
        found, _ = suite.cases(kind)
        assert len(found.keys() & suite.DIFFERENCES.keys()) <= 0.05 * len(found) or len(found) < 20
    own = [name for kind, name in CASES if kind in ("node", "simple")]
    assert len(suite.DIFFERENCES) <= 0.05 * len(own)


def test_the_documentation_has_the_counts():
    page = pathlib.Path(os.environ["ONNX_MD"]).read_text(encoding="utf-8")
    assert table() in page, f"docs/onnx.md expects\n{table()}"
    assert reasons() in page, f"docs/onnx.md expects\n{reasons()}"
    page = pathlib.Path(os.environ["CONFORMANCE_MD"]).read_text(encoding="utf-8")
    assert table() in page, f"tests/conformance/onnx_suites.md expects\n{table()}"
