"""The pages of the Python API: a page for each subject, from the imports of chx/__init__.py.

Nothing is imported: names are read from the sources, and mkdocstrings reads their docstrings. A name
that no page below claims comes on the page "Further functions", so none is ever missing.
"""

import ast
import re
from dataclasses import dataclass

FOREIGN = {"numpy", "math"}


@dataclass
class Page:
    name: str
    title: str
    modules: tuple = ()  # whose functions and classes are here, without "chx."
    groups: tuple = ()  # of operators
    names: tuple = ()  # of the compiled module


PAGES = [
    Page("sessions", "Sessions", ("_runtime.connection", "_runtime.session", "_runtime.asynchronous", "_runtime.versions", "_config")),
    Page("arrays", "Arrays", ("_numpy.transfer",), names=("ndarray",)),
    Page("devices", "Devices and contexts", ("_runtime.devices", "_runtime.context", "_install"), names=("Device", "get_default_device", "set_default_device", "is_available")),
    Page("autograd", "Gradients", ("_autograd.backward", "_autograd.modes", "_autograd.gradient_check")),
    Page("errors", "Exceptions"),
    Page("creation", "Creating arrays", ("_numpy.creation",), ("creation", "random")),
    Page("manipulation", "Shapes, joining and splitting", ("_numpy.manipulation", "_numpy.padding"), ("manipulation", "joining")),
    Page("indexing", "Indexing", ("_numpy.indexing", "_numpy.index_arrays"), ("indexing",)),
    Page("mathematics", "Mathematics", ("_numpy.mathematics", "_numpy.calculus", "_numpy.polynomials", "_numpy.convolution"), ("arithmetic", "math")),
    Page("logic", "Comparison and logic", ("_numpy.logic",), ("comparison",)),
    Page("statistics", "Reductions and statistics", ("_numpy.statistics", "_numpy.histograms"), ("reduction", "statistics")),
    Page("sorting", "Sorting, searching and sets", ("_numpy.sorting", "_numpy.sets"), ("sorting",)),
    Page("products", "Products of arrays", ("_numpy.products", "_numpy.einsum"), ("linalg",)),
    Page("networks", "Neural networks", ("_recurrent",), ("activation", "convolution", "pooling", "normalization", "loss", "recurrent", "sequences")),
    Page("files", "Files and dtypes", ("_numpy.io", "_numpy.dtypes", "_numpy.functional")),
]  # fmt: skip

MODULES = {
    "linalg": "Matrix decompositions",
    "random": "Random numbers",
    "optimizers": "Optimizers",
    "kernels": "Kernels of your own",
    "array_api": "The array API standard's names",
    "chainer": "The adapter of Chainer",
}


def parse(path):
    return ast.parse(path.read_text())


