"""A GPU without the plug-in for it, and where a private daemon looks for that."""

import os
import shutil

import chx
import pytest


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """site-packages with a daemon as a wheel installs it, away from any plug-in that was built."""
    folder = tmp_path / "site-packages" / "chx" / "bin"
    folder.mkdir(parents=True)
    shutil.copy(os.environ["CHX_CHXD"], folder / "chxd")
    monkeypatch.setenv("CHX_CHXD", str(folder / "chxd"))
    return tmp_path / "site-packages"


def test_the_error_says_what_is_missing_and_how_to_get_it(installed):
    with pytest.raises(ConnectionError) as raised:
        chx.connect(devices="cuda:0")
    # All of it in the exception: notebooks show no output of other processes.
    text = str(raised.value)
    assert f"there is no {installed}/chx/bin/libchxd_cuda.so" in text
    assert "`pip install chx[cuda]`" in text and "--plugin-dir" in text


def test_the_package_chx_cuda_is_found(installed):
    package = installed / "chx_cuda"
    package.mkdir()
    (package / "libchxd_cuda.so").write_text("no library")
    with pytest.raises(ConnectionError, match=r"cannot open the 'cuda' backend: .*chx_cuda/lib"):
        chx.connect(devices="cuda:0")


def test_versions_name_the_plugin(installed, capsys):
    chx.show_versions()
    assert "not found" in capsys.readouterr().out.split("CUDA plug-in")[1].splitlines()[0]
    package = installed / "chx_cuda"
    package.mkdir()
    (package / "libchxd_cuda.so").write_text("no library")
    chx.show_versions()
    assert f"CUDA plug-in  {package}/libchxd_cuda.so" in capsys.readouterr().out
