"""chx.admin and chx.tracing."""

import json
import math
import os
import threading

import chx
import pytest
from chx import admin

from tests.integration.daemon import Daemon, wait_until

TOKEN = "correct horse battery staple"


@pytest.fixture(scope="module")
def daemon():
    with Daemon("--session-memory=64MiB", "--memory=1GiB") as started:
        yield started


@pytest.fixture
def node(daemon):
    with admin.connect(daemon.address) as connected:
        yield connected


def test_everything_is_typed(daemon, node):
    with chx.connect(daemon.address, client_name="a client"):
        chx.ones(1000).sum().item()
        described = node.describe()
        assert isinstance(described, admin.Daemon)
        assert described.version == chx.__version__
        assert (described.sessions, described.attached, described.draining) == (1, 1, False)
        assert described.uptime_seconds > 0
        (session,) = node.sessions()
        assert isinstance(session, admin.Session)
        assert session.client_name == "a client"
        assert session.memory_limit_bytes == 64 << 20
        assert session.commands > 0
        (device,) = node.devices()
        assert isinstance(device, admin.Device)
        assert device.name == "native:0"
        (tenant,) = node.tenants()
        assert isinstance(tenant, admin.Tenant)
        assert (tenant.name, tenant.sessions) == ("default", 1)
        with pytest.raises(AttributeError):
            session.number = 3


def test_kill_and_limit(daemon, node):
    chx.connect(daemon.address, client_name="victim")
    (session,) = node.sessions()
    node.limit(session.number, 1 << 20)
    assert node.sessions()[0].memory_limit_bytes == 1 << 20
    with pytest.raises(chx.OutOfMemoryError):
        chx.ones(1 << 20).sum().item()
    for memory in (0, 2 << 30):
        with pytest.raises(ValueError, match="limit_session"):
            node.limit(session.number, memory)
    with pytest.raises(ValueError, match="number of bytes"):
        node.limit(session.number, -1)
    node.kill(session.number)
    assert node.sessions() == []
    for number in (session.number, 0, -1, 1 << 64):
        with pytest.raises(LookupError, match="no session number"):
            node.kill(number)
        with pytest.raises(LookupError, match="no session number"):
            node.limit(number, 1 << 20)
    with pytest.raises(ConnectionError):
        chx.ones(3).sum().item()


def test_runs(daemon, node):
    with chx.connect(daemon.address, session="exp-1") as session:
        w = chx.zeros(())

        def step(x):
            w.__iadd__(chx.sum(x))
            return {"sum": w * 1.0, "nan": w * float("nan")}

        chx.runs.start(step, chx.ones(8), batch_size=2, steps=10**9, name="fit", log_every=1)
        (listed,) = node.sessions()
        node.pause_run(listed.number, "fit")
        assert wait_until(lambda: node.runs()[0].state == "paused")
        (run,) = node.runs()
        assert isinstance(run, admin.Run)
        assert (run.session, run.session_name, run.name) == (listed.number, "exp-1", "fit")
        assert (run.tenant, run.steps, run.reason) == ("default", 10**9, "")
        assert run.epoch == run.step / 4 and run.left_seconds == 0
        assert run.metrics["sum"] == 2 * run.step and math.isnan(run.metrics["nan"])
        assert run.evaluation_metrics == {}
        node.resume_run(listed.number, "fit")
        assert wait_until(lambda: node.runs()[0].step > run.step)
        node.stop_run(listed.number, "fit")
        assert wait_until(lambda: node.runs()[0].reason == "stopped")
        for method in (node.stop_run, node.pause_run, node.resume_run):
            with pytest.raises(ValueError, match="has ended"):
                method(listed.number, "fit")
            with pytest.raises(ValueError, match="no run"):
                method(listed.number, "other")
            with pytest.raises(LookupError):
                method(1 << 40, "fit")
        session.discard()


def test_drain():
    with Daemon() as daemon, admin.connect(daemon.address) as node:
        node.drain()
        assert node.describe().draining
        with pytest.raises(ConnectionError):
            chx.connect(daemon.address)


def test_who_may(tmp_path, monkeypatch):
    monkeypatch.delenv("CHX_TOKEN", raising=False)
    path = tmp_path / "token"
    path.write_text(TOKEN)
    with Daemon(f"--token-file={path}", listen="127.0.0.1:0") as daemon:
        for token in (None, "correct horse battery stapl3"):
            stranger = admin.connect(daemon.address, token=token)
            for method in (stranger.describe, stranger.sessions, stranger.tenants, stranger.drain):
                with pytest.raises(chx.AuthenticationError):
                    method()
            with pytest.raises(chx.AuthenticationError):
                stranger.kill(1)
        assert not admin.connect(daemon.address, token=TOKEN).describe().draining
        monkeypatch.setenv("CHX_TOKEN", TOKEN)
        monkeypatch.setenv("CHX_SERVER", daemon.address)
        assert admin.connect().describe().sessions == 0
        node = admin.connect()
    with pytest.raises(ConnectionError):
        node.describe()
    with pytest.raises(ConnectionError):
        admin.connect()
    monkeypatch.delenv("CHX_SERVER")
    with pytest.raises(ValueError, match="CHX_SERVER"):
        admin.connect()


def test_threads_and_the_end(daemon):
    node = admin.connect(daemon.address)
    results = []
    threads = [
        threading.Thread(target=lambda: results.extend(node.describe() for _ in range(50)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 200
    node.close()
    with pytest.raises(ConnectionError, match="closed"):
        node.sessions()
    with pytest.raises(chx.ChainerxError, match="--state-dir"):
        admin.connect(daemon.address).snapshot()


def test_trace(daemon, node):
    for seconds in (0, -1, 61, float("nan")):
        with pytest.raises(ValueError, match="seconds"):
            node.trace(seconds)
    with pytest.raises(LookupError):
        node.trace(0.1, session=1 << 40)
    with chx.connect(daemon.address):
        (session,) = node.sessions()
        stop = threading.Event()

        def work():
            while not stop.is_set():
                chx.tanh(chx.ones(10)).sum().item()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            trace = node.trace(0.2, session=session.number)
        finally:
            stop.set()
            thread.join()
    names = {event["name"] for event in trace["traceEvents"]}
    assert {"batch", "tanh", "thread_name"} <= names
    json.dumps(trace)


def test_tracing_writes_a_file(tmp_path):
    path = tmp_path / "client.json"
    with chx.connect():
        with chx.tracing(path):
            chx.exp(chx.ones(3)).sum().item()
            with pytest.raises(ValueError, match="no trace is recorded"), chx.tracing(os.devnull):
                pass
        chx.tanh(chx.ones(3)).sum().item()
    trace = json.loads(path.read_text())
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    names = {span["name"] for span in spans}
    assert {"exp", "flush", "wait for a value"} <= names
    assert "tanh" not in names
    with pytest.raises(OSError), chx.tracing(tmp_path / "nowhere" / "x.json"):
        pass
    with pytest.raises(ZeroDivisionError), chx.tracing(path):
        1 / 0  # noqa: B018
    assert json.loads(path.read_text())["otherData"]["dropped_spans"] == 0


def test_merging_refuses_other_files():
    with pytest.raises(ValueError, match="expects a trace"):
        admin.merge_trace({}, {})
