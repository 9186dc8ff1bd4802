#!/usr/bin/python3
"""Runs clang-tidy on our own C++ files, and remembers what passed.

A file is looked at again when it, a header of ours that it includes, its compiler options or
.clang-tidy changed. Needs compile_commands.json (tools/compile_commands.py).
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDERS = ("base/", "client/", "ops/", "proto/", "python_client/", "server/")
INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
PASSED = Path("~/.cache/chxd/tidy").expanduser()


class Includes:
    """Our headers, found as the compiler finds them; each is read once."""

    def __init__(self):
        self._read = {}

    def closure(self, path, roots):
        """{path: digest} of a file and of all that it includes, directly or not."""
        seen = {}
        waiting = [path]
        while waiting:
            path = waiting.pop()
            if path in seen:
                continue
            digest, names = self._file(path)
            seen[path] = digest
            candidates = ((root / name for root in roots) for name in names)
            waiting += [
                found for found in (next(filter(Path.exists, c), None) for c in candidates) if found
            ]
        return seen

    def _file(self, path):
        if path not in self._read:
            data = path.read_bytes()
            names = [name.decode() for name in INCLUDE.findall(data)]
            self._read[path] = (hashlib.sha256(data).hexdigest(), names)
        return self._read[path]


def key_of(entry, includes, common):
    """The name under which it's remembered that this file, as it is now, passed."""
    args = entry["arguments"]
    roots = [Path(args[i + 1]) for i, arg in enumerate(args) if arg == "-iquote"]
    files = includes.closure(Path(entry["file"]), roots)
    digests = sorted((path.name, digest) for path, digest in files.items())
    # Not where the output base happens to lie.
    flags = [re.sub(r"/\S*/execroot/", "", arg) for arg in args]
    return hashlib.sha256(repr((common, flags, digests)).encode()).hexdigest()


def check(entry, key, deadline):
    """Whether the file passes; None if there was no time for it."""
    if time.monotonic() > deadline:
        return None
    command = ["clang-tidy", "--quiet", "-p", ".", entry["file"]]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        print(run.stdout or run.stderr, flush=True)
        return False
    (PASSED / key).touch()
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1e9, help="start no file after this time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("paths", nargs="*", help="prefixes of the files to look at (all)")
    options = parser.parse_args()
    os.chdir(Path(__file__).parent.parent)

    deadline = time.monotonic() + options.seconds
    PASSED.mkdir(parents=True, exist_ok=True)
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    common = (Path(".clang-tidy").read_text(encoding="utf-8"), version)
    includes = Includes()
    entries = [
        entry
        for entry in json.loads(Path("compile_commands.json").read_text(encoding="utf-8"))
        if entry["file"].startswith(tuple(options.paths) or FOLDERS)
        and not entry["file"].endswith(("_test.cc", "_benchmark.cc"))
    ]
    if not entries:
        sys.exit("clang-tidy: compile_commands.json names none of these files")
    keys = [key_of(entry, includes, common) for entry in entries]
    new = [(e, k) for e, k in zip(entries, keys, strict=True) if not (PASSED / k).exists()]
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda pair: check(*pair, deadline), new))

    bad = [e["file"] for (e, _), passed in zip(new, results, strict=True) if passed is False]
    left = results.count(None)
    looked = len(new) - left
    print(f"clang-tidy: {len(entries)} files, {looked} looked at, {len(bad)} with findings")
    if left:
        print(f"clang-tidy: out of time, {left} files are left for the next run")
    for path in bad:
        print("  " + path)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
