#!/usr/bin/python3
"""Prints a line `VERSION EXECUTABLE INCLUDE` for each CPython that chx supports and that is here.

An interpreter counts if its headers are there too. Looked for are Debian's, /usr/local's and pyenv's,
and the folders in $CHXD_PYTHONS (separated by colons), each of which has python3.N or bin/python3.N.
"""

import glob
import os
import subprocess
import sys

SUPPORTED = ["3.9", "3.10", "3.11", "3.12", "3.13"]

# The last line: a build without a global interpreter lock has an ABI of its own.
_ASK = """
import sys, sysconfig
print("%d.%d" % sys.version_info[:2], sys.implementation.name, sysconfig.get_path("include"),
      sysconfig.get_config_var("Py_GIL_DISABLED") or 0)
"""


def _newest_first(paths):
    return sorted(paths, key=lambda p: [int(n) for n in p.split("/")[-3].split(".")], reverse=True)


def candidates(version):
    """Where the interpreter may be, the preferred place first."""
    name = f"python{version}"
    for folder in os.environ.get("CHXD_PYTHONS", "").split(":"):
        if folder:
            yield from (f"{folder}/{name}", f"{folder}/bin/{name}")
    yield from (f"/usr/bin/{name}", f"/usr/local/bin/{name}")
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    released = glob.glob(f"{glob.escape(pyenv)}/versions/{version}.*/bin/{name}")
    yield from _newest_first(p for p in released if p.split("/")[-3].replace(".", "").isdigit())


def include_folder(executable, version):
    """Its headers' folder; None if this is no CPython of that version, or has no headers."""
    done = subprocess.run(
        [executable, "-Ic", _ASK], capture_output=True, text=True, check=False, timeout=60
    )
    found, _, rest = done.stdout.strip().partition(" ")
    implementation, _, rest = rest.partition(" ")
    include, _, without_lock = rest.rpartition(" ")
    if (found, implementation, without_lock) != (version, "cpython", "0"):
        return None
    return include if os.path.exists(f"{include}/Python.h") else None


def main():
    for version in SUPPORTED:
        for executable in candidates(version):
            include = os.access(executable, os.X_OK) and include_folder(executable, version)
            if include:
                print(version, executable, include)
                break
    return 0


if __name__ == "__main__":
    sys.exit(main())
