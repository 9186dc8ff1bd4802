"""Traces, by chxctl and by clients, and the page that shows them."""

import json
import os
import re
import signal
import subprocess
import sys

import chx
import numpy as np
from chx import admin

from tests.integration.chxctl import CHXCTL, number_of, run
from tests.integration.collector import Collector, attributes
from tests.integration.daemon import Daemon, wait_until

pytest_plugins = ["tests.integration.chxctl"]


def check_format(trace):
    """What Chrome's trace format asks for, and that spans of a row are nested."""
    assert set(trace) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert isinstance(trace["otherData"]["start_unix_ns"], int)
    rows, starts, ends = {}, {}, {}
    for event in trace["traceEvents"]:
        assert event["ph"] in ("X", "M", "s", "f")
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            assert isinstance(event["args"]["name"], str)
            continue
        assert isinstance(event["ts"], (int, float))
        if event["ph"] == "X":
            assert event["dur"] >= 0
            rows.setdefault((event["pid"], event["tid"]), []).append(event)
        elif event["ph"] == "s":
            assert event["id"] not in starts
            starts[event["id"]] = event
        else:
            assert event["id"] not in ends
            assert event["bp"] == "e"
            ends[event["id"]] = event
    assert set(starts) == set(ends)
    for spans in rows.values():
        open_ends, last = [], -1e18
        for span in spans:
            assert span["ts"] >= last
            last = span["ts"]
            end = span["ts"] + span["dur"]
            while open_ends and open_ends[-1] <= span["ts"] + 0.002:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 0.002
            open_ends.append(end)
    return rows, starts, ends


def program():
    w = chx.ones((32, 32), dtype="float32").require_grad()
    for _ in range(3):
        loss = chx.tanh(w @ w).sum()
        loss.backward()
        loss.item()


def recorded(daemon, path, *arguments, work=program):
    """A trace of what `work` does."""
    process = subprocess.Popen(
        [CHXCTL, "--address", daemon.address, *arguments, "-o", str(path), "--seconds", "60"],
        stderr=subprocess.PIPE,
    )
    node = admin.connect(daemon.address)
    assert wait_until(lambda: node.describe().tracing, 30)
    work()
    assert node.describe().tracing
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0, process.stderr.read()
    process.stderr.close()
    with open(path) as file:
        return json.load(file)


def test_trace_of_a_program(tmp_path, daemon, session, as_json):
    number = number_of(as_json)
    trace = recorded(daemon, tmp_path / "trace.json", "trace")
    rows, starts, _ = check_format(trace)
    assert not starts
    spans = rows[1, number]
    names = [span["name"] for span in spans]
    assert names.count("matmul") >= 3 or names.count("dot") >= 3
    assert names.count("tanh") == names.count("backward") == 3
    assert "batch" in names
    batches = {span["args"]["batch"] for span in spans if span["cat"] == "batch"}
    commands = [span for span in spans if span["cat"] == "command"]
    assert commands
    assert all(span["args"]["batch"] in batches for span in commands)
    meta = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in trace["traceEvents"]
        if event["ph"] == "M" and event["name"] == "thread_name"
    }
    assert meta[1, number] == f"session {number}: trainer"
    (device,) = (row for row, name in meta.items() if name == "native:0")
    on_device = [span["name"] for span in rows[device]]
    assert on_device.count("tanh") == on_device.count("backward") == 3
    assert {span["args"]["session"] for span in rows[device]} == {number}
    assert trace["otherData"]["dropped_spans"] == 0


def test_trace_of_one_session(tmp_path, daemon, session, as_json, ctl):
    with chx.connect(daemon.address, client_name="other"):
        program()
        number = number_of(as_json, "other")
        trace = recorded(daemon, tmp_path / "one.json", "session", "trace", str(number))
        assert {tid for pid, tid in check_format(trace)[0] if tid < 1 << 40} == {number}
    out = tmp_path / "none.json"
    assert "no session" in ctl("trace", "--session", 12345, "-o", out, "--seconds", 1, code=1)
    assert not out.exists()


