"""chxctl, the program, with a real daemon."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading

import chx
import numpy as np
import pytest
from chx import admin

from tests.integration.collector import Collector, attributes
from tests.integration.daemon import Daemon, wait_until

CHXCTL = os.path.abspath(os.environ["CHXCTL"])
TOKEN = "correct horse battery staple"


def run(*arguments, env=None, code=0):
    """What chxctl prints."""
    environment = {"PATH": os.environ["PATH"], **(env or {})}
    done = subprocess.run(
        [CHXCTL, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    assert "\x1b" not in done.stdout + done.stderr
    if code:
        assert done.stderr.startswith("chxctl: ")
        assert not done.stdout
        return done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def daemon():
    with Daemon("--session-memory=64MiB", "--memory=1GiB") as started:
        yield started


@pytest.fixture
def ctl(daemon):
    return lambda *arguments, **options: run("--address", daemon.address, *arguments, **options)


@pytest.fixture
def as_json(ctl):
    return lambda *arguments: json.loads(ctl("--output", "json", *arguments))


@pytest.fixture
def session(daemon):
    with chx.connect(daemon.address, client_name="trainer") as opened:
        yield opened


def number_of(as_json, name="trainer"):
    (found,) = (each for each in as_json("sessions") if each["client_name"] == name)
    return found["number"]


def test_listings(as_json, ctl, session):
    kept = chx.ones((256, 1024), dtype="float32")
    chx.tanh(kept).sum().item()
    status = as_json("status")
    assert status["sessions"] == status["attached"] == 1
    assert status["version"] == chx.__version__
    assert 0 < status["memory_bytes"] < status["memory_limit_bytes"] == 1 << 30
    (listed,) = as_json("sessions")
    assert listed["client_name"] == "trainer"
    assert listed["tenant"] == "default"
    assert listed["peer"] == f"uid {os.getuid()}"
    assert listed["state"] in ("attached", "busy")
    assert listed["memory_bytes"] >= listed["host_array_bytes"] >= 1 << 20
    assert listed["memory_limit_bytes"] == 64 << 20
    assert listed["commands"] >= 4
    assert listed["compute_seconds"] > 0
    assert listed["age_seconds"] >= listed["idle_seconds"] >= 0
    assert listed["last_operator"] in ("fetch", "fetch_into", "release", "sum")
    (tenant,) = as_json("tenants")
    assert (tenant["name"], tenant["sessions"], tenant["priority"]) == ("default", 1, "normal")
    assert tenant["memory_bytes"] >= 1 << 20
    (device,) = as_json("devices")
    assert (device["name"], device["kind"]) == ("native:0", "native")
    assert 1 << 20 <= device["used_bytes"] <= device["memory_bytes"]
    lines = ctl("sessions").splitlines()
    assert lines[0].split()[:3] == ["SESSION", "TENANT", "CLIENT"]
    assert re.search(r"trainer +uid \d+ .* 64\.0 MiB ", lines[1])
    assert "1 attached" in ctl("status")
    assert "native:0" in ctl("devices")
    assert "default" in ctl("tenants")


def test_kill(as_json, ctl, session):
    number = number_of(as_json)
    assert f"session {number} has ended" in ctl("session", "kill", number)
    assert as_json("sessions") == []
    assert f"no session number {number}" in ctl("session", "kill", number, code=1)
    with pytest.raises(ConnectionError):
        chx.ones(3).sum().item()


def test_limit(as_json, ctl, session):
    number = number_of(as_json)
    kept = chx.ones((1 << 20,), dtype="float32")
    chx.sum(kept).item()
    assert "may hold 2.0 MiB" in ctl("session", "limit", number, "--memory", "2MiB")
    (listed,) = as_json("sessions")
    assert listed["memory_limit_bytes"] == 2 << 20
    with pytest.raises(chx.OutOfMemoryError):
        chx.ones((1 << 20,), dtype="float64").sum().item()
    assert kept[0].item() == 1  # what it held it keeps
    assert as_json("session", "limit", number, "--memory", "64MiB") == {
        "session": number,
        "memory_limit_bytes": 64 << 20,
    }
    assert chx.ones((1 << 20,), dtype="float64").sum().item() == 1 << 20
    assert "--memory" in ctl("session", "limit", number, "--memory", "2GiB", code=1)
    assert "at least 1 byte" in ctl("session", "limit", number, "--memory", "0", code=1)
    assert "no session" in ctl("session", "limit", 12345, "--memory", "1GiB", code=1)


def test_names_cannot_steer_a_terminal(as_json, ctl, daemon):
    with chx.connect(daemon.address, client_name="\x1b[2J\x1b]0;evil\x07\u202eteg\nnext"):
        (listed,) = as_json("sessions")
        assert listed["client_name"].isprintable()
        for command in ("sessions", "top"):
            text = ctl(command, *(["--once", "--interval", "0.1"] if command == "top" else []))
            assert len(text.splitlines()) == 2
            assert "\u202e" not in text
            assert "\\x1b[2J" in text


def test_top(as_json, ctl, daemon, session):
    stop = threading.Event()

    def work():
        x = chx.ones((256, 256), dtype="float32")
        while not stop.is_set():
            (x @ x).sum().item()

    with chx.connect(daemon.address, client_name="idle"):
        session_of_work = chx.connect(daemon.address, client_name="worker")
        thread = threading.Thread(target=work)
        thread.start()
        try:
            assert wait_until(
                lambda: any(
                    s["client_name"] == "worker" and s["commands"] for s in as_json("sessions")
                )
            )
            rows = as_json("top", "--once", "--interval", "0.5")
            assert rows[0]["client_name"] == "worker"
            assert 0 < rows[0]["compute_share"] <= 1
            assert rows[0]["commands_per_second"] > 0
            assert {row["compute_share"] for row in rows[1:]} == {0}
            lines = ctl("top", "--once", "--interval", "0.1", "--sort", "commands").splitlines()
            assert "BUSY" in lines[0]
            assert "worker" in lines[1]
        finally:
            stop.set()
            thread.join()
            session_of_work.close()


def test_top_redraws_on_a_terminal(daemon, session):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [CHXCTL, "--address", daemon.address, "top", "--interval", "0.1"],
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    try:
        text = ""
        while text.count("trainer") < 2:
            text += os.read(ours, 4096).decode()
        assert text.count("\x1b[H\x1b[2J") >= 2
        assert "\x1b[1m" in text
    finally:
        process.kill()
        process.communicate()
        os.close(ours)


def test_drain_waits_for_sessions():
    with Daemon() as daemon:

        def ctl(*arguments, **options):
            return run("--address", daemon.address, *arguments, **options)

        opened = chx.connect(daemon.address)
        assert "there are 1" in ctl("drain")
        assert "draining" in ctl("status")
        assert "still 1 sessions" in ctl("drain", "--wait", "--timeout", "0.2", code=1)
        with pytest.raises(ConnectionError, match="shutting down"):
            chx.connect(daemon.address)
        assert chx.ones(3).sum().item() == 3
        assert wait_until(lambda: opened.draining)
        waiting = subprocess.Popen(
            [CHXCTL, "--address", daemon.address, "drain", "--wait"], stdout=subprocess.PIPE
        )
        opened.close()
        assert b"there are 0" in waiting.communicate(timeout=30)[0]
        assert waiting.returncode == 0
        assert daemon.alive()
        health = subprocess.run([os.environ["CHX_CHXD"], "--health", daemon.address])
        assert health.returncode != 0


def test_actions_are_audited():
    with Daemon() as daemon:
        chx.connect(daemon.address, client_name="x")
        node = admin.connect(daemon.address)
        (listed,) = node.sessions()
        node.limit(listed.number, 1 << 20)
        node.kill(listed.number)
        with pytest.raises(LookupError):
            node.kill(listed.number)
        node.drain()
        daemon.process.terminate()
        log = daemon.process.stderr.read().decode()
    lines = [line for line in log.splitlines() if "administrator action=" in line]
    assert len(lines) == 4
    for line, words in zip(
        lines,
        [
            ("limit_session to 1048576", "done"),
            ("kill_session", "done"),
            ("kill_session", "there is no session"),
            ("drain", "done"),
        ],
        strict=True,
    ):
        assert f"uid {os.getuid()}" in line
        assert all(word in line for word in words), line


def test_who_may_and_who_answers(tmp_path, daemon):
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN + "\n")
    with Daemon(f"--token-file={token_file}", listen="127.0.0.1:0") as closed:
        there = {"CHX_SERVER": closed.address}
        for command in (["status"], ["sessions"], ["tenants"], ["session", "kill", "1"], ["drain"]):
            assert "expects a valid token" in run(*command, env=there, code=1)
        assert "serving" in run("status", env={**there, "CHX_TOKEN": TOKEN})
        assert "serving" in run("status", "--token-file", token_file, env=there)
        (tmp_path / "wrong").write_text("x" * 20)
        run("status", "--token-file", tmp_path / "wrong", env=there, code=1)
    run("status", env=there, code=3)
    run("status", "--address", f"unix:{tmp_path}/none.sock", code=3)
    run("status", "--address", "nowhere", code=3)
    assert "can be read" in run("status", "--token-file", tmp_path / "none", code=1)
    assert "PEM" in run("status", "--tls-roots", token_file, code=1)
    # Where chxd listens by default.
    default = {"XDG_RUNTIME_DIR": daemon.directory}
    assert "serving" in run("status", env=default)


def test_the_command_line(ctl):
    assert run("--version").split()[1] == chx.__version__
    assert "session" in run("--help")
    assert "--memory" in run("session", "limit", "--help")
    for wrong in ([], ["frobnicate"], ["session", "kill"], ["status", "--output", "xml"]):
        run(*wrong, code=2)
    assert "--state-dir" in ctl("snapshot", code=1)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("chxctl ", {"status", "session", "sessions", "drain", "--address", "completion"}),
        ("chxctl se", {"session", "sessions"}),
        ("chxctl session ", {"kill", "limit", "trace"}),
        ("chxctl session limit 3 --m", {"--memory"}),
        ("chxctl --address unix:/x top --o", {"--once", "--output"}),
        ("chxctl top --sort ", {"compute", "memory", "commands"}),
        ("chxctl completion ", {"bash", "zsh", "fish"}),
    ],
)
def test_bash_completes(line, expected):
    script = run("completion", "bash")
    words = line.split(" ")
    array = " ".join(f"'{word}'" for word in words)
    program = f"{script}\nCOMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; _chxctl\n"
    program += 'printf "%s\\n" "${COMPREPLY[@]}"\n'
    done = subprocess.run(["bash", "--norc"], input=program, capture_output=True, text=True)
    assert not done.stderr
    assert expected <= set(done.stdout.split())
    if words[-1]:
        assert set(done.stdout.split()) == expected


def test_other_shells_get_scripts():
    assert "bashcompinit" in run("completion", "zsh")
    assert "complete -c chxctl" in run("completion", "fish")
    run("completion", "tcsh", code=2)


# Traces.


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
