"""Tenants of a real daemon: who comes in by which proof, what each may have, and a reload."""

import base64
import contextlib
import json
import os
import signal
import subprocess
import time

import chx
import numpy as np
import pytest

from .daemon import Daemon, wait_until
from .tenants import SPEECH, VISION, TenantsFile, by_token
from .tls_proxy import Authority

SECONDS = 60


@pytest.fixture
def two(tmp_path):
    return TenantsFile(tmp_path / "tenants.yaml", vision=by_token(VISION), speech=by_token(SPEECH))


def admits(address, token, **options):
    try:
        chx.connect(address, token=token, **options).close()
    except PermissionError:
        return False
    return True


def log_until(daemon, text):
    while True:
        line = daemon.process.stderr.readline().decode()
        assert line, f"no {text!r} in the log"
        if text in line:
            return line


@pytest.mark.parametrize("listen", [None, "127.0.0.1:0"])
def test_a_token_lets_in_and_is_not_handed_on(two, listen):
    with Daemon(two.flag, listen=listen) as daemon:
        assert not admits(daemon.address, "another token") and not admits(daemon.address, "")
        with chx.connect(daemon.address, token=VISION):
            assert int(chx.ones((), "int64") + 1) == 2
        line = log_until(daemon, "session opened")
        assert "tenant=vision" in line
        with open(f"/proc/{daemon.process.pid}/environ", "rb") as file:
            assert VISION.encode() not in file.read()


@pytest.mark.parametrize("by", ["time", "SIGHUP"])
def test_a_reload_rotates_tokens_and_open_sessions_go_on(two, by):
    with Daemon(two.flag, listen="127.0.0.1:0") as daemon:
        session = chx.connect(daemon.address, token=VISION)
        x = chx.ones((), "int64")
        two.write(vision=by_token("the next token of vision"), speech=by_token(SPEECH))
        if by == "SIGHUP":
            daemon.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: admits(daemon.address, "the next token of vision"), SECONDS)
        assert not admits(daemon.address, VISION)
        with session:
            # A large one makes a further connection, with the former token.
            values = np.random.default_rng(1).standard_normal(300_000)
            np.testing.assert_array_equal(chx.to_numpy(chx.array(values, device=x.device)), values)
            assert int(x + 1) == 2
        assert not admits(daemon.address, VISION)


def test_a_wrong_file_cannot_start_a_daemon(tmp_path):
    path = tmp_path / "tenants.yaml"
    for text, error in [
        ("tenants:\n- name: a\n  wieght: 2\n", "line 3: [tenants] expects the keys"),
        ("", "it is empty"),
        ("tenants:\n- name: a\n  device_memory: {'cuda:9': 1GiB}", "got 'cuda:9' in 'a'"),
    ]:
        path.write_text(text)
        with pytest.raises(RuntimeError) as caught:
            Daemon(f"--tenants={path}")
        assert error in str(caught.value)
    path.write_text("tenants:\n- name: a\n")
    for flag, error in [
        ("--token-file=x", "leave --token-file out"),
        ("--socket-group=?", "group"),
    ]:
        with pytest.raises(RuntimeError, match=error):
            Daemon(f"--tenants={path}", flag)
    for flag in ("--jwks-file=x", "--tls-client-ca=x"):
        with pytest.raises(RuntimeError, match="expects --tenants"):
            Daemon(flag)


def test_a_wrong_file_changes_nothing(two):
    with Daemon(two.flag) as daemon:
        two.path.write_text("tenants:\n- name: vision\n  tokens: [{sha256: hunter2}]\n")
        line = log_until(daemon, "the former certificate and tenants stay")
        assert str(two.path) in line and "line 3" in line and "hunter2" not in line
        assert admits(daemon.address, VISION)
        two.write(vision=by_token("the next token of vision"))
        assert wait_until(lambda: admits(daemon.address, "the next token of vision"), SECONDS)
        assert not admits(daemon.address, SPEECH)


def held(session, mib):
    """An array of so many MiB that is there."""
    array = chx.zeros((mib << 20,), "uint8", device=session.devices[0])
    assert array[0].item() == 0
    return array


def test_two_sessions_of_a_tenant_share_its_memory(tmp_path):
    file = TenantsFile(
        tmp_path / "tenants.yaml", vision=by_token(VISION, memory="96MiB"), speech=by_token(SPEECH)
    )
    with Daemon(file.flag, "--memory=512MiB") as daemon, contextlib.ExitStack() as stack:
        a, b = (
            stack.enter_context(chx.connect(daemon.address, token=VISION, client_name=name))
            for name in ("a", "b")
        )
        other = stack.enter_context(chx.connect(daemon.address, token=SPEECH))
        kept = held(a, 60)
        with pytest.raises(chx.OutOfMemoryError, match="tenant 'vision' hold"):
            held(b, 60)
        held(b, 24)
        held(other, 120)
        assert kept[0].item() == 0
        # More for those that are open.
        file.write(vision=by_token(VISION, memory="256MiB"), speech=by_token(SPEECH))

        def fits():
            try:
                held(b, 60)
            except chx.OutOfMemoryError:
                return False
            return True

        assert wait_until(fits, SECONDS)


