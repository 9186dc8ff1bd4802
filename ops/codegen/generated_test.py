"""What gen_ops writes: docs/ops.md is up to date, the stub is valid Python with real signatures."""

import ast
import os
import pathlib

import pytest


@pytest.fixture(scope="module")
def stub():
    """The stub's functions by name, and its class of methods."""
    tree = ast.parse(pathlib.Path(os.environ["PYI"]).read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    aliases = {
        node.targets[0].id: node.value.id for node in tree.body if isinstance(node, ast.Assign)
    }
    (methods,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    return functions, aliases, {node.name: node for node in methods.body[1:]}


def signature(function):
    return ast.unparse(function.args)


def test_checked_in_docs_are_what_the_table_gives():
    generated = pathlib.Path(os.environ["DOCS"]).read_text()
    checked_in = pathlib.Path(os.environ["CHECKED_IN"]).read_text()
    assert checked_in == generated, "run: bazel run //ops/codegen:gen_ops -- docs > docs/ops.md"


def test_functions_have_real_signatures(stub):
    functions, aliases, _ = stub
    assert signature(functions["add"]) == "x1: ndarray | Scalar, x2: ndarray | Scalar"
    assert signature(functions["sum"]) == (
        "a: ndarray, axis: int | Sequence[int] | None=None, keepdims: bool=False, "
        "dtype: DtypeLike | None=None"
    )
    assert signature(functions["concatenate"]) == ("arrays: Sequence[ndarray], axis: int | None=0")
    assert signature(functions["take"]) == (
        "a: ndarray, indices: ndarray | Indices, axis: int | None=None, "
        "mode: Literal['raise', 'wrap', 'clip'] | None=None"
    )
    assert signature(functions["zeros"]) == (
        "shape: int | Sequence[int], dtype: DtypeLike='float32', device: DeviceLike=None"
    )
    assert ast.unparse(functions["split"].returns) == "list[ndarray]"
    assert aliases["true_divide"] == "divide"
    assert all(ast.get_docstring(function) for function in functions.values())


def test_internal_operators_are_no_functions(stub):
    functions, _, _ = stub
    assert "relu" in functions
    assert not {"relu_grad", "getitem", "add_", "random_uniform"} & set(functions)


def test_methods_have_self(stub):
    _, _, methods = stub
    assert signature(methods["reshape"]) == "self, newshape: int | Sequence[int]"
    assert "max" in methods
    assert "concatenate" not in methods
