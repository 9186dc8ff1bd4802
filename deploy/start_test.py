"""Starts the real chxd as each file here does, probes it and stops it.

What a container or systemd provides (folders, secrets, variables) is laid out in a folder of the
test's own.
"""

import json
import os
import pathlib
import re
import select
import shlex
import signal
import ssl
import stat
import subprocess
import tempfile
import time

import pytest
from dockerfile_parse import DockerfileParser

DEPLOY = pathlib.Path(__file__).parent
CHXD = os.path.abspath(os.environ["CHXD"])
SECONDS = 30


@pytest.fixture
def root():
    """Stands for /. In /tmp: a socket's path may have 100 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="chxd-", dir="/tmp") as folder:
        root = pathlib.Path(folder)
        (root / "run/chxd").mkdir(parents=True)
        (root / "etc/chxd/tls").mkdir(parents=True)
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
            + ["-subj", "/CN=chxd", "-keyout", "tls.key", "-out", "tls.crt"],
            cwd=root / "etc/chxd/tls",
            check=True,
            capture_output=True,
        )
        yield root


def from_kubernetes(rendered):
    [container] = rendered["overlays/cpu"]["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    return container["args"]


def from_docker():
    with (DEPLOY / "docker/Dockerfile.cpu").open("rb") as file:
        [flags] = [
            each["value"]
            for each in DockerfileParser(fileobj=file).structure
            if each["instruction"] == "CMD"
        ]
    return json.loads(flags)


def from_systemd():
    """ExecStart, with what systemd puts in."""
    unit = (DEPLOY / "systemd/chxd.service").read_text().replace("\\\n", " ")
    variables = dict(re.findall(r"^Environment=(\w+)=(.*)$", unit, re.MULTILINE))
    [command] = re.findall(r"^ExecStart=\S+ (.*)$", unit, re.MULTILINE)
    [(credential, file)] = re.findall(r"^LoadCredential=(\w+):(.*)$", unit, re.MULTILINE)
    command = command.replace(f"%d/{credential}", file)
    return shlex.split(re.sub(r"\$\{?(\w+)\}?", lambda match: variables[match[1]], command))


@pytest.fixture(params=["kubernetes", "docker", "systemd"])
def flags(request, root, rendered):
    if request.param == "kubernetes":
        return place(from_kubernetes(rendered), root)
    return place({"docker": from_docker, "systemd": from_systemd}[request.param](), root)


def place(flags, root):
    """The flags with their files below `root`, a token, and a port of the system's choice."""
    flags = [re.sub(r"(?<=[=:])/(?=run/|etc/)", f"{root}/", flag) for flag in flags]
    for flag in flags:
        if flag.startswith("--token-file="):
            path = pathlib.Path(flag.split("=")[1])
            path.parent.mkdir(exist_ok=True)
            path.write_text("0123456789abcdef0123456789abcdef\n")
    return [re.sub(r":50051\b", ":0", flag) for flag in flags]


