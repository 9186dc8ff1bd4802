"""The stubs name what there is, no more and no less."""

import ast
import importlib
import inspect
import os

import chx
import pytest

HERE = os.path.dirname(chx.__file__)


def stub(name):
    with open(os.path.join(HERE, name)) as file:
        return ast.parse(file.read())


def names(body):
    """Names that a stub defines or exports."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield from (a.asname for a in node.names if a.asname)
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield from (t.id for t in node.targets)


def public(all_names):
    return {n for n in all_names if not n.startswith("_")}


def test_module():
    operators = public(names(stub("_ops.pyi").body)) - {"ndarray_ops"}
    assert operators == set(chx._core._operators)
    assert public(names(stub("__init__.pyi").body)) | operators == public(vars(chx)) - {"chainerx"}


def test_chainerx():
    for name in ("chainerx", "chainerx.testing"):
        module = importlib.import_module(f"chx.{name}")
        found = public(names(stub(f"{name.replace('.', '/')}/__init__.pyi").body))
        assert found and found <= public(vars(module))


@pytest.mark.parametrize("name", ["linalg", "optimizers"])
def test_submodule(name):
    operators = set(names(stub(f"_{name}_ops.pyi").body))
    assert operators == set(chx._core._submodules[name])
    assert operators <= set(vars(getattr(chx, name)))


def test_optimizers():
    found = set(names(stub("optimizers/__init__.pyi").body))
    operators = public(names(stub("_optimizers_ops.pyi").body))
    assert public(found) | operators == set(chx.optimizers.__all__)


@pytest.mark.parametrize("name", ["__init__", "linalg"])
def test_array_api(name):
    module = chx.array_api if name == "__init__" else chx.array_api.linalg
    hidden = {"math", "np"}  # what the implementation imports
    types = {"ndarray", "np", "NamedTuple"}
    found = public(names(stub(f"array_api/{name}.pyi").body))
    assert found == public(vars(module)) - hidden - types
    for node in stub(f"array_api/{name}.pyi").body:
        if isinstance(node, ast.FunctionDef):
            signature = inspect.signature(getattr(module, node.name))
            arguments = node.args
            assert [p.name for p in signature.parameters.values() if p.kind == p.KEYWORD_ONLY] == [
                a.arg for a in arguments.kwonlyargs
            ]
            assert [
                p.name for p in signature.parameters.values() if p.kind == p.POSITIONAL_ONLY
            ] == [a.arg for a in arguments.posonlyargs]


def test_ndarray():
    classes = {
        n.name: n for n in stub("_core.pyi").body + stub("_ops.pyi").body if hasattr(n, "name")
    }
    found = {*names(classes["ndarray"].body), *names(classes["ndarray_ops"].body)}
    assert public(found) == public(dir(chx.ndarray))
    assert {n for n in found if n.startswith("__")} - {"__iter__"} <= set(dir(chx.ndarray))


@pytest.mark.parametrize(
    "name",
    [
        "_context",
        "_install",
        "_routines",
        "_along",
        "_async",
        "_einsum",
        "_forms",
        "_functions",
        "_products",
        "_recurrent",
        "_sessions",
        "_support",
        "linalg",
        "random",
        "chainerx",
        "chainerx.random",
        "chainerx.testing.array",
        "chainerx.testing.dtypes",
        "chainerx.testing.helper",
    ],
)
def test_functions_take_what_their_stubs_say(name):
    module = importlib.import_module(f"chx.{name}")
    path = name.replace(".", "/") + ("/__init__" if hasattr(module, "__path__") else "")
    for node in stub(f"{path}.pyi").body:
        if not isinstance(node, ast.FunctionDef):
            continue
        arguments = node.args
        expected = [a.arg for a in arguments.posonlyargs + arguments.args]
        expected += [arguments.vararg.arg] if arguments.vararg else []
        expected += [a.arg for a in arguments.kwonlyargs]
        expected += [arguments.kwarg.arg] if arguments.kwarg else []
        assert list(inspect.signature(getattr(module, node.name)).parameters) == expected


@pytest.mark.parametrize(("file", "module"), [("_ops", chx._core), ("_linalg_ops", chx.linalg)])
def test_operators_take_what_their_stubs_say(file, module):
    for node in stub(f"{file}.pyi").body:
        if isinstance(node, ast.FunctionDef):
            expected = list(inspect.signature(getattr(module, node.name)).parameters)
            assert [a.arg for a in node.args.args] == expected


def test_every_stub_parses():
    for folder, _, files in os.walk(HERE):
        for name in files:
            if name.endswith(".pyi"):
                stub(os.path.join(folder, name))
