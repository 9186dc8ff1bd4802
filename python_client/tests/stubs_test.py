"""The stubs, which are generated but for that of the compiled module, name what there is."""

import ast
import importlib
import inspect
import os

import chx
import pytest
from chx._overrides import OVERRIDES
from chx.optimizers._rules import RULES

HERE = os.path.dirname(chx.__file__)


def stub(name):
    with open(os.path.join(HERE, name)) as file:
        return ast.parse(file.read())


def names(body):
    """Names that a stub or a module defines or exports."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield from (a.asname for a in node.names if a.asname)
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield from (t.id for t in node.targets if isinstance(t, ast.Name))
        elif isinstance(node, ast.If | ast.With):
            yield from names(node.body)


def public(all_names):
    return {n for n in all_names if not n.startswith("_")}


def test_stubs_are_generated():
    found = {
        os.path.relpath(os.path.join(folder, file), HERE)
        for folder, _, files in os.walk(HERE)
        for file in files
        if file.endswith(".pyi")
    }
    operators = {"_ops.pyi", "_distributed_ops.pyi", "_linalg_ops.pyi", "_optimizers_ops.pyi"}
    modules = ("__init__", "chainerx/__init__", "linalg", "optimizers/__init__")
    copies = {f"{module}.pyi" for module in modules}
    assert found == {"_core.pyi"} | operators | copies
    for name in copies:
        with open(os.path.join(HERE, name)) as a, open(os.path.join(HERE, name[:-1])) as b:
            assert a.read() == b.read()


def test_module():
    operators = public(names(stub("_ops.pyi").body)) - {"ndarray_ops"}
    assert operators == set(chx._core._operators)
    assert public(names(stub("__init__.pyi").body)) | operators == public(vars(chx)) - {"chainerx"}


def test_overrides():
    assert set(OVERRIDES) <= set(chx._core._operators)
    for name in chx._core._operators:
        assert getattr(chx, name) is OVERRIDES.get(name, getattr(chx._core, name))


def test_chainerx():
    for name in ("chainerx/__init__.pyi", "chainerx/testing/__init__.py"):
        module = importlib.import_module(f"chx.{os.path.dirname(name).replace('/', '.')}")
        found = public(names(stub(name).body))
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


def test_optimizers_have_the_hyperparameters_of_their_rules():
    classes = [n for n in stub("optimizers/_optimizers.py").body if isinstance(n, ast.ClassDef)]
    assert {c.name for c in classes} < set(chx.optimizers.__all__)
    for node in classes:
        (arguments,) = (
            n.args
            for n in ast.walk(node)
            if isinstance(n, ast.FunctionDef) and n.name == "__init__"
        )
        written = {
            a.arg: ast.literal_eval(default)
            for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        }
        optimizer = getattr(chx.optimizers, node.name)
        defaults = RULES[optimizer.rule].defaults
        assert written == {k: v for k, v in defaults.items() if k not in optimizer._fixed}


def test_optimizers_are_those_of_cpp():
    table = chx._core._optimizers()
    classes = {n for n, o in vars(chx.optimizers).items() if getattr(o, "rule", None)}
    assert classes == set(table)
    for name, (doc, rule, fixed) in table.items():
        optimizer = getattr(chx.optimizers, name)
        assert (optimizer.rule, optimizer._fixed) == (rule, fixed)
        assert optimizer.__doc__.startswith(doc.splitlines()[0])


def test_ndarray():
    classes = {
        n.name: n for n in stub("_core.pyi").body + stub("_ops.pyi").body if hasattr(n, "name")
    }
    found = {*names(classes["ndarray"].body), *names(classes["ndarray_ops"].body)}
    assert public(found) == public(dir(chx.ndarray))
    assert {n for n in found if n.startswith("__")} - {"__iter__"} <= set(dir(chx.ndarray))


def test_core():
    """What the package calls of the compiled module is there, as its stub says."""
    found = {n for n in names(stub("_core.pyi").body) if not n.startswith("__")}
    assert found - {"_Index", "_Operand", "_session", "_sharing"} <= set(dir(chx._core))


@pytest.mark.parametrize(("file", "module"), [("_ops", chx._core), ("_linalg_ops", chx.linalg)])
def test_operators_take_what_their_stubs_say(file, module):
    for node in stub(f"{file}.pyi").body:
        if isinstance(node, ast.FunctionDef):
            expected = list(inspect.signature(getattr(module, node.name)).parameters)
            assert [a.arg for a in node.args.args] == expected


def test_docstrings_of_the_compiled_module():
    """The stub repeats them: editors and the documentation's site read stubs."""

    def check(body, owner):
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                found = getattr(owner, node.name)
                if isinstance(node, ast.ClassDef):
                    check(node.body, found)
                decorators = {ast.unparse(d).split(".")[-1] for d in node.decorator_list}
                if decorators.isdisjoint({"overload", "setter"}) or ast.get_docstring(node):
                    assert ast.get_docstring(node) == inspect.cleandoc(found.__doc__), node.name

    check(stub("_core.pyi").body, chx._core)
