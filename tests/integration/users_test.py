"""Users of one machine who share a daemon through a group. Root only, and outside Bazel's sandbox."""

import contextlib
import grp
import os
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from .daemon import Daemon
from .tenants import TenantsFile

CLIENT = """
    import os, sys
    import chx, numpy as np  # of a folder that is perhaps another user's alone
    os.setgroups([int(sys.argv[2])] if sys.argv[2] else [])
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))
    try:
        session = chx.connect(sys.argv[3])
    except OSError as error:
        sys.exit(f"refused: {error}")
    with session:
        x = chx.array(np.arange(1 << 18, dtype="float32"))
        base = chx.to_numpy(x, copy=False).base
        print("session", type(base).__name__, float(x.sum()), flush=True)
        sys.stdin.readline()
"""


@contextlib.contextmanager
def client_of(uid, group, address):
    command = [sys.executable, "-c", textwrap.dedent(CLIENT), str(uid), str(group), address]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        yield process
        with contextlib.suppress(OSError):
            process.stdin.close()


def has_group(group):
    """Whether the user namespace knows it: Bazel's sandbox has root only, so it runs none of this."""
    maps = pathlib.Path("/proc/self/gid_map").read_text().splitlines()
    ranges = [[int(word) for word in line.split()] for line in maps]
    return any(first <= group < first + count for first, _, count in ranges)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: clients of other users")
def test_users_of_a_group_share_a_daemon_and_map_their_own_arrays(tmp_path):
    group = 54321
    assert has_group(group), "this user namespace has no such group"
    assert group not in [entry.gr_gid for entry in grp.getgrall()]
    file = TenantsFile(tmp_path / "tenants.yaml", a={"uids": [54001]}, b={"uids": [54002]})
    with Daemon(file.flag, f"--socket-group={group}") as daemon:
        os.chmod(daemon.directory, 0o711)
        for suffix in ("", ".shm"):
            info = os.stat(daemon.socket + suffix)
            assert info.st_mode & 0o777 == 0o660 and info.st_gid == group
        with (
            client_of(54001, group, daemon.address) as a,
            client_of(54002, group, daemon.address) as b,
        ):
            total = float(np.arange(1 << 18, dtype="float32").sum(dtype="float64"))
            for process in (a, b):
                word, kind, value = process.stdout.readline().split() or [process.stderr.read()]
                assert (word, kind) == ("session", "SharedMemory")
                assert float(value) == pytest.approx(total)
        with client_of(54003, group, daemon.address) as nobody:
            assert "no tenant of this daemon has uid 54003" in nobody.stderr.read()
        with client_of(54001, "", daemon.address) as outsider:
            assert "refused" in outsider.stderr.read()
