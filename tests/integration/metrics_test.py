"""What the daemon counts, as Prometheus reads it."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import tempfile
import threading

import chx
import numpy as np
import pytest
import yaml

from . import raw_frames
from .daemon import Daemon, wait_until
from .observed import Observed, connection, request

TOKEN = "0123456789abcdef-secret"
MIB = 1 << 20
LOCAL, REMOTE = ("local", "default"), ("remote", "default")


@pytest.fixture(scope="module")
def both():
    """A daemon with a Unix socket, which shares memory, and a TCP port."""
    socket = pathlib.Path(tempfile.mkdtemp(prefix="chxd-"), "sock")
    flags = ["--metrics-listen=127.0.0.1:0", "--metrics-open", "--session-memory=64MiB"]
    with Observed(
        *flags, "--allow-unauthenticated-loopback", listen=f"unix:{socket},127.0.0.1:0"
    ) as daemon:
        yield daemon


def growth(daemon, work):
    """By how much each sample has grown after `work`."""
    before, types = daemon.metrics()
    work()
    after, _ = daemon.metrics()
    grown = {key: value - before.get(key, 0) for key, value in after.items()}
    for key, difference in grown.items():
        assert difference >= 0 or types[key[0]] == "gauge", key
    return grown


def total(samples, name):
    return sum(value for key, value in samples.items() if key[0] == name)


def test_kernels_are_counted_by_group(both):
    def work():
        with chx.connect(both.address):
            x = chx.array(np.ones(3, np.float32))
            for _ in range(100):
                chx.exp(x)
            chx.to_numpy(x @ x)

    grown = growth(both, work)
    name = "chxd_kernels_total"
    kernels = {key[3]: n for key, n in grown.items() if key[0] == name and n > 0}
    # Labels by name: class, device, group, tenant.
    assert kernels == {"math": 100, "linalg": 1}
    seconds = total(grown, "chxd_kernel_seconds_total")
    assert 0 <= seconds < 10


def test_commands_and_sessions(both):
    commands = {}

    def work():
        for_each = [chx.connect(address) for address in both.addresses[:2]]
        for session in for_each:
            x = chx.ones(3, device=session.devices[0])
            chx.to_numpy(x + x)
        commands["open"] = both.metrics()[0]
        for session in for_each:
            session.close()

    grown = growth(both, work)
    at_that_time = commands["open"]
    assert at_that_time[("chxd_sessions", *LOCAL)] == 1
    assert at_that_time[("chxd_sessions", *REMOTE)] == 1
    for labels in (LOCAL, REMOTE):
        assert grown[("chxd_sessions_opened_total", *labels)] == 1
        # Labels: class, reason, tenant.
        assert grown[("chxd_sessions_ended_total", labels[0], "closed", labels[1])] == 1
        assert grown[("chxd_sessions", *labels)] == 0
        assert grown[("chxd_commands_total", *labels)] >= 3
        assert grown[("chxd_received_bytes_total", labels[0], labels[1], "stream")] > 0


def test_commands_are_those_of_the_sessions(both):
    """The number that ListSessions tells, to the last one."""
    with chx.connect(both.addresses[1]):
        before = both.metrics()[0][("chxd_commands_total", *REMOTE)]
        x = chx.ones(3)
        for _ in range(7):
            x = chx.tanh(x)
        chx.to_numpy(x)
        after = both.metrics()[0][("chxd_commands_total", *REMOTE)]
        # ones, seven times tanh, and the fetch; each x that is replaced is released.
        assert 9 <= after - before <= 9 + 8


def test_bytes_are_exact(both):
    data = np.arange(MIB, dtype=np.uint8)

    def over_tcp():
        with chx.connect(both.addresses[1]):
            a = chx.array(data)
            assert chx.to_numpy(a).nbytes == MIB
            assert chx.to_numpy(a[:100]).nbytes == 100

    grown = growth(both, over_tcp)
    assert grown[("chxd_received_bytes_total", *REMOTE, "transfer")] == MIB
    assert grown[("chxd_sent_bytes_total", *REMOTE, "transfer")] == MIB
    assert grown[("chxd_sent_bytes_total", *REMOTE, "stream")] == 100

    def over_the_socket():
        with chx.connect(both.address):
            a = chx.array(data)
            assert chx.to_numpy(a + a).nbytes == MIB

    grown = growth(both, over_the_socket)
    assert grown[("chxd_sent_bytes_total", *LOCAL, "transfer")] == 0
    assert grown[("chxd_sent_bytes_total", *LOCAL, "shared")] == MIB


def test_errors_by_kind(both):
    def work():
        with chx.connect(both.address):
            x = chx.array(np.arange(3))
            for _ in range(3):
                with pytest.raises(IndexError):
                    chx.to_numpy(chx.take(x, chx.array(np.array([7])), 0))
            big = chx.zeros((10_000_000,), "float64")
            with pytest.raises(chx.OutOfMemoryError):
                chx.to_numpy(big + 1)

    grown = growth(both, work)
    kinds = {key[2]: n for key, n in grown.items() if key[0] == "chxd_errors_total" and n > 0}
    assert kinds == {"index": 3, "memory": 1}


def test_memory_is_live_then_cached_then_gone(both):
    def memory():
        samples = both.metrics()[0]
        name = "chxd_array_memory_bytes"
        return [samples.get((name, "local", "native:0", state, "default"), 0)
                for state in ("live", "cached")]  # fmt: skip

    assert wait_until(lambda: memory() == [0, 0])  # of sessions before
    with chx.connect(both.address) as session:
        a = chx.zeros((4 * MIB,), "uint8")
        session.synchronize()
        assert memory()[0] >= 4 * MIB
        used = both.metrics()[0][("chxd_device_used_bytes", "native:0")]
        assert used == sum(memory())
        del a
        session.synchronize()
        live, cached = memory()
        assert live < MIB and cached >= 4 * MIB
    assert wait_until(lambda: memory() == [0, 0])


def test_nothing_goes_back_while_sessions_work(both):
    def work():
        for _ in range(5):
            with chx.connect(both.address):
                x = chx.ones(10)
                for _ in range(50):
                    x = x * 1.5
                chx.to_numpy(x)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    last, types = both.metrics()
    while any(thread.is_alive() for thread in threads):
        now, _ = both.metrics()
        for key, value in last.items():
            assert now[key] >= value or types[key[0]] == "gauge", key
        last = now
    for thread in threads:
        thread.join()


def test_of_the_process(both):
    samples, types = both.metrics()
    with open(f"/proc/{both.process.pid}/stat") as file:
        threads = int(file.read().rsplit(") ", 1)[1].split()[17])
    assert abs(samples[("process_threads",)] - threads) <= 3
    assert abs(samples[("process_resident_memory_bytes",)] - both.resident_bytes()) < 64 * MIB
    assert samples[("process_open_fds",)] < samples[("process_max_fds",)]
    assert types["process_cpu_seconds_total"] == "counter"


def test_resumes_and_refusals():
    with Observed(
        "--metrics-listen=127.0.0.1:0", "--metrics-open", "--max-sessions=2", listen="127.0.0.1:0"
    ) as daemon:
        with chx.connect(daemon.address), chx.connect(daemon.address):
            chx.to_numpy(chx.ones(3))
            with pytest.raises((chx.ChainerxError, ConnectionError)):
                chx.connect(daemon.address)
        samples, _ = daemon.metrics()
        assert samples[("chxd_refusals_total", "limit")] == 1
        assert samples[("chxd_refusals_total", "token")] == 0
        # One that is refused is none that has been opened.
        assert samples[("chxd_sessions_opened_total", *REMOTE)] == 2
        assert samples[("chxd_sessions", *REMOTE)] == 0
        with raw_frames.connect(daemon.address) as peer:
            peer.sendall(raw_frames.hello() + raw_frames.open_call())
            _, reply = raw_frames.receive(peer)
            opened = raw_frames.fields(raw_frames.fields(reply)[2])
            resume = raw_frames.text(1, raw_frames.text(5, opened[2]))
            peer.sendall(raw_frames.frame(raw_frames.CALL, resume))
            raw_frames.receive(peer)
        assert daemon.metrics()[0][("chxd_session_resumes_total", *REMOTE)] == 1


def test_who_may_read_them(tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    with Observed("--metrics-listen=127.0.0.1:0", f"--token-file={tmp_path}/token") as daemon:
        [web] = daemon.web
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert request(web, "/metrics").status == 401
        wrong = request(web, "/metrics", headers={"Authorization": f"Bearer {TOKEN}x"})
        assert wrong.status == 401 and "chxd_" not in wrong.body
        assert wrong.headers["www-authenticate"] == "Bearer"
        assert daemon.soon("client refused")[0]["process"] == "chxd-web"
        reply = request(web, "/metrics", headers=bearer)
        assert reply.status == 200
        assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        head = request(web, "/metrics", "HEAD", headers=bearer)
        assert (head.status, head.body) == (200, "") and int(head.headers["content-length"]) > 1000
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
            assert request(web, "/metrics", method, headers=bearer).status == 405, method
        assert request(web, "/", headers=bearer).status == 404
        assert (request(web, "/healthz").status, request(web, "/healthz").body) == (
            200,
            "serving\n",
        )
        # By a name that somebody else has pointed here, only with the token.
        assert request(web, "/healthz", headers={"Host": "evil.example"}).status == 421
        named = {"Host": "chxd.monitoring.svc", **bearer}
        assert request(web, "/metrics", headers=named).status == 200
        foreign = {"Origin": "http://evil.example", **bearer}
        assert request(web, "/metrics", headers=foreign).status == 403
        assert TOKEN not in daemon.log_path.read_text()


def test_without_a_token_it_has_to_be_said():
    for flags in (["--metrics-listen=127.0.0.1:0"], ["--metrics-listen=0.0.0.0:0"],
                  ["--status-listen=127.0.0.1:0"], ["--status-listen=0.0.0.0:0"],
                  ["--status-listen=0.0.0.0:0", "--metrics-open"]):  # fmt: skip
        with pytest.raises(RuntimeError, match="refusing to listen"):
            Daemon(*flags)
    for bad in ("9400", "unix:/tmp/x", "127.0.0.1:0,127.0.0.1:0", "127.0.0.1:70000"):
        with pytest.raises(RuntimeError, match="--metrics-listen expects one HOST:PORT"):
            Daemon(f"--metrics-listen={bad}", "--metrics-open")


def test_a_flood_and_the_end_of_the_process_hurt_no_session(both):
    with chx.connect(both.address):
        x = chx.ones(3)
        idle = [connection(both.web[0]) for _ in range(200)]
        for each in idle:
            each.connect()
            each.sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ")
        # The oldest have made room.
        before = both.metrics()[0][("chxd_commands_total", *LOCAL)]
        assert float((x + x).sum()) == 6
        for each in idle:
            each.close()
        large = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + b"X: %s\r\n" % (b"x" * 9000)
        for bad, status in ((large, b"431"), (b"nonsense\r\n\r\n", b"400")):
            peer = connection(both.web[0])
            peer.connect()
            peer.sock.sendall(bad)
            assert status in peer.sock.recv(100)
            peer.close()
        [pid] = web_processes(both.process.pid)
        os.kill(pid, signal.SIGKILL)
        assert float((x + x).sum()) == 6

        def again():
            try:
                return both.metrics()[0][("chxd_commands_total", *LOCAL)] > before
            except (ConnectionError, http.client.HTTPException):
                return False

        assert wait_until(again)
        assert web_processes(both.process.pid) != [pid]
        assert both.soon("the web process has ended and is started again")


def web_processes(daemon):
    tasks = pathlib.Path(f"/proc/{daemon}/task")
    children = set()
    for task in tasks.iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread that has ended meanwhile
            children |= set((task / "children").read_text().split())
    names = {int(pid): pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
    return [pid for pid, name in names.items() if b"--web-process" in name]


def test_the_web_process_is_confined(both):
    [pid] = web_processes(both.process.pid)
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    assert re.search(r"NoNewPrivs:\s+1", status)
    limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
    data = re.search(r"Max data size\s+(\d+)", limits)
    assert data and int(data[1]) < 200 * MIB
    core = re.search(r"Max core file size\s+(\d+)", limits)
    assert core and int(core[1]) == 0


def exported(daemon):
    with chx.connect(daemon.address):
        chx.to_numpy(chx.ones(3) + 1)
    return set(daemon.metrics()[1])


def test_the_docs_have_a_row_for_each(both):
    page = pathlib.Path(os.environ["OPERATORS_MD"]).read_text()
    rows = set(re.findall(r"^\| `((?:chxd|process)_\w+)`", page, re.MULTILINE))
    assert rows == exported(both)


def named_metrics(text):
    return set(re.findall(r"\b(?:chxd|process)_[a-z0-9_]+\b", text))


def test_dashboard_and_rules_name_what_there_is(both):
    there = exported(both)
    dashboard = json.loads(pathlib.Path(os.environ["DASHBOARD"]).read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert len(panels) >= 8
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in panels:
        assert panel["title"] and panel["gridPos"]["w"] <= 24
        for target in panel["targets"]:
            assert named_metrics(target["expr"]), panel["title"]
            assert named_metrics(target["expr"]) <= there, panel["title"]
    rules = yaml.safe_load(pathlib.Path(os.environ["ALERTS"]).read_text())
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    assert len({alert["alert"] for alert in alerts}) == len(alerts) >= 6
    for alert in alerts:
        assert named_metrics(alert["expr"]) <= there or "up{" in alert["expr"], alert["alert"]
        assert alert["labels"]["severity"] in ("critical", "warning", "info")
        assert {"summary", "description", "runbook"} <= set(alert["annotations"]), alert["alert"]
        assert re.fullmatch(r"\d+[smh]", alert.get("for", "0s"))
