"""Each block of commands in README.md and deploy/README.md, as it is written there.

The blocks are read from the pages and run by bash, in their order, on a machine of the test's own
(machine.py). chxd, install, openssl, echo, kubectl's rendering and systemd's check of units are
real. What is not is said in stand_in.py: no image is built, no cluster is there, and systemd does
not run. tools/test.sh and tools/demo.sh are run by CI itself, .ci/run, and here only looked up.
"""

import base64
import json
import os
import pathlib
import re
import signal
import stat
import subprocess

import pytest
import yaml

from . import markdown

README = markdown.blocks(pathlib.Path("README.md").read_text())
DEPLOY = markdown.blocks(pathlib.Path("deploy/README.md").read_text())
SOCKET = "unix:/run/chxd/chxd.sock"


def block(blocks, part):
    """The only one with the text `part`."""
    [found] = [each for each in blocks if part in each.text]
    return found.text


def first_line(process, start):
    """The first line of its output that begins so; None if it ends without one."""
    for line in iter(process.stdout.readline, ""):
        if line.startswith(start):
            return line
    return None


def health(here, address, *flags):
    """The exit status of chxd's probe."""
    command = [here.root / ".bazel/bin/server/chxd", "--health", address, *flags]
    return subprocess.run(command, stdout=subprocess.DEVNULL).returncode


def test_blocks_are_found():
    text = "a\n```sh\nfirst\n```\n\n    second\n\n    third\n\n```python\nno\n```\n- no\n    no\n"
    assert [(each.text, each.line) for each in markdown.blocks(text)] == [
        ("first\n", 3),
        ("second\n\nthird\n", 6),
    ]


def test_every_block_is_run_by_a_test_here():
    """A new one needs a test; these are those that the tests below name."""
    assert [each.text.split()[0] for each in README] == [
        "tools/demo.sh",
        "bazel",
        ".bazel/bin/server/chxd",
    ]
    assert [each.text.split()[:2] for each in DEPLOY] == [
        ["chxd", "--threads=8"],
        ["docker", "build"],
        ["docker", "build"],
        ["bazel", "build"],
        ["install", "-m"],
        ["install", "-d"],
        ["kubectl", "create"],
        ["kubectl", "create"],
        ["kubectl", "create"],
        ["kubectl", "patch"],
    ]


def test_two_commands(here):
    for line in block(README, "tools/demo.sh").splitlines():
        script = line.split("#")[0].strip()
        assert os.access(here.root / script, os.X_OK), script
        assert subprocess.run(["bash", "-n", here.root / script]).returncode == 0
    assert "tools/test.sh" in (here.root / ".ci/run").read_text()
    assert "tools/demo.sh" in (here.root / "tools/test.sh").read_text()


def test_daemon(here):
    """As on a machine that has just started: there is no /run/chxd."""
    assert not os.path.exists("/run/chxd")
    process = here.start(block(README, "bazel build --config=release //:chxd"))
    try:
        assert first_line(process, "chxd ready") == f"chxd ready {SOCKET}\n"
        assert health(here, SOCKET) == 0
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate()


def test_the_folder_of_the_socket_is_for_its_user_only(here):
    assert stat.S_IMODE(os.stat("/run/chxd").st_mode) == 0o700


def test_daemon_with_a_gpu(here):
    """Without one, or without the backend, it says what is missing."""
    process = here.start(block(README, "native:0,cuda:0"))
    output = process.stdout.readline()
    if ": started " not in output:
        output += process.communicate()[0]
        expected = "`bazel build //:chxd` makes it where the CUDA toolkit"
        if (here.root / ".bazel/bin/server/cuda/libchxd_cuda.so").exists():
            expected = r"driver|CUDA"
        assert re.search(expected, output), output
        assert process.returncode == 1
        return
    assert first_line(process, "chxd ready") == f"chxd ready {SOCKET}\n"
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate()


@pytest.mark.parametrize("variant", ["cpu", "cuda"])
def test_docker(here, variant):
    status, output = here.run(block(DEPLOY, f"Dockerfile.{variant}"))
    assert status == 0, output


def test_docker_stand_in_refuses_what_is_not_there(here):
    text = block(DEPLOY, "Dockerfile.cpu")
    for wrong in [
        ("Dockerfile.cpu", "Dockerfile.gpu"),
        ("run/chxd chxd:0.1.0", "run/chxd chxd:0.0.1"),
        ("chxd-socket:/run/chxd", "chxd-socket:/run"),
    ]:
        assert here.run(text.replace(*wrong))[0] != 0, wrong


def test_systemd(here):
    """The unit's daemon starts, and asks for the token that openssl has made."""
    status, output = here.run(block(DEPLOY, "openssl rand -hex 32 >/etc/chxd/token"))
    assert status == 0, output
    assert stat.S_IMODE(os.stat("/etc/chxd/token").st_mode) == 0o600
    assert health(here, SOCKET) == 0
    assert health(here, "127.0.0.1:50051") != 0
    assert health(here, "127.0.0.1:50051", "--token-file=/etc/chxd/token") == 0


