"""chxctl, the program, with a real daemon."""

import os
import pty
import re
import subprocess
import threading

import chx
import pytest
from chx import admin

from tests.integration.chxctl import CHXCTL, number_of, run
from tests.integration.daemon import Daemon, wait_until

pytest_plugins = ["tests.integration.chxctl"]
TOKEN = "correct horse battery staple"


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


def endless(name, **options):
    """A run that is never done with."""
    w = chx.zeros((4,))

    def step(x):
        w.__iadd__(chx.sum(x, axis=0))
        return {"loss": chx.sum(w), "nan": chx.sum(w) * float("nan")}

    rows = chx.ones((8, 4))
    return chx.runs.start(step, rows, batch_size=2, steps=10**9, name=name, log_every=1, **options)


def test_runs(as_json, ctl, daemon):
    assert as_json("runs") == []
    with chx.connect(daemon.address, session="exp-42", client_name="trainer") as session:
        number = number_of(as_json)
        ended = endless("first", stop=[chx.runs.above("loss", 100.0)])
        run_of_it = endless("second", time_limit=3600, evaluate=(lambda x: chx.sum(x), chx.ones(8)))
        assert ended.wait(60).reason == "rule"
        pause, resume, stop = (
            lambda name="second", code=0, word=word: ctl("run", word, number, name, code=code)
            for word in ("pause", "resume", "stop")
        )
        assert "run second of session" in pause()
        assert wait_until(lambda: run_of_it.state == "paused")
        second, first = as_json("runs")
        assert (second["session"], second["session_name"]) == (number, "exp-42")
        assert (second["tenant"], second["name"], second["state"]) == (
            "default",
            "second",
            "paused",
        )
        assert second["step"] == run_of_it.step > 0 and second["steps"] == 10**9
        assert second["epoch"] == run_of_it.step / 4
        # Each step adds 2 to 4 elements.
        assert second["metrics"] == {"loss": 8 * second["step"], "nan": None}
        assert 0 < second["left_seconds"] < 3600 and second["age_seconds"] > 0
        assert second["evaluation_metrics"] in ({}, {"loss": 8})
        assert (first["name"], first["state"], first["reason"]) == ("first", "ended", "rule")
        assert first["message"] == "loss is above the bound"
        assert first["left_seconds"] == 0 and first["metrics"]["loss"] == 104
        lines = ctl("runs").splitlines()
        assert lines[0].split()[:5] == ["SESSION", "NAME", "TENANT", "RUN", "STATE"]
        assert re.search(rf"{number} +exp-42 +default +second +paused .* loss=", lines[1])
        assert re.search(r"first +ended +13 .* loss=104 .* rule: loss is above", lines[2])
        resume()
        step = second["step"]
        assert wait_until(lambda: run_of_it.step > step)
        assert as_json("run", "stop", number, "second") == {
            "session": number,
            "run": "second",
            "asked": "stopped",
        }
        assert run_of_it.wait(60).reason == "stopped"
        assert "has ended" in stop(code=1)
        assert "no run 'third'" in stop("third", code=1)
        assert "no session number" in ctl("run", "stop", 12345, "second", code=1)
        session.discard()
    assert as_json("runs") == []


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
        chx.connect(daemon.address)
        (listed,) = node.sessions()
        endless("fit")
        node.pause_run(listed.number, "fit")
        node.resume_run(listed.number, "fit")
        node.stop_run(listed.number, "fit")
        with pytest.raises(ValueError, match="no run"):
            node.stop_run(listed.number, "fit\nx")
        node.drain()
        daemon.process.terminate()
        log = daemon.process.stderr.read().decode()
    lines = [line for line in log.splitlines() if "administrator action=" in line]
    assert len(lines) == 8
    for line, words in zip(
        lines,
        [
            ("limit_session to 1048576", "done"),
            ("kill_session", "done"),
            ("kill_session", "there is no session"),
            ("pause_run fit", "done"),
            ("resume_run fit", "done"),
            ("stop_run fit", "done"),
            (r"stop_run fit\x0ax", "no run"),
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
        ("chxctl run ", {"stop", "pause", "resume"}),
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
