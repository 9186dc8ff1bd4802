"""What the pages for users say runs, and prints what they say."""

import os
import re
import subprocess
import sys

import pytest

PRINTED = re.compile(r"# → (.*)$", re.MULTILINE)


def blocks(name, language):
    with open(os.environ[name]) as file:
        text = file.read()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def shell(tmp_path):
    """Runs a command in an empty folder, with chxd and python of this test on the path."""
    (tmp_path / "bin").mkdir()
    for name, target in (
        ("chxd", os.path.abspath(os.environ["CHX_CHXD"])),
        ("python", sys.executable),
    ):
        script = tmp_path / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {target} "$@"\n')
        script.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "CHX_CHXD": f"{tmp_path}/bin/chxd"}
    env["PYTHONPATH"] = ":".join(os.path.abspath(p) for p in env["PYTHONPATH"].split(":"))

    def run(*command):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=200, check=False, cwd=work, env=env
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    run.folder = work
    return run


@pytest.mark.parametrize(
    ("page", "number"),
    [("RESEARCHERS", i) for i in range(4)] + [("CHAINER_USERS", i) for i in (1, 2)],
)
def test_python(shell, page, number):
    program = blocks(page, "python")[number]
    expected = PRINTED.findall(program)
    assert len(expected) > 0
    output = shell(sys.executable, "-W", "ignore", "-c", program)
    assert output.splitlines() == expected


def test_all_python_is_tested():
    assert len(blocks("RESEARCHERS", "python")) == 4
    assert len(blocks("CHAINER_USERS", "python")) == 3


def test_home(shell):
    (program,) = blocks("HOME_PAGE", "python")
    assert "dtype=float64" in shell(sys.executable, "-c", program)


def test_a_program_for_chainer(shell):
    (shell.folder / "train.py").write_text(blocks("CHAINER_USERS", "python")[0])
    (command,) = blocks("CHAINER_USERS", "sh")
    last = shell("bash", "-euc", command).splitlines()[-1].removeprefix("\x1b[J")
    epoch, _, accuracy = last.split()
    assert epoch == "20"
    assert float(accuracy) > 0.8


def test_commands_of_operators(shell):
    commands = blocks("OPERATORS", "sh")
    assert len(commands) == 7
    script = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + "\n".join(commands)
    shown = shell("bash", "-euo", "pipefail", "-c", script).splitlines()
    # And what the daemons say.
    daemons = re.compile(r"chxd ready .*|SERVING|UNREACHABLE")
    shown = [line for line in shown if not daemons.fullmatch(line)]
    [build] = [line for line in shown if line.startswith("chxd_build_info")]
    assert build.endswith(" 1")
    shown.remove(build)
    assert shown == ["1000000.0", "refused", "(native:0,) 6"]


def test_cpp(shell):
    (expected,) = blocks("CPP_ENGINEERS", "text")
    program = os.path.abspath(os.environ["CPP_PROGRAM"])
    serve = "chxd --listen=unix:$PWD/chxd.sock >/dev/null & daemon=$!\n"
    serve += "until chxd --health=unix:$PWD/chxd.sock >/dev/null; do sleep 0.1; done\n"
    run = f"CHX_SERVER=unix:$PWD/chxd.sock {program}; status=$?; kill $daemon; exit $status"
    assert shell("bash", "-c", serve + run) == expected
