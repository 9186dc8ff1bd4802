"""What a user is told who gets TLS or an address wrong: what was expected, and what to do."""

import re
import subprocess

import chx
import pytest

from .daemon import Daemon
from .tls_proxy import Authority, TlsProxy

TOKEN = "0123456789abcdef0123"


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN)
    return f"--token-file={path}"


@pytest.fixture
def daemon(authority, token_file):
    """One that serves TLS, and is for this machine."""
    cert, key = authority.issue("DNS:localhost,IP:127.0.0.1")
    flags = [token_file, f"--tls-cert={cert}", f"--tls-key={key}"]
    with Daemon(*flags, listen="127.0.0.1:0") as daemon:
        yield daemon


def refused(address, *parts, error=ConnectionError, **options):
    """Whether connecting raises an error with all parts."""
    with pytest.raises(error) as raised:
        chx.connect(address, token=TOKEN, **options)
    for part in parts:
        assert re.search(part, str(raised.value)), raised.value


def test_plaintext_to_a_port_with_tls(daemon):
    refused(daemon.address, f"at {daemon.address}: this port expects TLS", "connect with tls_roots")


def test_plaintext_to_somebody_elses_tls(authority, daemon):
    """Who does not answer in frames, as chxd's own port does."""
    with TlsProxy("/nonexistent", *authority.issue("DNS:localhost")) as proxy:
        refused(f"localhost:{proxy.port}", "if the port expects TLS, give tls_roots")


def test_tls_to_a_plaintext_port(authority, token_file):
    with Daemon(token_file, listen="127.0.0.1:0") as plain:
        refused(
            plain.address, "does not speak TLS", "leave tls_roots out", tls_roots=authority.roots
        )


def test_a_certificate_for_another_host(authority, daemon):
    cert, key = authority.issue("DNS:elsewhere.example,IP:192.0.2.7")
    with TlsProxy("/nonexistent", cert, key) as proxy:
        refused(
            f"127.0.0.1:{proxy.port}",
            "is for DNS:elsewhere.example, IP:192.0.2.7, not for 127.0.0.1",
            "connect by a name that it has",
            tls_roots=authority.roots,
        )


def test_an_expired_certificate(authority, token_file):
    cert, key = authority.issue("IP:127.0.0.1", days=-1)
    flags = [token_file, f"--tls-cert={cert}", f"--tls-key={key}"]
    with Daemon(*flags, listen="127.0.0.1:0") as daemon:
        refused(
            daemon.address,
            r"certificate \(CN = chxd\) has expired on \w+ +\d+ .* GMT",
            "--tls-cert",
            tls_roots=authority.roots,
        )
        daemon.kill()
        log = daemon.process.stderr.read().decode()
        assert f"the certificate in {cert} has expired: clients refuse it" in log


def test_a_certificate_of_another_authority(daemon):
    refused(
        daemon.address,
        "is signed by CN = test, whose certificate is not in tls_roots",
        tls_roots=Authority().roots,
    )


def test_a_wrong_token(authority, daemon):
    with pytest.raises(PermissionError) as raised:
        chx.connect(daemon.address, token="x" * 20, tls_roots=authority.roots)
    assert daemon.address in str(raised.value) and "$CHX_TOKEN" in str(raised.value)


def test_roots_without_a_certificate(authority, daemon, tmp_path):
    """They are never as if there had been none: the token would travel in plaintext."""
    der = tmp_path / "roots.der"
    command = ["openssl", "x509", "-in", authority.roots, "-outform", "der", "-out", der]
    subprocess.run(command, check=True)
    damaged = tmp_path / "damaged.pem"
    damaged.write_text("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    key = authority.issue("DNS:localhost")[1]
    expects = "tls_roots expects .*certificates in PEM"
    for path, got in [(der, "looks like DER"), (empty, "none"), (key, "private key")]:
        refused(daemon.address, expects, str(path), got, tls_roots=path)
    refused(daemon.address, expects, "damaged, number 1", tls_roots=str(damaged))
    refused(daemon.address, "none.pem", error=OSError, tls_roots=tmp_path / "none.pem")


def test_nobody_listens(daemon):
    daemon.kill()
    refused(daemon.address, f"cannot reach chxd at {daemon.address}", "no chxd listens there")
    refused("unix:/nonexistent/chxd.sock", "No such file", "is chxd running")
    refused(f"unix:{daemon.directory}", "no chxd listens there")


def started(*flags, **options):
    """What a daemon says that does not start."""
    with pytest.raises(RuntimeError) as raised, Daemon(*flags, **options):
        pass
    return str(raised.value)


def test_daemons_say_what_is_wrong_with_their_files(authority, token_file, tmp_path):
    cert, key = authority.issue("DNS:localhost")
    empty = tmp_path / "empty"
    empty.write_text("")
    for flags, said in [
        (
            [f"--tls-cert={token_file[13:]}", f"--tls-key={key}"],
            f"got {token_file[13:]}: no start line",
        ),
        ([f"--tls-cert={empty}", f"--tls-key={key}"], f"got {empty}: it is empty"),
        ([f"--tls-cert={tmp_path}", f"--tls-key={key}"], f"got {tmp_path}: Is a directory"),
        ([f"--tls-cert={cert}", f"--tls-key={cert}"], "--tls-key expects the PEM key"),
    ]:
        # Without TLS it may not listen here.
        assert said in started(token_file, *flags, listen="0.0.0.0:0")


def test_daemons_say_why_they_cannot_listen(daemon, token_file):
    said = started(token_file, listen=daemon.address)
    assert f"cannot listen on {daemon.address}: Address already in use; another program" in said
    said = started(token_file, "--tls-cert=/none", "--tls-key=/none", listen="192.0.2.7:0")
    assert "--tls-cert expects a file that the daemon can read, got /none" in said
    said = started(listen=f"unix:{daemon.directory}/a/b/chxd.sock")
    assert f"there is no folder {daemon.directory}/a/b" in said
    assert f"mkdir -p -m 0700 {daemon.directory}/a/b" in said
