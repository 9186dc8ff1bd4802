"""The pods as the manifests have them: their users, groups, volumes and read-only root, and clients of
other users. As root, outside Bazel's sandbox, whose user namespace has nobody else."""

import contextlib
import os
import pathlib
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

import pytest

CHXD = os.path.abspath(os.environ["CHXD"])
SECONDS = 60
CLIENT_UID = 20001
SECRETS = {
    "tenants.yaml": f"tenants:\n- name: team\n  uids: [{CLIENT_UID}]\n"
    f"  features: [shared_names, snapshots, data_files]\n- name: ops\n  admin: true\n  uids: [0]\n",
}

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: users, mounts")


class Pod:
    """A pod's one container in a mount namespace and a root of its own.

    Args:
      objects: what kustomize has rendered.
      folder: the node: hostPath and other volumes are folders in it.
    """

    def __init__(self, objects, folder):
        [workload] = [each for each in objects if each["kind"] in {"StatefulSet", "DaemonSet"}]
        self.spec = workload["spec"]["template"]["spec"]
        self.grace = self.spec["terminationGracePeriodSeconds"]
        [self.container] = self.spec["containers"]
        self.volumes = {each["name"]: each for each in self.spec["volumes"]}
        for claim in workload["spec"].get("volumeClaimTemplates", []):
            self.volumes[claim["metadata"]["name"]] = {"persistentVolumeClaim": {}}
        self.user = self.spec["securityContext"]
        self.folder = folder
        for name, volume in self.volumes.items():
            self._make(folder / name, volume)

    def _make(self, path, volume):
        """As Kubernetes does: fsGroup owns what is the pod's, and secrets have their mode."""
        path.mkdir(exist_ok=True)
        if "secret" in volume or "configMap" in volume:
            for name, text in SECRETS.items():
                (path / name).write_text(text)
                os.chown(path / name, 0, self.user["fsGroup"])
                (path / name).chmod(volume.get("secret", {}).get("defaultMode", 0o644))
        elif "hostPath" not in volume:
            os.chown(path, 0, self.user["fsGroup"])
            path.chmod(0o2770)
        elif not any(path.iterdir()):
            path.chmod(0o755)  # DirectoryOrCreate: root's

    def _root(self, container):
        """Lines of a shell that make the container's root at $ROOT, and leave it read-only."""
        lines = ["set -e", "mount --make-rprivate /", "mount -t tmpfs -o mode=755 tmpfs $ROOT"]
        lines += ["mkdir -p $ROOT/usr $ROOT/proc $ROOT/dev $ROOT/etc $ROOT/tmp"]
        for name in ("bin", "lib", "lib64", "sbin"):
            lines += [f"[ ! -e /{name} ] || ln -s usr/{name} $ROOT/{name}"]
        lines += ["mount --rbind /usr $ROOT/usr", "mount --rbind /dev $ROOT/dev"]
        lines += ["mount --rbind /proc $ROOT/proc"]
        lines += ["mount -t tmpfs -o mode=755 tmpfs $ROOT/usr/local/bin"]
        lines += [f"install -m 0755 {shlex.quote(CHXD)} $ROOT/usr/local/bin/chxd"]
        for mount in container["volumeMounts"]:
            source, target = self.folder / mount["name"], f"$ROOT{mount['mountPath']}"
            lines += [f"mkdir -p {target}", f"mount --bind {source} {target}"]
            if mount.get("readOnly"):
                lines += [f"mount -o remount,bind,ro {target}"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        return [*lines, "mount -o remount,ro $ROOT"]

    def run(self, container, command, **options):
        """The command in the container, by its user."""
        context = {**self.user, **container["securityContext"]}
        groups = [context["fsGroup"], *context.get("supplementalGroups", [])]
        user = context["runAsUser"]
        group = context["runAsGroup"] if user else 0
        assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
        kept = container["securityContext"]["capabilities"].get("add", [])
        bounding = "-all" + "".join(f",+{each.lower()}" for each in kept)
        prefix = ["/usr/bin/setpriv", f"--reuid={user}", f"--regid={group}"]
        prefix += ["--groups=" + ",".join(map(str, groups)), f"--bounding-set={bounding}"]
        prefix += ["--inh-caps=-all", "--no-new-privs", *command]
        script = [*self._root(container), "exec chroot $ROOT " + shlex.join(prefix)]
        root = tempfile.mkdtemp(prefix="root-", dir=self.folder)
        return subprocess.Popen(
            ["unshare", "--mount", "bash", "-c", "\n".join(script)],
            env={"ROOT": root, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            **options,
        )

    def start(self):
        """The init containers, then the daemon; (process, its Unix socket outside)."""
        for each in self.spec.get("initContainers", []):
            done = self.run(each, each["command"], stderr=subprocess.PIPE)
            assert done.wait(SECONDS) == 0, done.stderr.read()
        args = [arg.replace(",cuda:0", "") for arg in self.container["args"]]
        # Other ports may be in use here: the network is the machine's.
        args = [re.sub(r":(?:50051|9464)\b", ":0", arg) for arg in args]
        self.daemon = self.run(
            self.container, ["/usr/local/bin/chxd", *args],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        ready, _, _ = select.select([self.daemon.stdout], [], [], SECONDS)
        line = self.daemon.stdout.readline().decode() if ready else ""
        assert line.startswith("chxd ready unix:/run/chxd/chxd.sock"), (
            line or self.daemon.stderr.read()
        )
        return self.folder / "socket/chxd.sock"

    def probe(self):
        """What kubelet runs in the container."""
        command = self.container["readinessProbe"]["exec"]["command"]
        return self.run(self.container, command, stdout=subprocess.DEVNULL).wait(SECONDS)

    def stop(self):
        """As kubelet ends a pod; within its grace period."""
        began = time.monotonic()
        self.daemon.send_signal(signal.SIGTERM)
        assert self.daemon.wait(self.grace) == 0, self.daemon.stderr.read()
        return time.monotonic() - began

    def kill(self):
        self.daemon.kill()
        self.daemon.communicate()


CLIENT = """
    import os, select, sys
    import chx, numpy as np  # of a folder that is perhaps another user's alone
    uid, groups, server = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    os.setgroups([int(each) for each in groups.split(",") if each])
    os.setgid(uid)
    os.setuid(uid)
    try:
        session = chx.connect(server)
    except OSError as error:
        sys.exit(f"refused: {error}")
    x = chx.zeros((), "int64")
    base = chx.to_numpy(chx.array(np.arange(1 << 18, dtype="float32")), copy=False).base
    print(type(base).__name__, flush=True)
    done = 0
    while True:
        for _ in range(20):  # some of them are on their way when the daemon ends
            x += 1
            done += 1
        if int(x) != done:
            sys.exit(f"{int(x)} after {done}")
        print(done, flush=True)
        if select.select([sys.stdin], [], [], 0)[0]:
            break
    session.close()
    print("end", done, flush=True)
"""


@contextlib.contextmanager
def client_of(uid, groups, socket):
    command = [sys.executable, "-c", textwrap.dedent(CLIENT), str(uid), groups, f"unix:{socket}"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.kill()


@pytest.fixture
def node():
    """In /tmp: a socket's path may have 100 bytes at most, and other users have to get there."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="chxd-", dir="/tmp"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def pod(node, manifests, kustomize):
    """pod(base, components): it is ended with the test."""
    started = []

    def make(base, components):
        mine = manifests / "mine"
        mine.mkdir(exist_ok=True)
        lines = [f"resources: [../{base}]", "components:"]
        lines += [f"- ../components/{name}" for name in components]
        (mine / "kustomization.yaml").write_text("\n".join(lines) + "\n")
        started.append(Pod(kustomize(mine), node))
        return started[-1]

    yield make
    for each in started:
        each.kill()


def read_until(process, condition):
    """Lines of the client until one is as wanted."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        if condition(line.strip()):
            return line.strip()
    raise AssertionError("the client does not go on")


def count(line):
    return int(line) if line.isdigit() else -1


def test_clients_of_the_group_use_the_nodes_daemon_and_nobody_else(pod, node):
    mine = pod("overlays/node", ["state"])
    socket = mine.start()
    status = pathlib.Path(f"/proc/{mine.daemon.pid}/status").read_text()
    assert re.search(r"^Uid:\s+10001\s+10001\s", status, re.MULTILINE)
    assert re.search(r"^CapEff:\s+0+$", status, re.MULTILINE)
    info = socket.stat()
    assert (info.st_uid, info.st_gid, info.st_mode & 0o777) == (10001, 10002, 0o660)
    assert (node / "state").stat().st_mode & 0o7777 == 0o700
    assert mine.probe() == 0
    with client_of(CLIENT_UID, "10002", socket) as client:
        # It shares memory with a daemon of another user, in another mount namespace.
        assert client.stdout.readline().strip() == "SharedMemory", client.stderr.read()
        read_until(client, lambda line: count(line) >= 100)
    with client_of(CLIENT_UID, "", socket) as outsider:
        assert "refused" in outsider.stderr.read()
    with client_of(CLIENT_UID + 1, "10002", socket) as nobody:
        assert f"no tenant of this daemon has uid {CLIENT_UID + 1}" in nobody.stderr.read()
    # In the socket's folder clients may make nothing.
    made = subprocess.run(
        ["setpriv", f"--reuid={CLIENT_UID}", f"--regid={CLIENT_UID}", "--groups=10002"]
        + ["touch", str(socket.parent / "x")],
        capture_output=True,
    )
    assert made.returncode != 0
    assert mine.stop() < SECONDS


def test_a_rolling_upgrade_loses_and_repeats_nothing(pod):
    mine = pod("overlays/node", ["state"])
    socket = mine.start()
    with client_of(CLIENT_UID, "10002", socket) as client:
        assert client.stdout.readline().strip() == "SharedMemory", client.stderr.read()
        done = count(read_until(client, lambda line: count(line) >= 100))
        for _ in range(3):
            assert mine.stop() < mine.grace
            mine.start()
            # The client compares its count with the daemon's after each 20 commands.
            done = count(read_until(client, lambda line, least=done: count(line) >= least + 100))
        client.stdin.write("stop\n")
        client.stdin.flush()
        last = read_until(client, lambda line: line.startswith("end"))
        assert int(last.split()[1]) >= done
        assert client.wait(SECONDS) == 0, client.stderr.read()
