"""The Dockerfiles: parsed and linted. There is no Docker here, so they are not built."""

import json
import pathlib
import re
import subprocess
import sys

import pytest
import yaml
from dockerfile_parse import DockerfileParser

DEPLOY = pathlib.Path(__file__).parent
HADOLINT = pathlib.Path(sys.executable).with_name("hadolint")


def hadolint(text):
    """The list of findings."""
    done = subprocess.run(
        [HADOLINT, "--no-color", "--format=json", "-"],
        input=text,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


class Stage:
    """One FROM, and the instructions after it."""

    def __init__(self, source):
        self.image, _, self.name = re.fullmatch(r"(\S+)( AS (\S+))?", source).groups()
        self.instructions = []

    def all(self, instruction):
        return [value for name, value in self.instructions if name == instruction]

    def last(self, instruction):
        return self.all(instruction)[-1]


@pytest.fixture(params=["cpu", "cuda"])
def variant(request):
    return request.param


@pytest.fixture
def path(variant):
    return DEPLOY / "docker" / f"Dockerfile.{variant}"


@pytest.fixture
def stages(path):
    stages = []
    with path.open("rb") as file:
        for each in DockerfileParser(fileobj=file).structure:
            if each["instruction"] == "FROM":
                stages.append(Stage(each["value"]))
            elif each["instruction"] != "COMMENT":
                stages[-1].instructions.append((each["instruction"], each["value"]))
    return stages


def test_hadolint_finds_nothing(path):
    assert hadolint(path.read_text()) == []


@pytest.mark.parametrize(
    ("text", "broken", "code"),
    [
        ("USER 10001:10001", "USSER 10001", "DL1000"),
        ("FROM debian:12 AS build", "FROM debian AS build", "DL3006"),
        ('ENTRYPOINT ["/usr/local/bin/chxd"]', "ENTRYPOINT chxd", "DL3025"),
        ("RUN tools/setup.sh", 'RUN tools/setup.sh && echo $UNSET"', "DL1000|SC\\d+"),
    ],
)
def test_hadolint_finds_mistakes(path, text, broken, code):
    content = path.read_text()
    assert text in content
    found = hadolint(content.replace(text, broken))
    assert any(re.fullmatch(code, each["code"]) for each in found), found


def test_images_have_a_version_and_no_host(stages):
    for stage in stages:
        assert re.fullmatch(r"(nvidia/)?[a-z]+:[\w.-]+", stage.image)
        assert not stage.image.endswith(":latest")


def test_stages(stages, variant):
    """The last holds what the one before it built, and no compiler."""
    assert len(stages) > 1
    names = [stage.name for stage in stages]
    for i, stage in enumerate(stages):
        for source in re.findall(r"--from=(\S+)", " ".join(stage.all("COPY"))):
            assert source in names[:i]
    build, final = stages[-2:]
    assert "tools/ tools/" in build.all("COPY") and "tools/setup.sh" in build.all("RUN")
    command = build.last("RUN")
    assert "bazel build --config=release" in command and "//:chxd" in command
    assert ("--config=cuda" in command) == (variant == "cuda")
    assert ("libchxd_cuda.so /out/bin/libchxd_cuda.so" in command) == (variant == "cuda")
    assert final.all("COPY") == ["--from=build /out/ /usr/local/"]
    assert not any("apt-get" in run for run in final.all("RUN"))


def test_images_have_onednn_and_gloo(stages):
    """And what they need, where the final stage's loader finds it."""
    build, final = stages[-2:]
    found = set(re.findall(r"/usr/lib/x86_64-linux-gnu/(\S+)", build.last("RUN")))
    onednn = {"libdnnl.so.2", "libgomp.so.1", "libOpenCL.so.1"}
    gloo = {"libhiredis.so.0.14", "libibverbs.so.1", "libnl-3.so.200", "libnl-route-3.so.200"}
    assert found == onednn | gloo
    assert "/usr/lib/libgloo.so.0" in build.last("RUN")
    assert "libchxd_gloo.so /out/lib/chxd/libchxd_gloo.so" in build.last("RUN")
    assert "-t /out/lib /usr/lib" in build.last("RUN")
    assert final.last("RUN").startswith("ldconfig")


def test_final_stage(stages, variant):
    final = stages[-1]
    assert final.last("STOPSIGNAL") == "SIGTERM"
    [program] = json.loads(final.last("ENTRYPOINT"))
    assert program == "/usr/local/bin/chxd"
    flags = dict(flag[2:].split("=", 1) for flag in json.loads(final.last("CMD")))
    assert flags["devices"] == ("native:0,cuda:0" if variant == "cuda" else "native:0")
    probe = json.loads(final.last("HEALTHCHECK").split(" CMD ")[1])
    assert probe == [program, "--health", flags["listen"]]
    # The socket's folder is all that must be writable.
    assert flags["listen"].startswith("unix:" + json.loads(final.last("VOLUME"))[0] + "/")


def test_user_is_kubernetes_user(stages):
    manifest = yaml.safe_load((DEPLOY / "kubernetes/base/statefulset.yaml").read_text())
    context = manifest["spec"]["template"]["spec"]["securityContext"]
    assert stages[-1].last("USER") == f"{context['runAsUser']}:{context['runAsGroup']}"


def test_build_context_leaves_out_what_is_not_source(path):
    ignored = path.with_name(path.name + ".dockerignore").read_text().split("\n")
    assert {".git", ".bazel", "bazel-*", "user.bazelrc"} <= set(ignored)
