#!/usr/bin/python3
"""Fails if a file includes what its folder may not: the picture in docs/architecture.md as a table.

Called at build time on the files of each library, by chx_cc_library.
"""

import re
import sys

# Folder -> folders whose headers it may include. The longest prefix of a file's path counts.
# Generated code counts as part of the folder it is generated into.
ALLOWED = {
    "base": [],
    "ops": ["base"],
    "proto": ["base", "ops"],
    "server/engine": ["base", "ops"],
    "server/kernels": ["base", "ops"],
    "server/native": ["base", "ops", "server/engine", "server/kernels"],
    "server/cuda": ["base", "ops", "server/engine", "server/kernels"],
    # proto/command.h only: see docs/decisions/0001.
    "server/autograd": ["base", "ops", "proto/command.h", "server/engine"],
    "server/session": ["base", "ops", "proto/command.h", "server/engine", "server/autograd"],
    "server/rpc": ["base", "ops", "proto", "server/session", "server/engine/devices.h"],
    "server": ["base", "ops", "server/engine", "server/native", "server/rpc", "server/session"],
    "client": ["base", "ops", "proto"],
    "python_client": ["base", "ops", "client"],
    "tests": ["base", "ops", "proto", "server", "client"],
}

OURS = {path.split("/")[0] for path in ALLOWED}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def folder_of(path):
    """The longest entry of the table that the path lies in, or None."""
    inside = [folder for folder in ALLOWED if path.startswith(folder + "/")]
    return max(inside, key=len, default=None)


def violations(path, text):
    """The includes in `text`, a file at `path`, that break the table."""
    folder = folder_of(path)
    if folder is None:
        return []
    bad = []
    for included in INCLUDE.findall(text):
        if included.split("/")[0] not in OURS:
            continue
        target = folder_of(included)
        if target != folder and included not in ALLOWED[folder] and target not in ALLOWED[folder]:
            bad.append(f"{path}: {folder}/ may not include {included}")
    return bad


def main():
    bad = []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            bad += violations(re.sub(r"^bazel-out/[^/]+/bin/", "", path), file.read())
    if bad:
        sys.exit("\n".join(bad))
    print("// Includes checked.")


if __name__ == "__main__":
    main()
