"""The daemons of the overlay distributed and the ranks of its Job, each in a network namespace of its own
with an address and the names of the others, as their pods have them. One pod is killed and comes again
at another address. As root, outside Bazel's sandbox, whose network has no bridges."""

import contextlib
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import tempfile
import textwrap

import pytest
import yaml

DEPLOY = pathlib.Path(__file__).parent
CHXD = os.path.abspath(os.environ["CHXD"])
SECONDS = 60
RANKS = 3

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: network namespaces")


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Cluster:
    """A bridge, to which network namespaces are connected, and the names that they know."""

    def __init__(self):
        self.prefix = f"chx{os.getpid()}"
        self.switch = f"{self.prefix}-switch"
        self.namespaces = []
        self.addresses = {}
        self._next = 1
        self._add(self.switch)
        ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.switch, "link", "set", "bridge", "up")

    def _add(self, namespace):
        ip("netns", "add", namespace)
        self.namespaces.append(namespace)
        ip("-n", namespace, "link", "set", "lo", "up")

    def pod(self, name):
        """A namespace with a new address, which others know by that name from now on."""
        number, self._next = self._next, self._next + 1
        namespace = f"{self.prefix}-{number}"
        # `ip netns exec` puts what is there in place of what is in /etc.
        hosts = pathlib.Path("/etc/netns") / namespace / "hosts"
        hosts.parent.mkdir(parents=True)
        hosts.touch()
        self._add(namespace)
        ip("-n", namespace, "link", "add", "eth0", "type", "veth", "peer", f"port{number}", "netns",
           self.switch)  # fmt: skip
        ip("-n", self.switch, "link", "set", f"port{number}", "master", "bridge", "up")
        ip("-n", namespace, "address", "add", f"10.77.0.{number}/24", "dev", "eth0")
        ip("-n", namespace, "link", "set", "eth0", "up")
        self.addresses[name] = f"10.77.0.{number}"
        lines = "".join(f"{each} {known}\n" for known, each in self.addresses.items())
        for each in self.namespaces[1:]:
            # In place: namespaces have the file, not its name.
            (pathlib.Path("/etc/netns") / each / "hosts").write_text(
                "127.0.0.1 localhost\n" + lines
            )
        return namespace

    def close(self):
        for namespace in self.namespaces:
            subprocess.run(["ip", "netns", "del", namespace])
            shutil.rmtree(f"/etc/netns/{namespace}", ignore_errors=True)


@pytest.fixture
def cluster():
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture
def folder():
    """What pods mount: secrets, and a folder for each socket. In /tmp: a socket's path is short."""
    with tempfile.TemporaryDirectory(prefix="chxd-", dir="/tmp") as name:
        folder = pathlib.Path(name)
        for secret in ("tls", "token", "peers"):
            (folder / secret).mkdir()
        names = ",".join(f"DNS:chxd-{number}.chxd" for number in range(RANKS))
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
            + ["-subj", "/CN=chxd", "-addext", f"subjectAltName={names}"]
            + ["-keyout", "tls.key", "-out", "tls.crt"],
            cwd=folder / "tls",
            check=True,
            capture_output=True,
        )
        (folder / "token/token").write_text("0123456789abcdef0123456789abcdef")
        (folder / "peers/secret").write_text("fedcba9876543210fedcba9876543210")
        yield folder


@pytest.fixture
def args(tmp_path, kustomize):
    from conftest import copied

    objects = kustomize(copied(tmp_path) / "overlays/distributed")
    [workload] = [each for each in objects if each["kind"] == "StatefulSet"]
    [container] = workload["spec"]["template"]["spec"]["containers"]
    return container["args"]