def test_client_and_daemon_are_joined(tmp_path, daemon, session, as_json):
    number = number_of(as_json)

    def work():
        with chx.tracing(tmp_path / "client.json"):
            program()

    recorded(daemon, tmp_path / "node.json", "trace", work=work)
    with open(tmp_path / "client.json") as file:
        client = json.load(file)
    rows, _, _ = check_format(client)
    spans = [span for row in rows.values() for span in row]
    assert {"call", "flush", "wait"} <= {span["cat"] for span in spans}
    assert sum(span["name"] == "tanh" for span in spans) == 3
    flushes = [s for s in spans if s["name"] == "flush" and s["args"]]
    assert flushes
    assert {span["args"]["session"] for span in flushes} == {number}
    both = tmp_path / "both.json"
    files = ["--from", tmp_path / "node.json", "--merge", tmp_path / "client.json"]
    run("trace", *files, "-o", both)
    with open(both) as file:
        merged = json.load(file)
    rows, starts, ends = check_format(merged)
    assert len(starts) == len(flushes)
    assert {pid for pid, _ in rows} == {1, 2}
    for key, start in starts.items():
        end = ends[key]
        assert (end["pid"], end["tid"], start["pid"]) == (1, number, 2)
        assert start["ts"] <= end["ts"] + 1000  # one clock; a millisecond for its two readings
        assert any(
            span["ts"] <= end["ts"] <= span["ts"] + span["dur"] and span["cat"] == "batch"
            for span in rows[1, number]
        )
    with open(tmp_path / "node.json") as file:
        assert admin.merge_trace(json.load(file), client) == merged
    (tmp_path / "bad.json").write_text("{}")
    files[-1] = tmp_path / "bad.json"
    assert "a client has written" in run("trace", *files, "-o", both, code=1)
    files[-1] = tmp_path / "none.json"
    run("trace", *files, "-o", both, code=1)
    assert "can be written" in run("trace", *files[:2], "-o", "/nowhere/x.json", code=1)


def test_traces_show_no_values(tmp_path, daemon, session):
    secret = 271828.25

    def work():
        x = chx.asarray(np.full(4, secret))
        with chx.tracing(tmp_path / "client.json"):
            (x + secret).sum().item()

    recorded(daemon, tmp_path / "node.json", "trace", work=work)
    for name in ("client.json", "node.json"):
        assert str(secret) not in (tmp_path / name).read_text()


def test_one_trace_at_a_time(tmp_path, daemon, session, ctl):
    def work():
        text = ctl("trace", "-o", tmp_path / "second.json", "--seconds", 1, code=1)
        assert "no trace is recorded" in text

    recorded(daemon, tmp_path / "first.json", "trace", work=work)


def test_the_page(tmp_path):
    """What docs/chxctl.md shows, in its order."""
    with open(os.environ["CHXCTL_MD"]) as file:
        page = re.findall(r"^```(sh|python)\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)
    assert len(page) == 11
    for name, target in (("chxctl", CHXCTL), ("python", sys.executable)):
        script = tmp_path / name
        script.write_text(f'#!/bin/sh\nexec {target} "$@"\n')
        script.chmod(0o755)
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    env["PYTHONPATH"] = ":".join(os.path.abspath(p) for p in env["PYTHONPATH"].split(":"))
    with Daemon() as daemon, Collector() as collector:
        env |= {"CHX_SERVER": daemon.address, "NO_PROXY": "*"}
        env["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.endpoint
        chx.connect(daemon.address, client_name="victim")
        drains = [block for block in page if "drain" in block[1]]
        for language, text in [block for block in page if block not in drains] + drains:
            command = ["bash", "-eu", "-c", text]
            if language == "python":
                command = [sys.executable, "-c", text]
            done = subprocess.run(
                command, capture_output=True, text=True, env=env, cwd=tmp_path, timeout=100
            )
            assert done.returncode == 0, (text, done.stderr)
            if language == "python":
                expected = re.findall(r"# → (.*)$", text, re.MULTILINE)
                assert done.stdout.splitlines() == expected
    for name in ("node.json", "client.json", "both.json"):
        check_format(json.loads((tmp_path / name).read_text()))
    spans = {span.name: attributes(span) for span, _ in collector.spans()}
    assert spans["tanh"]["chxd.operator"] == "tanh"
