"""What a report of a problem should say about the machine and the versions in use."""

import importlib.metadata
import os
import platform
import subprocess
import sys

import numpy as np

from chx._runtime import daemon
from chx._version import __version__

_PACKAGES = ("chainer", "torch", "jax", "cupy")
_SECRET = {"CHX_TOKEN"}


def _version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _daemon() -> dict[str, str]:
    """The daemon that connect() would start: where it is, and what can be loaded beside it."""
    try:
        path = daemon.find_chxd()
    except FileNotFoundError:
        return {"chxd": "not found"}
    run = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    folder = os.path.dirname(path)
    above = os.path.dirname(folder)
    places = [folder, os.path.join(above, "lib", "chxd")]
    places.append(os.path.join(os.path.dirname(above), "chx_cuda"))  # of the package chx-cuda
    plugins = [os.path.join(place, "libchxd_cuda.so") for place in places]
    found = [plugin for plugin in plugins if os.path.exists(plugin)]
    return {
        "chxd": f"{run.stdout.strip() or 'does not run'} ({path})",
        "CUDA plug-in": found[0] if found else "not found",
    }


def versions() -> dict[str, str]:
    """What show_versions() prints, by name."""
    cores = len(os.sched_getaffinity(0))
    environment = [
        f"{name}={'(set)' if name in _SECRET else value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(("CHX_", "CHAINERX_"))
    ]
    return {
        "chx": __version__,
        **_daemon(),
        "Python": f"{platform.python_version()} ({sys.executable})",
        "NumPy": np.__version__,
        **{package: _version_of(package) for package in _PACKAGES},
        "platform": platform.platform(),
        "CPU cores": f"{cores} of {os.cpu_count()} for this process",
        "environment": ", ".join(environment) or "nothing of CHX_*",
    }


def show_versions() -> None:
    """Prints the versions of chx, its daemon and related packages, for reports of problems.

    Starts no daemon and opens no session. The token in $CHX_TOKEN is not shown.
    """
    found = versions()
    width = max(map(len, found))
    for name, text in found.items():
        print(f"{name:{width}}  {text}")
