"""prepare.py DIR: makes a copy of the package chx, in DIR/chx, easier to read for mkdocstrings."""

import ast
import sys
from pathlib import Path

from python_pages import definitions, parse


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
        tree = parse(stage / f"chx/{stub}.pyi")
        defined = [n for n, origin in definitions(tree.body).items() if origin in ("", "=")]
        listed = ", ".join(f"{n} as {n}" for n in defined if n not in own | {"ndarray_ops": ""})
        path.write_text(
            text.replace(f"from chx.{stub} import *", f"from chx.{stub} import {listed}")
        )


def end_overloads(path):
    """Makes the last overload of each function in a stub the function, which mkdocstrings shows."""
    lines = path.read_text().splitlines()
    last = {}
    for owner in [n for n in ast.parse("\n".join(lines)).body if isinstance(n, ast.ClassDef)]:
        for node in owner.body:
            for decorator in getattr(node, "decorator_list", []):
                if ast.unparse(decorator) == "overload":
                    last[owner.name, node.name] = decorator.lineno
    dropped = set(last.values())
    kept = [line for number, line in enumerate(lines, 1) if number not in dropped]
    path.write_text("\n".join(kept) + "\n")


if __name__ == "__main__":
    name_operators(Path(sys.argv[1]))
    end_overloads(Path(sys.argv[1]) / "chx/_core.pyi")