def test_memory_on_a_device_is_the_tenants(tmp_path):
    file = TenantsFile(
        tmp_path / "tenants.yaml", vision=by_token(VISION, device_memory={"native:0": "40MiB"})
    )
    with Daemon(file.flag) as daemon, chx.connect(daemon.address, token=VISION) as session:
        with pytest.raises(chx.OutOfMemoryError, match="limit of 40 MiB on native:0"):
            held(session, 50)
        held(session, 30)


def test_a_guarantee_in_a_full_daemon(tmp_path):
    file = TenantsFile(
        tmp_path / "tenants.yaml",
        sure=by_token(VISION, guaranteed_memory="96MiB"),
        other=by_token(SPEECH),
    )
    with (
        Daemon(file.flag, "--memory=384MiB", "--lease=5s") as daemon,
        contextlib.ExitStack() as stack,
    ):
        sure = stack.enter_context(chx.connect(daemon.address, token=VISION))
        other = stack.enter_context(chx.connect(daemon.address, token=SPEECH))
        full = []
        with pytest.raises(chx.OutOfMemoryError, match="the daemon's sessions hold"):
            for _ in range(40):
                full.append(held(other, 8))
        held(sure, 80)
        with pytest.raises(chx.OutOfMemoryError, match=r"guaranteed 96 MiB.*try again in 5 s"):
            chx.connect(daemon.address, token=VISION)
        assert full[0][0].item() == 0  # nobody has lost anything


def use_until_cut(session):
    """The log has the session's end before its stream is cut."""
    for _ in range(1000):
        session.synchronize()
        time.sleep(0.01)


def test_max_sessions_and_idle_limit(tmp_path):
    file = TenantsFile(
        tmp_path / "tenants.yaml",
        vision=by_token(VISION, max_sessions=1, idle_limit="2s"),
        speech=by_token(SPEECH, session_limit="2s"),
    )
    with Daemon(file.flag) as daemon:
        idle = chx.connect(daemon.address, token=VISION)
        with pytest.raises(ConnectionError, match="'vision' has its 1 sessions"):
            chx.connect(daemon.address, token=VISION)
        assert "idle" in log_until(daemon, "session ended")
        with pytest.raises(ConnectionError, match="has ended: it has been idle"):
            use_until_cut(idle)
        with chx.connect(daemon.address, token=SPEECH) as session:
            assert "lived" in log_until(daemon, "session ended")
            with pytest.raises(ConnectionError, match="has ended: it has lived"):
                use_until_cut(session)


def test_denied_operators(tmp_path):
    file = TenantsFile(
        tmp_path / "tenants.yaml", vision=by_token(VISION, operators={"deny": ["svd"]})
    )
    with Daemon(file.flag) as daemon, chx.connect(daemon.address, token=VISION):
        with pytest.raises(chx.ContextError, match=r"\[svd\] expects a tenant that may use it"):
            chx.linalg.svd(chx.ones((2, 2)))[0].item()
        assert chx.linalg.qr(chx.ones((2, 2)))[0].shape == (2, 2)


