"""`import chainerx` and `python -m chx run`."""

import importlib
import os
import subprocess
import sys
import textwrap

import chx
import pytest

MODULES = """random testing testing.array testing.helper _testing _core _device _fallback_workarounds
_ndarray _docs _cuda _build_info"""


def python(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.fixture
def script(tmp_path):
    def write(text, name="script.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return str(path)

    return write


def test_import_means_chx():
    module = chx.install_chainerx()
    assert chx.install_chainerx() is module
    import chainerx
    import chainerx.testing
    from chainerx.testing import helper

    assert chainerx is module is chx.chainerx
    assert chainerx.__name__ == chainerx.__spec__.name == "chainerx"
    assert chainerx.ndarray is chx.ndarray and chainerx.tanh is chx.tanh
    assert (
        chainerx.testing.helper is helper is importlib.import_module("chx.chainerx.testing.helper")
    )
    for name in MODULES.split():
        submodule = importlib.import_module(f"chainerx.{name}")
        assert getattr(chainerx, name.split(".")[0]) is not None
        assert sys.modules[f"chainerx.{name}"] is submodule
    with pytest.raises(ImportError):
        importlib.import_module("chainerx.no_such")


def test_another_chainerx_is_not_replaced(script, tmp_path):
    script("", "chainerx.py")
    done = python(
        "-c",
        "import chainerx, chx; chx.install_chainerx()",
        PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
    )
    assert done.returncode == 1
    assert "RuntimeError: another chainerx has been imported from" in done.stderr


def test_run_is_like_python(script):
    script("VALUE = 5", "beside.py")
    path = script(
        """
        import pickle
        import sys

        import beside
        import chainerx as chx

        class Local:
            pass

        if __name__ == "__main__":
            assert type(pickle.loads(pickle.dumps(Local()))) is Local
            print(sys.argv, beside.VALUE, __file__, chx.__name__)
            print(chx.ones(2).sum(), [d for d in map(chx.get_device, ["native:0", "native:3"])])
            sys.exit(7)
        """
    )
    done = python("-m", "chx", "run", path, "--devices", "x", "-m", CHX_DEVICES="")
    assert done.returncode == 7, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"{[path, '--devices', 'x', '-m']} 5 {path} chainerx"
    assert lines[1].endswith("[native:0, native:3]")


def test_run_with_devices(script):
    path = script("import chainerx; print(chainerx.get_backend('native').get_device_count())")
    assert python("-m", "chx", "run", "--devices", "native:0,native:1", path).stdout == "2\n"
    assert python("-m", "chx", "run", path, CHX_DEVICES="native:0").stdout == "1\n"


def test_run_a_module(script, tmp_path):
    script("import sys, chainerx; print(sys.argv[1:], chainerx.__name__, __name__)", "program.py")
    done = subprocess.run(
        [sys.executable, "-m", "chx", "run", "-m", "program", "a", "-b"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
    )
    assert done.stdout == "['a', '-b'] chainerx __main__\n", done.stderr


def test_run_shows_the_scripts_error(script):
    done = python("-m", "chx", "run", script("\n\nraise ValueError('from the script')\n"))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ValueError: from the script"
    assert 'script.py", line 3, in <module>' in done.stderr


def test_run_needs_a_program(tmp_path):
    assert python("-m", "chx").returncode == 2
    assert python("-m", "chx", "run").returncode == 2
    done = python("-m", "chx", "run", str(tmp_path / "absent.py"))
    assert done.returncode != 0 and "absent.py" in done.stderr
