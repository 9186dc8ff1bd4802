"""Certificate and token are replaced under a running daemon, and no session is lost."""

import os
import signal
import ssl

import chx
import numpy as np
import pytest

from .daemon import Daemon, wait_until
from .tls_proxy import Authority

FIRST, SECOND = "the first token of this test", "the second token of this test"
SECONDS = 60


class Secrets:
    """A folder as Kubernetes mounts it: its files lead through ..data, which is replaced at once."""

    def __init__(self, folder):
        self.folder = folder
        self.number = 0

    def path(self, name):
        return self.folder / name

    def write(self, **files):
        self.number += 1
        target = self.folder / f"..{self.number}"
        target.mkdir()
        for name, text in files.items():
            (target / name).write_text(text)
            if not os.path.lexists(self.path(name)):
                self.path(name).symlink_to(f"..data/{name}")
        new = self.folder / "..data_tmp"
        new.symlink_to(target.name)
        new.rename(self.folder / "..data")


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def issue(authority):
    def issue():
        """The texts of a new certificate and its key."""
        texts = []
        for path in authority.issue("DNS:localhost,IP:127.0.0.1"):
            with open(path) as file:
                texts.append(file.read())
        return dict(zip(["cert", "key"], texts, strict=True))

    return issue


@pytest.fixture
def secrets(tmp_path, issue):
    secrets = Secrets(tmp_path)
    secrets.write(token=FIRST, **issue())
    return secrets


@pytest.fixture
def daemon(secrets):
    flags = [
        f"--token-file={secrets.path('token')}",
        f"--tls-cert={secrets.path('cert')}",
        f"--tls-key={secrets.path('key')}",
    ]
    with Daemon(*flags, listen="127.0.0.1:0") as daemon:
        yield daemon


def served(daemon):
    """The certificate that new connections see."""
    return ssl.get_server_certificate(("127.0.0.1", int(daemon.address.rsplit(":", 1)[1])))


def admits(daemon, authority, token):
    try:
        chx.connect(daemon.address, token=token, tls_roots=authority.roots).close()
    except PermissionError:
        return False
    return True


def goes_on(session, x):
    """A session of before: its stream, and the further connections that transfers make."""
    values = np.random.default_rng(1).standard_normal(300_000)
    with session:
        np.testing.assert_array_equal(chx.to_numpy(chx.array(values, device=x.device)), values)
        assert int(x + 1) == 2


def log_until(daemon, text):
    """Reads the daemon's log as far as a line with the text, which it returns."""
    while True:
        line = daemon.process.stderr.readline().decode()
        assert line, f"no {text!r} in the log"
        if text in line:
            return line


@pytest.mark.parametrize("by", ["time", "SIGHUP"])
def test_new_files_are_for_new_clients(daemon, secrets, issue, authority, by):
    session = chx.connect(daemon.address, token=FIRST, tls_roots=authority.roots)
    x = chx.ones((), "int64")
    new = issue()
    secrets.write(token=SECOND, **new)
    if by == "SIGHUP":
        daemon.process.send_signal(signal.SIGHUP)
    assert wait_until(lambda: served(daemon) == new["cert"], SECONDS)
    assert wait_until(lambda: admits(daemon, authority, SECOND), SECONDS)
    assert not admits(daemon, authority, FIRST)
    goes_on(session, x)
    # With its last session the former token leads nowhere; a new session has the new one.
    assert not admits(daemon, authority, FIRST)
    assert admits(daemon, authority, SECOND)


def test_a_session_that_is_cut_after_the_change_is_taken_up(daemon, secrets, issue, authority):
    session = chx.connect(daemon.address, token=FIRST, tls_roots=authority.roots)
    x = chx.ones((), "int64")
    assert int(x) == 1
    secrets.write(token=SECOND, **issue())
    assert wait_until(lambda: admits(daemon, authority, SECOND), SECONDS)
    for child in children(daemon.process.pid):  # the front process: one more cut
        os.kill(child, signal.SIGKILL)
    goes_on(session, x)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def test_broken_files_keep_the_old_ones(daemon, secrets, issue, authority):
    session = chx.connect(daemon.address, token=FIRST, tls_roots=authority.roots)
    x = chx.ones((), "int64")
    before = served(daemon)
    broken = {**issue(), "cert": "nonsense"}
    secrets.write(token=SECOND, **broken)
    said = log_until(daemon, "the former certificate and token stay")
    assert f"got {secrets.path('cert')}" in said
    assert served(daemon) == before
    assert admits(daemon, authority, FIRST) and not admits(daemon, authority, SECOND)
    goes_on(session, x)
    secrets.write(token=SECOND, **issue())
    assert wait_until(lambda: admits(daemon, authority, SECOND), SECONDS)
    assert served(daemon) != before


def test_a_token_alone_on_a_unix_socket(tmp_path):
    token = tmp_path / "token"
    token.write_text(FIRST)
    with Daemon(f"--token-file={token}") as daemon:
        session = chx.connect(daemon.address, token=FIRST)
        x = chx.ones((), "int64")
        token.write_text(SECOND)

        def refused():
            try:
                chx.connect(daemon.address, token=FIRST).close()
            except PermissionError:
                return True
            return False

        assert wait_until(refused, SECONDS)
        chx.connect(daemon.address, token=SECOND).close()
        goes_on(session, x)
