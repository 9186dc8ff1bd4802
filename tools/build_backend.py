"""`pip install .` and `pip install chx-VERSION.tar.gz`: a PEP 517 backend that calls Bazel.

It needs what tools/setup.sh installs: Bazel, a C++ compiler, the libraries of README.md. The wheel
is for this system only. $CHXD_BAZEL_OPTIONS replaces the release configuration.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def _version():
    text = (ROOT / "python_client/chx/_version.py").read_text()
    return re.search(r'__version__ = "(.*)"', text)[1]


def _is_unpacked_sdist():
    return (ROOT / "PKG-INFO").exists()


def _sources():
    """Paths below the root: what git knows; of an unpacked source distribution everything."""
    if _is_unpacked_sdist():
        files = (p.relative_to(ROOT) for p in ROOT.rglob("*") if p.is_file())
        return sorted(str(p) for p in files if p.parts[0] not in (".bazel", "PKG-INFO"))
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted(f for f in listed.split("\0") if f and (ROOT / f).is_file())


def _bazel(output_base, *arguments):
    """In a temporary folder of pip's, nothing is to stay: neither a server nor its outputs."""
    command = os.environ.get("BAZEL", "bazel").split()
    if output_base is not None:
        command += [f"--output_base={output_base}", "--max_idle_secs=15"]
    subprocess.run([*command, *arguments], cwd=ROOT, check=True)


def _build(wheel_directory, output_base):
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    # So that this Python is found, wherever it is.
    os.environ["CHXD_PYTHONS"] = os.path.join(sys.base_prefix, "bin")
    module = "chx/_core.so" if version == "3.11" else f"{version}/chx/_core.so"
    options = os.environ.get("CHXD_BAZEL_OPTIONS", "--config=release").split()
    targets = ["wheel_stubs", module]
    targets = [f"//python_client:{target}" for target in targets]
    targets += ["//server:chxd", "//server/gloo:libchxd_gloo.so"]
    try:
        _bazel(output_base, "build", *options, *targets)
        pack = [str(ROOT / "tools/pack_wheel.sh"), version, wheel_directory, sys.executable]
        subprocess.run(pack, cwd=ROOT, check=True)
    finally:
        if output_base is not None:
            _bazel(output_base, "shutdown")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Builds by Bazel and packs; returns the wheel's file name."""
    wheels = Path(wheel_directory).resolve()
    before = set(wheels.glob("*.whl"))
    if _is_unpacked_sdist():
        output_base = tempfile.mkdtemp(prefix="chx-bazel-")
        try:
            _build(str(wheels), output_base)
        finally:
            subprocess.run(["chmod", "-R", "u+w", output_base], check=False)
            shutil.rmtree(output_base, ignore_errors=True)
    else:
        _build(str(wheels), None)
    return (set(wheels.glob("*.whl")) - before or set(wheels.glob("chx-*.whl"))).pop().name


def build_sdist(sdist_directory, config_settings=None):
    """The sources and PKG-INFO; returns the archive's file name."""
    name = f"chx-{_version()}"
    with tempfile.TemporaryDirectory() as folder:
        info = Path(folder) / "PKG-INFO"
        info.write_text(
            f"Metadata-Version: 2.1\nName: chx\nVersion: {_version()}\n"
            "Summary: NumPy-like arrays with gradients, held by a chxd daemon\n"
            "License: MIT\nRequires-Python: >=3.9,<3.14\n"
        )
        with tarfile.open(Path(sdist_directory) / f"{name}.tar.gz", "w:gz") as archive:
            archive.add(info, f"{name}/PKG-INFO")
            for path in _sources():
                archive.add(ROOT / path, f"{name}/{path}")
    return f"{name}.tar.gz"