def test_a_client_certificate_is_an_identity(tmp_path):
    clients, server = Authority(), Authority()
    file = TenantsFile(
        tmp_path / "tenants.yaml",
        vision={"tls_subjects": ["CN=vision,O=lab"]},
        speech=by_token(SPEECH),
    )
    certificate, key = server.issue("DNS:localhost,IP:127.0.0.1")
    flags = [f"--tls-cert={certificate}", f"--tls-key={key}", f"--tls-client-ca={clients.roots}"]
    with Daemon(file.flag, *flags, listen="127.0.0.1:0") as daemon:

        def connect(authority, subject, **more):
            certificate, key = authority.issue("DNS:client", subject=subject)
            return chx.connect(
                daemon.address, tls_roots=server.roots, tls_cert=certificate, tls_key=key, **more
            )

        with connect(clients, "/O=lab/CN=vision"):
            assert int(chx.ones((), "int64") + 1) == 2
        assert "tenant=vision" in log_until(daemon, "session opened")
        with pytest.raises(PermissionError, match="the certificate's subject CN=nobody"):
            connect(clients, "/CN=nobody")
        # One that somebody else has signed is no proof, and ends the handshake.
        with pytest.raises(ConnectionError):
            connect(server, "/O=lab/CN=vision")
        with connect(clients, "/CN=nobody", token=SPEECH):
            assert "tenant=speech" in log_until(daemon, "session opened")
        assert not admits(daemon.address, "", tls_roots=server.roots)
        with pytest.raises(ConnectionError, match="tls_cert and tls_key together"):
            chx.connect(daemon.address, tls_roots=server.roots, tls_cert=certificate)
        with pytest.raises(ConnectionError, match="tls_key expects the key of tls_cert"):
            other = clients.issue("DNS:client", subject="/CN=other")[1]
            mine = clients.issue("DNS:client", subject="/CN=vision")[0]
            chx.connect(daemon.address, tls_roots=server.roots, tls_cert=mine, tls_key=other)


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Cluster:
    """Signs tokens as a Kubernetes cluster does, by openssl."""

    def __init__(self, folder):
        self.key = folder / "cluster.key"
        self._openssl("genrsa", "-out", self.key, "2048")
        modulus = self._openssl("rsa", "-in", self.key, "-noout", "-modulus").decode()
        key = {
            "kty": "RSA",
            "use": "sig",
            "kid": "1",
            "alg": "RS256",
            "n": base64url(bytes.fromhex(modulus.strip().split("=")[1])),
            "e": "AQAB",
        }
        self.jwks = folder / "jwks.json"
        self.jwks.write_text(json.dumps({"issuer": "https://cluster", "keys": [key]}))

    def token(self, account="research:trainer", kid="1", algorithm="RS256", **claims):
        now = int(time.time())
        payload = {
            "aud": ["chxd"],
            "iss": "https://cluster",
            "nbf": now - 10,
            "exp": now + 600,
            "sub": f"system:serviceaccount:{account}",
            **claims,
        }
        parts = [{"alg": algorithm, "kid": kid}, payload]
        signed = ".".join(base64url(json.dumps(part).encode()) for part in parts)
        return f"{signed}.{base64url(self._sign(signed))}"

    def _sign(self, text):
        return self._openssl("dgst", "-sha256", "-sign", self.key, input=text.encode())

    @staticmethod
    def _openssl(*arguments, **more):
        command = ["openssl", *map(str, arguments)]
        return subprocess.run(command, check=True, capture_output=True, **more).stdout


@pytest.mark.parametrize("listen", [None, "127.0.0.1:0"])
def test_a_service_account_is_an_identity(tmp_path, listen):
    cluster = Cluster(tmp_path)
    file = TenantsFile(tmp_path / "tenants.yaml", vision={"service_accounts": ["research:trainer"]})
    with Daemon(file.flag, f"--jwks-file={cluster.jwks}", listen=listen) as daemon:
        with chx.connect(daemon.address, token=cluster.token()):
            assert int(chx.ones((), "int64") + 1) == 2
        assert "tenant=vision" in log_until(daemon, "session opened")
        now = time.time()
        for wrong in (
            cluster.token(account="research:another"),
            cluster.token(aud=["another"]),
            cluster.token(exp=now - 300),
            cluster.token(nbf=now + 300),
            cluster.token(algorithm="none"),
            cluster.token() + "x",
        ):
            assert not admits(daemon.address, wrong)
        # Its keys are read again.
        (tmp_path / "next").mkdir()
        rotated = Cluster(tmp_path / "next")
        assert not admits(daemon.address, rotated.token())
        rotated.jwks.rename(cluster.jwks)
        assert wait_until(lambda: admits(daemon.address, rotated.token()), SECONDS)
        assert not admits(daemon.address, cluster.token())


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def test_a_token_that_is_renewed_in_its_file_takes_up_the_session(tmp_path):
    (tmp_path / "next").mkdir()
    cluster, rotated = Cluster(tmp_path), Cluster(tmp_path / "next")
    token = tmp_path / "token"
    token.write_text(cluster.token() + "\n")
    file = TenantsFile(tmp_path / "tenants.yaml", vision={"service_accounts": ["research:trainer"]})
    with Daemon(file.flag, f"--jwks-file={cluster.jwks}", listen="127.0.0.1:0") as daemon:
        with chx.connect(daemon.address, token_file=token):
            x = chx.ones((), "int64")
            assert int(x) == 1
            token.write_text(rotated.token())
            rotated.jwks.rename(cluster.jwks)
            assert wait_until(lambda: admits(daemon.address, rotated.token()), SECONDS)
            assert not admits(daemon.address, cluster.token())
            for child in children(daemon.process.pid):  # the front process: one more cut
                os.kill(child, signal.SIGKILL)
            assert int(x + 1) == 2
        with pytest.raises(ConnectionError, match="token_file expects a file with a token"):
            chx.connect(daemon.address, token_file=tmp_path / "none")
