"""The pages of the Python API: a page for each subject, from the imports of chx/__init__.py.

Nothing is imported: names are read from the sources, and mkdocstrings reads their docstrings. A name
that no page below claims comes on the page "Further functions", so none is ever missing.
"""

import ast
import re
from dataclasses import dataclass

FOREIGN = {"numpy", "math", "ml_dtypes"}


@dataclass
class Page:
    name: str
    title: str
    sections: dict[str, str]  # heading: modules of chx, groups of operators ("@math"), or names


PAGES = [
    Page(
        "sessions",
        "Sessions",
        {
            "Opening and closing": "_runtime.connection _runtime.session",
            "Waiting in asyncio": "_runtime.asynchronous",
            "Settings and versions": "_config _runtime.versions",
            "Traces": "_runtime.tracing",
        },
    ),
    Page("arrays", "Arrays", {"The array": "ndarray", "Values for NumPy": "_numpy.transfer"}),
    Page(
        "devices",
        "Devices and contexts",
        {
            "Devices": "Device get_default_device set_default_device _runtime.devices",
            "Contexts": "_runtime.context",
            "In place of ChainerX": "_install is_available",
        },
    ),
    Page(
        "autograd",
        "Gradients",
        {
            "Backward": "_autograd.backward",
            "What is recorded": "_autograd.modes",
            "Mixed precision": "_autograd.autocast",
            "Checking gradients": "_autograd.gradient_check",
        },
    ),
    Page("errors", "Exceptions", {"Exceptions": "*Error"}),
    Page(
        "creation",
        "Creating arrays",
        {"Operators": "@creation @random", "Further functions": "_numpy.creation"},
    ),
    Page(
        "manipulation",
        "Shapes, joining and splitting",
        {
            "Shapes": "@manipulation",
            "Joining": "@joining",
            "Further functions": "_numpy.manipulation _numpy.padding",
        },
    ),
    Page(
        "indexing",
        "Indexing",
        {
            "Taking elements": "@indexing _numpy.indexing",
            "Making indices": "_numpy.index_arrays",
        },
    ),
    Page(
        "mathematics",
        "Mathematics",
        {
            "Arithmetic": "@arithmetic _numpy.mathematics",
            "Functions": "@math",
            "Differences and integrals": "_numpy.calculus",
            "Polynomials": "_numpy.polynomials",
            "Convolution": "_numpy.convolution",
        },
    ),
    Page("logic", "Comparison and logic", {"Comparison and logic": "@comparison _numpy.logic"}),
    Page(
        "statistics",
        "Reductions and statistics",
        {
            "Reductions": "@reduction",
            "Statistics": "@statistics _numpy.statistics",
            "Counts": "_numpy.histograms",
        },
    ),
    Page(
        "sorting",
        "Sorting, searching and sets",
        {"Sorting and searching": "@sorting _numpy.sorting", "Sets": "_numpy.sets"},
    ),
    Page("products", "Products of arrays", {"Products": "@linalg _numpy.products _numpy.einsum"}),
    Page(
        "networks",
        "Neural networks",
        {
            "Activations": "@activation",
            "Convolution and pooling": "@convolution @pooling",
            "Normalization": "@normalization",
            "Losses": "@loss",
            "Recurrent networks": "@recurrent @sequences _recurrent",
        },
    ),
    Page(
        "files",
        "Files and dtypes",
        {
            "Files": "_numpy.io",
            "Dtypes": "_numpy.dtypes",
            "Functions of functions": "_numpy.functional",
        },
    ),
]

MODULES = {
    "linalg": "Matrix decompositions",
    "random": "Random numbers",
    "optimizers": "Optimizers",
    "kernels": "Kernels of your own",
    "distributed": "Process groups",
    "runs": "Runs of the daemon's",
    "schedules": "Values that change from step to step",
    "data": "Minibatches",
    "safetensors": "Files of safetensors",
    "admin": "Administration",
    "array_api": "The array API standard's names",
    "chainer": "The adapter of Chainer",
}


def parse(path):
    return ast.parse(path.read_text())


