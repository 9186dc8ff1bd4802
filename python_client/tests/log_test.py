"""What the client logs goes to Python's logger "chx"."""

import logging
import subprocess
import sys

import chx
import pytest
from chx._runtime import log

from tests.integration.daemon import Daemon, wait_until
from tests.integration.proxy import Proxy


@pytest.fixture
def proxy():
    with Daemon() as daemon, Proxy(daemon.socket) as proxy:
        yield proxy


def levels(caplog, text):
    return [r.levelname for r in caplog.records if r.name == "chx" and text in r.getMessage()]


def test_a_cut_and_the_way_back(proxy, caplog):
    caplog.set_level(logging.INFO, "chx")
    with chx.connect(proxy.address):
        x = chx.ones(3)
        assert x.tolist() == [1, 1, 1]
        assert not caplog.records
        proxy.cut()
        assert (x + 1).tolist() == [2, 2, 2]
        assert wait_until(lambda: levels(caplog, "reconnected") == ["INFO"])
        assert levels(caplog, "the connection is cut") == ["WARNING"]
        assert proxy.address in caplog.text


def test_an_error_that_nobody_has_read(proxy, caplog):
    caplog.set_level(logging.INFO, "chx")
    with chx.connect(proxy.address):
        lost = chx.take(chx.ones(3), chx.array([7]), 0)
        assert chx.ones(3).tolist() == [1, 1, 1]
    assert wait_until(lambda: levels(caplog, "nobody has read: [take]") == ["WARNING"])
    del lost


def test_an_error_of_a_handler_is_not_that_of_the_call(proxy, monkeypatch):
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", lambda e: raised.append(str(e.exc_value)))

    def refuse(level, text):
        raise RuntimeError("the handler's")

    chx._core._set_log(refuse, 1)
    try:
        with chx.connect(proxy.address):
            x = chx.ones(3)
            x.tolist()
            proxy.cut()
            assert x.tolist() == [1, 1, 1]
            assert wait_until(lambda: "the handler's" in raised)
    finally:
        log.start()


PROGRAM = """
import sys
import chx
from tests.integration.daemon import Daemon
with Daemon() as daemon:
    session = chx.connect(daemon.address)
    x = chx.ones(3)
    x.tolist()
    daemon.kill()
    try:
        x.tolist()
    except ConnectionError:
        print("lost")
"""


def test_silent_unless_it_is_set_up():
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert (run.stdout, run.stderr) == ("lost\n", "")
