"""No modules of the package import each other, at their top or inside of functions."""

import ast
import os

import chx

HERE = os.path.dirname(chx.__file__)


def module_paths():
    """{name: path} of the package's modules, of which the compiled one imports nothing."""
    found = {}
    for folder, _, files in os.walk(HERE):
        for file in files:
            stem, suffix = os.path.splitext(file)
            if suffix in (".py", ".so"):
                path = os.path.relpath(os.path.join(folder, stem), os.path.dirname(HERE))
                name = path.replace(os.sep, ".").removesuffix(".__init__")
                found[name] = os.path.join(folder, file)
    return found


class Imports(ast.NodeVisitor):
    """Collects what a module imports when it is imported or its functions are called."""

    def __init__(self, modules):
        self.modules = modules
        self.found = set()

    def visit_If(self, node):
        # What is there for type checkers only is never imported.
        if ast.unparse(node.test) in ("TYPE_CHECKING", "_typing.TYPE_CHECKING"):
            for other in node.orelse:
                self.visit(other)
        else:
            self.generic_visit(node)

    def visit_Import(self, node):
        self.found.update(alias.name for alias in node.names)

    def visit_ImportFrom(self, node):
        assert node.level == 0, "imports in the package are absolute"
        for alias in node.names:
            submodule = f"{node.module}.{alias.name}"
            self.found.add(submodule if submodule in self.modules else node.module)


def packages_around(name):
    while name := name.rpartition(".")[0]:
        yield name


def graph(modules):
    """{name: the package's modules that it imports}."""
    edges = {name: set() for name in modules}
    for name, path in modules.items():
        if not path.endswith(".py"):
            continue
        with open(path) as file:
            imports = Imports(modules)
            imports.visit(ast.parse(file.read()))
        for imported in imports.found & modules.keys():
            edges[name].add(imported)
            # Python imports the packages around it first; those around both have begun already.
            edges[name].update({*packages_around(imported)} - {name, *packages_around(name)})
        edges[name].discard(name)
    return edges


def cycle_in(edges):
    """The names along a cycle, or an empty list."""
    done, path = set(), []

    def visit(name):
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        path.append(name)
        for imported in sorted(edges[name]):
            if found := visit(imported):
                return found
        path.pop()
        done.add(name)
        return []

    for name in sorted(edges):
        if found := visit(name):
            return found
    return []


def test_the_check_finds_cycles():
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_the_package_has_no_cycle():
    edges = graph(module_paths())
    assert {"chx._core", "chx._numpy.creation"} < edges["chx"]
    assert " -> ".join(cycle_in(edges)) == ""