@contextlib.contextmanager
def daemon(number, cluster, args, folder):
    """The container of the pod chxd-NUMBER."""
    name = f"chxd-{number}"
    namespace = cluster.pod(f"{name}.chxd")
    (folder / name).mkdir(exist_ok=True)
    flags = []
    for arg in args:
        arg = re.sub(r"/etc/chxd/", f"{folder}/", arg).replace("/run/chxd", f"{folder}/{name}")
        # On this machine there are no GPUs, and not 14 GiB for each daemon.
        arg = re.sub(r"^(--(?:session-)?memory)=.*", r"\1=1GiB", arg.replace(",cuda:0", ""))
        flags.append(arg.replace("$(POD_NAME)", name))
    with subprocess.Popen(
        ["ip", "netns", "exec", namespace, CHXD, *flags], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            ready, _, _ = select.select([process.stdout], [], [], SECONDS)
            assert ready and process.stdout.readline().startswith("chxd ready")
            yield process
        finally:
            process.kill()


RANK = """
    import sys
    import chx

    def connect():
        return chx.connect(tls_roots=sys.argv[1])

    def train(session):
        # A mean over ranks, by gradients.
        w = chx.zeros(2).require_grad()
        for _ in range(50):
            chx.sum(chx.square(w - float(chx.distributed.get_rank()))).backward()
            (grad,) = chx.distributed.all_reduce([w.grad], op="mean")
            w.cleargrad()
            w = (w.as_grad_stopped() - 0.25 * grad).require_grad()
        return [round(value, 3) for value in w.tolist()]

    session = connect()
    chx.distributed.init()
    print(train(session), flush=True)
    sys.stdin.readline()
    try:
        while True:
            train(session)
    except (chx.ContextError, ConnectionError, chx.BackendError) as error:
        print(type(error).__name__, str(error).splitlines()[0], flush=True)
    sys.stdin.readline()
    try:
        chx.distributed.destroy()
        chx.zeros(1).tolist()
    except Exception:
        session = connect()  # its daemon is another one
    chx.distributed.init(name="again")
    print(train(session), flush=True)
"""


@contextlib.contextmanager
def rank(number, cluster, folder):
    """The container of the Job's pod with that index."""
    job = yaml.safe_load((DEPLOY / "kubernetes/examples/distributed-job.yaml").read_text())
    [container] = job["spec"]["template"]["spec"]["containers"]
    env = {each["name"]: each.get("value", str(number)) for each in container["env"]}
    env["CHX_SERVER"] = env["CHX_SERVER"].replace("$(INDEX)", str(number))
    env["CHX_TOKEN_FILE"] = env["CHX_TOKEN_FILE"].replace("/etc/chxd", str(folder))
    env |= {"WORLD_SIZE": str(RANKS), "JOB_COMPLETION_INDEX": str(number)}
    namespace = cluster.pod(f"train-{number}")
    command = ["ip", "netns", "exec", namespace, sys.executable, "-c", textwrap.dedent(RANK)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*command, str(folder / "tls/tls.crt")],
        env={**os.environ, **env}, stdin=pipe, stdout=pipe, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def hear(process):
    ready, _, _ = select.select([process.stdout], [], [], SECONDS)
    line = process.stdout.readline() if ready else ""
    assert line, "the rank has ended, or says nothing"
    return line.strip()


def say(processes):
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()


def test_a_pod_is_killed_and_comes_again(cluster, args, folder):
    with contextlib.ExitStack() as stack:
        daemons = [
            stack.enter_context(daemon(number, cluster, args, folder)) for number in range(RANKS)
        ]
        ranks = [stack.enter_context(rank(number, cluster, folder)) for number in range(RANKS)]
        mean = str([float(sum(range(RANKS))) / RANKS] * 2)
        assert [hear(process) for process in ranks] == [mean] * RANKS
        say(ranks)
        daemons[1].kill()
        daemons[1].wait()
        for number, process in enumerate(ranks):
            said = hear(process)
            if number != 1:
                assert "rank 1 has gone with the daemon at chxd-1.chxd:7710" in said, said
        stack.enter_context(daemon(1, cluster, args, folder))
        say(ranks)
        assert [hear(process) for process in ranks] == [mean] * RANKS
