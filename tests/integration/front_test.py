"""Clients of a real daemon behind its front process: TCP, with TLS and without."""

import contextlib
import os
import signal
import ssl
import time

import chx
import numpy as np
import pytest

from .daemon import Daemon
from .tls_proxy import Authority

TOKEN = "0123456789abcdef0123"


def front_of(daemon):
    """The process id of the daemon's child, once there is one."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:
                state, parent = file.read().rsplit(")", 1)[1].split()[:2]
                if int(parent) == daemon.process.pid and state != "Z":
                    return int(name)
        time.sleep(0.01)
    raise TimeoutError("no front")


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def certificate(authority, tmp_path):
    """Paths that stay, of a certificate that may be replaced."""
    paths = [tmp_path / "cert.pem", tmp_path / "key.pem"]

    def issue():
        for path, made in zip(paths, authority.issue("DNS:localhost,IP:127.0.0.1"), strict=False):
            with open(made, "rb") as file:
                path.write_bytes(file.read())
        return paths

    return issue


@pytest.fixture
def flags(certificate, tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    cert, key = certificate()
    return [f"--token-file={tmp_path}/token", f"--tls-cert={cert}", f"--tls-key={key}"]


@pytest.fixture(params=["tls", "plain"])
def connected(request, authority, flags):
    """(daemon, keyword arguments for connect)."""
    tls = request.param == "tls"
    with Daemon(*(flags if tls else flags[:1]), listen="127.0.0.1:0") as daemon:
        yield daemon, {"token": TOKEN, **({"tls_roots": authority.roots} if tls else {})}


def test_values_travel_both_ways(connected):
    daemon, options = connected
    values = np.random.default_rng(1).standard_normal((1000, 1003))
    with chx.connect(daemon.address, **options):
        np.testing.assert_array_equal(chx.to_numpy(chx.array(values)), values)
        for i in range(200):
            assert int(chx.full((), i, "int64") + 1) == i + 1


def test_a_dead_front_is_one_more_cut(connected):
    daemon, options = connected
    with chx.connect(daemon.address, **options):
        x = chx.zeros((), "int64")
        values = np.arange(300_000)
        done = 0
        for _ in range(5):
            os.kill(front_of(daemon), signal.SIGKILL)
            for _ in range(50):
                x += 1
                done += 1
            assert int(x) == done
            np.testing.assert_array_equal(chx.to_numpy(chx.array(values)), values)
    with chx.connect(daemon.address, **options):  # others come in, too
        assert float(chx.ones(())) == 1


def test_a_front_that_stops_for_a_while_delays_only(connected):
    daemon, options = connected
    with chx.connect(daemon.address, **options):
        x = chx.zeros((), "int64")
        front = front_of(daemon)
        os.kill(front, signal.SIGSTOP)
        x += 1
        time.sleep(0.5)
        os.kill(front, signal.SIGCONT)
        assert int(x) == 1


def test_the_front_ends_with_a_killed_daemon(connected):
    daemon, _ = connected
    front = front_of(daemon)
    daemon.kill()
    end = time.monotonic() + 10
    while os.path.exists(f"/proc/{front}"):
        with open(f"/proc/{front}/stat") as file:
            if file.read().rsplit(")", 1)[1].split()[0] == "Z":  # whose parent is no more
                break
        assert time.monotonic() < end
        time.sleep(0.05)


def test_hanging_up_brings_another_certificate(authority, certificate, flags):
    with Daemon(*flags, listen="127.0.0.1:0") as daemon:
        port = int(daemon.address.rsplit(":", 1)[1])
        first = ssl.get_server_certificate(("127.0.0.1", port))
        with chx.connect(daemon.address, token=TOKEN, tls_roots=authority.roots):
            x = chx.ones((), "int64")
            cert, _ = certificate()
            daemon.process.send_signal(signal.SIGHUP)
            end = time.monotonic() + 10
            while ssl.get_server_certificate(("127.0.0.1", port)) == first:
                assert time.monotonic() < end
                time.sleep(0.05)
            assert int(x + 1) == 2
            # What cannot be read changes nothing.
            cert.write_text("nonsense")
            daemon.process.send_signal(signal.SIGHUP)
            while (
                "the former certificate and token stay"
                not in daemon.process.stderr.readline().decode()
            ):
                assert daemon.alive()
            assert int(x + 2) == 3
        with chx.connect(daemon.address, token=TOKEN, tls_roots=authority.roots):
            assert float(chx.ones(())) == 1
