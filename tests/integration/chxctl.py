"""chxctl and a daemon for it, for tests."""

import json
import os
import subprocess

import chx
import pytest

from tests.integration.daemon import Daemon

CHXCTL = os.path.abspath(os.environ["CHXCTL"])


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
