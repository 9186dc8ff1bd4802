"""chx.show_versions()."""

import os

import chx
import numpy as np
import pytest


@pytest.fixture
def shown(capsys):
    def show():
        chx.show_versions()
        lines = capsys.readouterr().out.splitlines()
        return dict(line.split("  ", 1) for line in lines)

    return show


def test_what_reports_need(shown):
    found = {name.strip(): text.strip() for name, text in shown().items()}
    assert found["chx"] == chx.__version__
    assert found["NumPy"] == np.__version__
    assert found["chxd"] == f"chxd {chx.__version__} ({os.path.abspath(os.environ['CHX_CHXD'])})"
    assert found["CPU cores"].startswith(f"{len(os.sched_getaffinity(0))} of ")


def test_without_a_daemon(shown, monkeypatch, tmp_path):
    monkeypatch.setenv("CHX_CHXD", str(tmp_path / "missing"))
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {name.strip(): text.strip() for name, text in shown().items()}
    assert found["chxd"] == "not found"


def test_the_token_is_not_shown(capsys, monkeypatch):
    monkeypatch.setenv("CHX_TOKEN", "a secret of the user")
    monkeypatch.setenv("CHX_MEMORY", "1GiB")
    chx.show_versions()
    text = capsys.readouterr().out
    assert "secret" not in text
    assert "CHX_MEMORY=1GiB, CHX_TOKEN=(set)" in text