def definitions(body):
    """{name: where it comes from} of public names: a module's name, "" for the module itself."""
    found = {}
    for node in body:
        if isinstance(node, ast.ImportFrom):
            found |= {a.asname or a.name: node.module for a in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = ""
        elif isinstance(node, ast.Assign):
            targets = [t for t in node.targets if isinstance(t, ast.Name)]
            found |= {t.id: "=" for t in targets}
        elif isinstance(node, ast.If):
            found |= definitions(node.body)
    return {n: m for n, m in found.items() if not n.startswith("_") and n != "*"}


def name_operators(stage):
    """Writes out `from chx._ops import *`, which would bring what a module has of its own, too."""
    for name, stub in (
        ("__init__", "_ops"),
        ("linalg", "_linalg_ops"),
        ("optimizers/__init__", "_optimizers_ops"),
    ):
        path = stage / f"chx/{name}.py"
        path.with_suffix(".pyi").unlink(missing_ok=True)
        text = path.read_text()
        own = definitions(ast.parse(text).body)
        body = parse(stage / f"chx/{stub}.pyi").body
        defined = [n.name for n in body if isinstance(n, ast.FunctionDef)]
        listed = ", ".join(f"{n} as {n}" for n in defined if n not in own)
        path.write_text(text.replace(f"from chx.{stub} import *", f"from chx.{stub} import {listed}"))


def groups_of(ops):
    """{operator or alias: group} from the text of ops.md."""
    found = {}
    for part in re.split(r"^## ", ops, flags=re.MULTILINE)[1:]:
        for row in re.findall(r"^\| \[(.*?)\]\(#", part, re.MULTILINE):
            found |= {name: part.split("\n", 1)[0] for name in re.findall(r"`(?:\w+\.)?(\w+)`", row)}
    return found


def first_paragraph(stage, module):
    """Of a module's docstring."""
    path = stage / ("chx/" + module.replace(".", "/"))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return (ast.get_docstring(parse(path)) or "").split("\n\n")[0]


def section(title, names, package="chx"):
    if not names:
        return ""
    return f"## {title}\n\n" + "".join(f"::: {package}.{name}\n\n" for name in sorted(names))


def constants(names, package="chx"):
    """A table of names that are NumPy's or plain values."""
    if not names:
        return ""
    rows = "".join(f"* <a id='{package}.{n}'></a>`{package}.{n}`\n" for n in sorted(names))
    return f"## Constants and dtypes\n\nNumPy's objects, under the same names.\n\n{rows}\n"


def module_page(stage, module, title):
    """All public names of chx.linalg and so on."""
    package = f"chx.{module}"
    path = stage / "chx" / module
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = parse(path)
    names = definitions(tree.body)
    listed = [n.value for n in ast.walk(tree) if isinstance(n, ast.Assign) and n.targets[0].id == "__all__"] if module == "chainer" else []  # fmt: skip
    if listed:
        names = {n: "" for n in ast.literal_eval(listed[0])}
    values = [n for n, origin in names.items() if origin in FOREIGN or origin == "="]
    text = f"# {title}: {package}\n\n::: {package}\n    options:\n      members: false\n\n"
    own = set(names) - set(values)
    if module == "random":
        rows = ", ".join(
            f"<a id='{package}.{n}'></a>[`{n}`][{package}.RandomState.{n}]" for n in values
        )
        text += f"## Functions of the module\n\nMethods of one `RandomState`: {rows}.\n\n"
        values = []
    text += section("Functions and classes", own, package)
    return text + constants(values, package)


def pages(stage):
    """{URI: text}, the overview first."""
    names = definitions(parse(stage / "chx/__init__.py").body)
    groups = groups_of((stage / "ops.md").read_text())
    operators = {n for n, origin in names.items() if origin == "chx._ops"}
    left = {n for n in names if names[n] not in FOREIGN and names[n] not in ("=", "chx")}
    index = "# Python API\n\n::: chx\n    options:\n      members: false\n\n| page | names |\n|---|---|\n"
    found = {}

    def take(wanted):
        nonlocal left
        wanted &= left
        left -= wanted
        return wanted

    def add(name, title, text, listed, package="chx"):
        nonlocal index
        found[f"python/{name}.md"] = text
        links = ", ".join(f"[`{n}`]({name}.md#{package}.{n})" for n in sorted(listed))
        index += f"| [{title}]({name}.md) | {links} |\n"

    for page in PAGES:
        text, listed = f"# {page.title}\n\n", set()
        if page.names:
            chosen = take(set(page.names))
            text += section("In this module", chosen) if page.modules else section("", chosen)
            listed |= chosen
        if page.name == "errors":
            listed = take({n for n in left if n.endswith("Error")})
            text += section("Exceptions", listed)
        for group in page.groups:
            chosen = take({n for n in operators if groups.get(n) == group})
            reference = f"../operators/{group}.md"
            body = section(f"Operators: {group}", chosen)
            text += body.replace("\n\n", f"\n\nThe [operator reference]({reference}) describes each argument.\n\n", 1)  # fmt: skip
            listed |= chosen
        for module in page.modules:
            chosen = take({n for n in left if names[n] == f"chx.{module}"})
            title = first_paragraph(stage, module).split(". ")[0].rstrip(".").replace("\n", " ")
            text += section(re.sub(r'^NumPy\'s chapter "(.*?)".*', r"\1", title), chosen)
            listed |= chosen
        add(page.name, page.title, text, listed)
    if left:
        add("further", "Further functions", "# Further functions\n\n" + section("Functions", left), left)
    for module, title in MODULES.items():
        add(module, title, module_page(stage, module, title), [])
    values = [n for n, origin in names.items() if origin in FOREIGN or origin == "="]
    add("constants", "Constants", "# Constants\n\n" + constants(values), values)
    return {"python/index.md": index} | found
