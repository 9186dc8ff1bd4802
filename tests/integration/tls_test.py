"""TLS in the client: who is believed, and that nothing is lost over it."""

import threading
import time

import chx
import numpy as np
import pytest

from .daemon import Daemon
from .tls_proxy import Authority, TlsProxy


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture(scope="module")
def daemon():
    with Daemon() as daemon:
        yield daemon


@pytest.fixture
def proxy(authority, daemon):
    certificate = authority.issue("DNS:localhost,IP:127.0.0.1")
    with TlsProxy(daemon.socket, *certificate) as proxy:
        yield proxy


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_values_travel_both_ways(authority, proxy, host):
    with chx.connect(f"{host}:{proxy.port}", tls_roots=authority.roots):
        values = np.random.default_rng(1).standard_normal((1000, 2003))
        a = chx.array(values)
        np.testing.assert_array_equal(chx.to_numpy(a), values)
        np.testing.assert_array_equal(chx.to_numpy(a[:3, :3]), values[:3, :3])
        for i in range(200):
            assert int(chx.full((), i, "int64") + 1) == i + 1


def test_a_certificate_for_another_host_is_refused(authority, daemon):
    for names, host, why in (
        ("DNS:elsewhere.example", "127.0.0.1", "IP address mismatch"),
        ("DNS:localhost", "127.0.0.1", "IP address mismatch"),
        ("IP:127.0.0.2", "127.0.0.1", "IP address mismatch"),
        ("IP:127.0.0.1", "localhost", "hostname mismatch"),
    ):
        with (
            TlsProxy(daemon.socket, *authority.issue(names)) as proxy,
            pytest.raises(ConnectionError, match=f"certificate.*{why}"),
        ):
            chx.connect(f"{host}:{proxy.port}", tls_roots=authority.roots)


def test_a_certificate_of_an_unknown_authority_is_refused(proxy):
    with pytest.raises(ConnectionError, match="certificate"):
        chx.connect(f"localhost:{proxy.port}", tls_roots=Authority().roots)


def test_plaintext_and_tls_do_not_talk(authority, proxy):
    start = time.monotonic()
    with pytest.raises(ConnectionError):
        chx.connect(f"localhost:{proxy.port}")
    with (
        Daemon(listen="127.0.0.1:0") as plain,
        pytest.raises(ConnectionError, match="cannot reach"),
    ):
        chx.connect(plain.address, tls_roots=authority.roots)
    assert time.monotonic() - start < 25


def test_roots_that_are_none_are_refused(tmp_path, proxy):
    roots = tmp_path / "roots.pem"
    roots.write_text("nothing\n")
    with pytest.raises(ConnectionError, match="tls_roots expects certificates in PEM"):
        chx.connect(f"localhost:{proxy.port}", tls_roots=str(roots))


def test_threads_read_and_write_at_once_and_cuts_lose_nothing(authority, proxy):
    with chx.connect(f"localhost:{proxy.port}", tls_roots=authority.roots):
        failures = []

        def count(rounds):
            x = chx.zeros((), "int64")
            for i in range(1, rounds + 1):
                x += 1
                if i % 20 == 0 and int(x) != i:
                    failures.append((int(x), i))

        def transfer(rounds):
            values = np.random.default_rng(2).integers(0, 256, 400_000, "uint8")
            for _ in range(rounds):
                if not (chx.to_numpy(chx.array(values)) == values).all():
                    failures.append("transfer")

        threads = [threading.Thread(target=count, args=(600,)) for _ in range(3)]
        threads.append(threading.Thread(target=transfer, args=(20,)))
        for thread in threads:
            thread.start()
        for _ in range(10):
            time.sleep(0.03)
            proxy.cut()
        for thread in threads:
            thread.join()
        assert not failures
