"""What gen_ops writes: the page of all operators, and a stub that is valid Python."""

import ast
import os
import pathlib
import re

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


def groups():
    return set(re.findall(r"^## (\w+)$", pathlib.Path(os.environ["DOCS"]).read_text(), re.M))


def test_files_are_named_as_groups_or_parts_of_them():
    files = {pathlib.Path(path).stem for path in os.environ["GROUP_FILES"].split()}
    files.remove("register_groups")
    assert groups() <= files
    stray = {f for f in files if not any(f == g or f.startswith(f"{g}_") for g in groups())}
    assert stray == set()


def signature(function):
    return ast.unparse(function.args)


def test_the_page_has_the_functions_of_the_stub_and_what_they_take(stub):
    page = pathlib.Path(os.environ["DOCS"]).read_text()
    internal = set(re.findall(r"^\| \[`(\w+)`.*\(#\w+\) \*internal\*", page, re.M))
    sections = dict(re.findall(r"^### (\w+)\n\n`([\w.]+\(.*\))`\n\n\S", page, re.M))
    listed = set(re.findall(r"^\| \[`(\w+)`[],]", page, re.M))
    assert listed == set(sections)
    functions, _, _ = stub
    public = {name for name, text in sections.items() if "." not in text.split("(")[0]} - internal
    assert public == set(functions)
    for name in public:
        given = [a.arg for a in functions[name].args.args if a.arg != "device"]
        call = ast.parse(sections[name], mode="eval").body
        shown = [a.id for a in call.args] + [keyword.arg for keyword in call.keywords]
        assert given == shown, name


def test_functions_have_real_signatures(stub):
    functions, aliases, _ = stub
    assert signature(functions["add"]) == (
        "x1: Operand, x2: Operand, *, out: ndarray | None=None, where: Any=True"
    )
    assert signature(functions["linear"]).startswith("x: Operand, w: Operand, b: Operand | None")
    assert signature(functions["sum"]) == (
        "a: ndarray, axis: int | Sequence[int] | None=None, keepdims: bool=False, "
        "dtype: DtypeLike | None=None, *, out: ndarray | None=None, where: Any=True, "
        "initial: Any=None"
    )
    assert signature(functions["concatenate"]) == ("arrays: Sequence[Any], axis: int | None=0")
    assert signature(functions["take"]) == (
        "a: Operand, indices: ndarray | Indices, axis: int | None=None, "
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