def test_systemd_with_a_gpu(here):
    """Where there is none the daemon does not start, and says why; the rest is as without."""
    status, output = here.run(block(DEPLOY, "CHXD_DEVICES="))
    if not (here.root / ".bazel/bin/server/cuda/libchxd_cuda.so").exists():
        assert "libchxd_cuda.so" in output
    else:
        assert status == 0 or re.search("driver|CUDA", output), output
    assert pathlib.Path("/etc/chxd/chxd.env").read_text() == "CHXD_DEVICES=native:0,cuda:0\n"
    pathlib.Path("/etc/chxd/chxd.env").unlink()


def make_certificate(here):
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=chxd",
        ]
        + ["-addext", "subjectAltName=DNS:chxd,DNS:chxd-0.chxd"]
        + ["-keyout", here.root / "server.key", "-out", here.root / "server.crt"],
        check=True,
        capture_output=True,
    )


def test_systemd_with_tls(here):
    """Other machines are served by TLS, with a key that only root can read."""
    make_certificate(here)
    status, output = here.run(block(DEPLOY, "tls.conf"))
    assert status == 0, output
    assert stat.S_IMODE(os.stat("/etc/chxd/tls").st_mode) == 0o700
    assert stat.S_IMODE(os.stat("/etc/chxd/tls/tls.key").st_mode) == 0o600
    assert (
        "a certificate for `chxd`\nand `chxd-0.chxd`"
        in pathlib.Path("deploy/README.md").read_text()
    )
    for name in ["chxd", "chxd-0.chxd"]:
        done = subprocess.run(
            ["openssl", "s_client", "-connect", "127.0.0.1:50051", "-verify_return_error"]
            + ["-CAfile", here.root / "server.crt", "-verify_hostname", name],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert "Verify return code: 0 (ok)" in done.stdout, done.stderr
    os.kill(int((here.folder / "daemon.pid").read_text()), signal.SIGTERM)


def test_flags_from_a_file(here):
    """With the file that the page shows, and the token and the chxd of the commands before."""
    text = pathlib.Path("deploy/README.md").read_text()
    [config] = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    pathlib.Path("/etc/chxd/chxd.toml").write_text(config)
    process = here.start(block(DEPLOY, "--threads=8"))
    try:
        assert first_line(process, "chxd ready") == f"chxd ready {SOCKET} 127.0.0.1:50051\n"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate()


def test_kubernetes(here):
    """The secrets that the commands make are those that the pods mount, with the files they name."""
    make_certificate(here)
    (here.root / "token.txt").write_text("0123456789abcdef0123456789abcdef")
    text = block(DEPLOY, "kubectl apply")
    status, output = here.run(text)
    assert status == 0, output
    secrets = {}
    for path in here.folder.glob("secret *"):
        secret = yaml.safe_load(path.read_text())
        secrets[secret["metadata"]["name"]] = set(secret["data"])
    objects = list(yaml.safe_load_all((here.folder / "applied").read_text()))
    [pod] = [each["spec"]["template"]["spec"] for each in objects if each["kind"] == "StatefulSet"]
    [container] = pod["containers"]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    for volume in pod["volumes"]:
        if "secret" in volume:
            keys = secrets[volume["secret"]["secretName"]]
            files = [arg for arg in container["args"] if f"={mounts[volume['name']]}/" in arg]
            assert files and {file.rsplit("/", 1)[1] for file in files} == keys
    for overlay in re.search(r"# or (\S+), or \.\.\.(\S+)", text).groups():
        folder = here.root / "deploy/kubernetes/overlays" / overlay.rsplit("/", 1)[1]
        assert (folder / "kustomization.yaml").exists()


def test_kubernetes_for_tenants(here):
    """What the components mount is what the commands make."""
    (here.root / "tenants.yaml").write_text("tenants:\n- name: all\n  uids: [0]\n")
    status, output = here.run(block(DEPLOY, "chxd-jwks"))
    assert status == 0, output
    folder = here.root / "deploy/kubernetes/components"
    for path, kind, component in [
        ("secret chxd-tenants", "secretName", "tenants"),
        ("configmap chxd-jwks", "name", "service-accounts"),
    ]:
        made = yaml.safe_load((here.folder / path).read_text())
        text = (folder / component / "kustomization.yaml").read_text()
        assert f"{kind}: {made['metadata']['name']}" in text
        [key] = made["data"]
        assert f"/{key}\n" in text, "a flag names it"
    status, output = here.run(block(DEPLOY, "kubectl patch").replace("NODE", "node-7"))
    assert status == 0, output
    [name] = json.loads((here.folder / "patched").read_text())["status"]["capacity"]
    client = (here.root / "deploy/kubernetes/examples/client.yaml").read_text()
    assert f"{name}: 1" in client


def test_kubernetes_for_process_groups(here):
    """The secret that the command makes is the one that the overlay mounts."""
    status, output = here.run(block(DEPLOY, "chxd-peers"))
    assert status == 0, output
    secret = yaml.safe_load((here.folder / "secret chxd-peers").read_text())
    folder = here.root / "deploy/kubernetes/overlays/distributed"
    text = (folder / "kustomization.yaml").read_text()
    assert f"secretName: {secret['metadata']['name']}" in text
    [(key, value)] = secret["data"].items()
    assert f"--peer-secret-file=/etc/chxd/peers/{key}\n" in text
    assert len(base64.b64decode(value)) == 64


def test_each_stand_in_was_called(here):
    assert {call[0] for call in here.calls()} == {"bazel", "docker", "systemctl", "kubectl"}