def definitions(body):
    """{name: where it comes from} of public names: a module's name, "" for the module itself."""
    found = {}
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            found |= {a.asname or a.name: node.module for a in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = ""
        elif isinstance(node, ast.Assign):
            targets = [t for t in node.targets if isinstance(t, ast.Name)]
            found |= {t.id: "=" for t in targets}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = "="
        elif isinstance(node, ast.If | ast.With):
            found |= definitions(node.body)
    return {n: m for n, m in found.items() if not n.startswith("_") and n != "*"}


def groups_of(ops):
    """{operator or alias: group} from the text of ops.md."""
    found = {}
    for part in re.split(r"^## ", ops, flags=re.MULTILINE)[1:]:
        for row in re.findall(r"^\| \[(.*?)\]\(#", part, re.MULTILINE):
            found |= {
                name: part.split("\n", 1)[0] for name in re.findall(r"`(?:\w+\.)?(\w+)`", row)
            }
    return found


# Classes of chx.optimizers with methods that are not Optimizer's.
WITH_METHODS = ("GradScaler", "MovingAverage", "Optimizer")


def section(title, names, package="chx"):
    if not names:
        return ""
    text = f"## {title}\n\n"
    for name in sorted(names):
        text += f"::: {package}.{name}\n"
        if package == "chx.optimizers" and name not in WITH_METHODS:
            # Their attributes are the arguments of __init__, the methods are those of Optimizer.
            text += "    options:\n      members: false\n      inherited_members: false\n"
        text += "\n"
    return text


def constants(names, package="chx"):
    """A table of names that are NumPy's or plain values."""
    if not names:
        return ""
    rows = "".join(f"* <a id='{package}.{n}'></a>`{package}.{n}`\n" for n in sorted(names))
    return f"## Constants and dtypes\n\nNumPy's objects, under the same names.\n\n{rows}\n"


def source(stage, module):
    path = stage / "chx" / module
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def exported(tree, module):
    """As definitions(), of the names in __all__ if there is one."""
    names = definitions(tree.body)
    for node in tree.body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return {n: names[n] for n in ast.literal_eval(node.value)}
    return names


def plain(names):
    """Those of NumPy's objects and values."""
    return {n for n, origin in names.items() if origin in FOREIGN or origin == "="}


def module_page(stage, module, title):
    """All public names of chx.linalg and so on: the page, and the names."""
    package = f"chx.{module}"
    names = exported(parse(source(stage, module)), module)
    values = plain(names)
    own = set(names) - values
    text = f"# {title}\n\n::: {package}\n    options:\n      members: false\n\n"
    if module == "random":
        rows = ", ".join(
            f"<a id='{package}.{n}'></a>[`{n}`][{package}.RandomState.{n}]" for n in sorted(values)
        )
        text += f"## Functions of the module\n\nMethods of one `RandomState`: {rows}.\n\n"
        values = set()
    text += section("Functions and classes", own, package)
    return text + constants(values, package)


class Names:
    """The public names of chx, of which pages take some."""

    def __init__(self, stage):
        self.origins = definitions(parse(stage / "chx/__init__.py").body)
        self.groups = groups_of((stage / "ops.md").read_text())
        self.values = plain(self.origins)
        modules = {n for n, origin in self.origins.items() if origin == "chx"}
        self.left = set(self.origins) - self.values - modules

    def take(self, sources):
        found = {n for n in self.left if any(self.matches(n, s) for s in sources.split())}
        self.left -= found
        return found

    def matches(self, name, source):
        origin = self.origins[name]
        if source.startswith("@"):
            return origin == "chx._ops" and self.groups.get(name) == source[1:]
        if source.startswith("*"):
            return name.endswith(source[1:])
        return source == name or origin == f"chx.{source}"


def pages(stage):
    """{URI: text}, the overview first."""
    names = Names(stage)
    rows = []
    found = {}

    def add(name, title, text, listed, package="chx"):
        found[f"python/{name}.md"] = text
        links = ", ".join(f"[`{n}`]({name}.md#{package}.{n})" for n in sorted(listed))
        rows.append(f"| [{title}]({name}.md) | {links} |\n")

    for page in PAGES:
        text, listed = f"# {page.title}\n\n", set()
        groups = re.findall(r"@(\w+)", " ".join(page.sections.values()))
        if groups:
            links = ", ".join(f"[{g}](../operators/{g}.md)" for g in groups)
            text += (
                f"The arguments of operators are described in the operator reference: {links}.\n\n"
            )
        for title, sources in page.sections.items():
            chosen = names.take(sources)
            text += section(title, chosen)
            listed |= chosen
        add(page.name, page.title, text, listed)
    if names.left:
        title = "Further functions"
        add("further", title, f"# {title}\n\n" + section("Functions", names.left), names.left)
    for module, title in MODULES.items():
        text = module_page(stage, module, title)
        add(
            module,
            title,
            text,
            re.findall(rf"^::: chx\.{module}\.(\w+)$", text, re.MULTILINE),
            f"chx.{module}",
        )
    add("constants", "Constants", "# Constants\n\n" + constants(names.values), names.values)
    index = "# Python API\n\n::: chx\n    options:\n      members: false\n      show_root_heading: false\n\n"
    return {"python/index.md": index + "| page | names |\n|---|---|\n" + "".join(rows)} | found
