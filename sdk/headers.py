#!/usr/bin/python3
"""Lays out the public headers as users include them: client/array.h becomes chx/array.h.

headers.py OUT FILE...: writes them below the folder OUT. Other folders of this project keep their
names: ops/dtype.h becomes chx/ops/dtype.h. Fails if a header includes what is neither public, nor
Abseil's, nor the standard library's.
"""

import pathlib
import re
import sys

INCLUDE = re.compile(r'^(\s*#\s*include\s+)(["<])([^">]+)[">]', re.MULTILINE)
STANDARD = re.compile(r"[a-z_]+")


def source_path(path):
    """The path of a source or a generated file inside the project."""
    return re.sub(r"^(bazel-out/[^/]+/bin/)?(external/[^/]+/)?", "", path)


def public_path(path):
    """The path by which users include it."""
    if "/include/chx/" in path:  # has it already
        return path.split("/include/")[1]
    return "chx/" + path.removeprefix("client/")


def rewrite(path, text, public):
    """The header's text with the names by which others include its includes."""

    def include(match):
        start, _, name = match.groups()
        if name in public:
            return f'{start}"{public_path(name)}"'
        if name in {public_path(other) for other in public}:
            return match.group(0)
        if not name.startswith("absl/") and not STANDARD.fullmatch(name):
            sys.exit(f"{path}: a public header may not include {name}, which is not public")
        return match.group(0)

    return INCLUDE.sub(include, text)


def main():
    out = pathlib.Path(sys.argv[1])
    files = {source_path(path): path for path in sys.argv[2:]}
    for path, file in files.items():
        target = out / public_path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = pathlib.Path(file).read_text(encoding="utf-8")
        target.write_text(rewrite(path, text, files), encoding="utf-8")


if __name__ == "__main__":
    main()