def start(flags):
    return subprocess.Popen([CHXD, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def health(address, *flags):
    """The exit status of the probe."""
    return subprocess.run([CHXD, "--health", address, *flags], stdout=subprocess.DEVNULL).returncode


def addresses_of(daemon):
    ready, _, _ = select.select([daemon.stdout], [], [], SECONDS)
    line = daemon.stdout.readline().decode() if ready else ""
    assert line.startswith("chxd ready "), (line, daemon.stderr.read() if line == "" else "")
    return line.split()[2:]


def test_starts_serves_and_stops(flags, root):
    daemon = start(flags)
    try:
        addresses = addresses_of(daemon)
        socket = root / "run/chxd/chxd.sock"
        assert addresses[0] == f"unix:{socket}"
        assert stat.S_IMODE(socket.stat().st_mode) == 0o600
        assert health(addresses[0]) == 0
        token = [flag for flag in flags if flag.startswith("--token-file=")]
        for address in addresses[1:]:
            if address.startswith("127.0.0.1:"):
                assert health(address) != 0, "the port asks for the token"
                assert health(address, *token) == 0
            else:
                assert health(address) != 0, "the probe speaks no TLS"
                port = int(address.split(":")[1])
                certificate = ssl.get_server_certificate(("127.0.0.1", port))
                assert certificate == (root / "etc/chxd/tls/tls.crt").read_text()
        began = time.monotonic()
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(SECONDS) == 0
        assert time.monotonic() - began < 5, "nothing was there to drain"
        assert health(addresses[0]) != 0
    finally:
        daemon.kill()
        daemon.communicate()


@pytest.mark.parametrize("name", ["--tls-cert", "--tls-key", "--token-file"])
def test_pod_needs_its_secrets(root, rendered, name):
    flags = place(from_kubernetes(rendered), root)
    kept = [flag for flag in flags if not flag.startswith(name + "=")]
    assert len(kept) == len(flags) - 1
    daemon = start(kept)
    _, errors = daemon.communicate(timeout=SECONDS)
    assert daemon.returncode == 1
    assert b"--tls-cert" in errors


def test_images_are_of_this_version(rendered):
    version = subprocess.check_output([CHXD, "--version"], text=True).split()[1]
    for objects in rendered.values():
        assert re.findall(r"'image': 'chxd:([\d.]+)-\w+'", str(objects)) == [version]
    for variant in ["cpu", "cuda"]:
        text = (DEPLOY / f"docker/Dockerfile.{variant}").read_text()
        assert f"-t chxd:{version}-{variant} ." in text


def test_the_tenants_file_of_the_page(root):
    """The example, with an identity more to come in by; the daemon reads every key of it."""
    page = (DEPLOY / "README.md").read_text()
    [text] = re.findall(r"```yaml\n(# /etc/chxd/tenants\.yaml\n.*?)```", page, re.DOTALL)
    path = root / "etc/chxd/tenants.yaml"
    path.write_text(text.replace("uids: [0]", f"uids: [{os.geteuid()}]"))
    socket = f"unix:{root}/run/chxd/chxd.sock"
    process = subprocess.Popen(
        [CHXD, f"--listen={socket}", f"--tenants={path}", "--memory=1GiB"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline().startswith("chxd ready"), process.stderr.read()
        subprocess.run([CHXD, f"--health={socket}"], check=True, timeout=SECONDS)
        assert "tenants=2" in process.stderr.readline()
    finally:
        process.terminate()
        process.wait(SECONDS)


JWK = """{"issuer": "https://kubernetes.default.svc", "keys": [{"kty": "EC", "crv": "P-256",
"kid": "1", "alg": "ES256", "use": "sig",
"x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
"y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"""


@pytest.mark.parametrize(
    ("base", "components"),
    [
        ("overlays/node", ["service-accounts"]),
        ("overlays/node", ["state", "node-metrics", "dashboards"]),
        ("overlays/cpu", ["tenants", "service-accounts", "state", "metrics"]),
    ],
)
def test_shared_daemons_start(root, manifests, kustomize, base, components):
    """As the manifests have them, but for the GPU, ports and the group, which is not ours here."""
    mine = manifests / "mine"
    mine.mkdir()
    lines = [f"resources: [../{base}]", "components:"]
    lines += [f"- ../components/{name}" for name in components]
    (mine / "kustomization.yaml").write_text("\n".join(lines))
    [workload] = [each for each in kustomize(mine) if each["kind"] in {"StatefulSet", "DaemonSet"}]
    [container] = workload["spec"]["template"]["spec"]["containers"]
    flags = [re.sub(r"(?<=[=:])/(?=run/|etc/|var/)", f"{root}/", arg) for arg in container["args"]]
    flags = [re.sub(r",cuda:0$|:(?:50051|9464)\b", lambda m: "" if "cuda" in m[0] else ":0", flag)
             for flag in flags]  # fmt: skip
    flags = [re.sub(r"--socket-group=\d+", f"--socket-group={os.getgid()}", flag) for flag in flags]
    (root / "etc/chxd/tenants").mkdir()
    (root / "etc/chxd/tenants/tenants.yaml").write_text(
        f"tenants:\n- name: operators\n  admin: true\n  uids: [{os.geteuid()}]\n"
    )
    (root / "etc/chxd/jwks").mkdir()
    (root / "etc/chxd/jwks/jwks.json").write_text(JWK)
    (root / "var/lib/chxd").mkdir(parents=True)
    daemon = start(flags)
    try:
        addresses = addresses_of(daemon)
        socket = root / "run/chxd/chxd.sock"
        assert addresses[0] == f"unix:{socket}"
        group = any(flag.startswith("--socket-group=") for flag in flags)
        assert stat.S_IMODE(socket.stat().st_mode) == (0o660 if group else 0o600)
        assert health(addresses[0]) == 0
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(SECONDS) == 0
    finally:
        daemon.kill()
        daemon.communicate()
