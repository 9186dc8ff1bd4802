"""How Chainer comes to run on chx: names of NumPy, the import hook, python -m chx run."""

import subprocess
import sys

import numpy as np
import pytest


def run(program, *arguments):
    """What a fresh process prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:chx", *arguments, "-c", program],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_chainer_is_adapted_when_it_is_imported():
    lines = run("""
import sys
import chx.chainer
assert "chainer" not in sys.modules
import chainer
import chainerx
assert chainer.backend.chainerx is chainerx is sys.modules["chx.chainerx"]
print(chainer.__version__, chainer.FunctionNode.apply.__module__)
x = chainer.Variable(chainerx.ones((2, 2), "float32"))
print(float(chainer.functions.sum(x * 2).array))
""").split("\n")
    assert lines == ["7.8.1 chx.chainer._functions", "8.0"]


def test_functions_run_once_chainer_is_there():
    assert run("""
import chx.chainer
chx.chainer.on_import(lambda chainer: print("first", chainer.__version__))
import chainer
@chx.chainer.on_import
def second(chainer): print("second")
import chainer.functions
""").split("\n") == ["first 7.8.1", "second"]


def test_too_late():
    assert "another chainerx" in run("""
import chainer
try:
    import chx.chainer
except RuntimeError as error:
    print(error)
""")


def test_run(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("""
import chainer
link = chainer.links.Linear(3, 2).to_device("native:1")
print(link.W.device, type(link.W.array).__module__, chainer.Variable.unchain.__module__)
""")
    done = subprocess.run(
        [sys.executable, "-m", "chx", "run", str(script)], capture_output=True, text=True
    )
    assert done.stdout.split() == ["native:1", "chx", "chx.chainer._variables"], done.stderr


NAMES = """
import numpy
import chx.chainer
import warnings
with warnings.catch_warnings():
    warnings.simplefilter("error")
    values = [numpy.bool, numpy.int, numpy.float, numpy.complex, numpy.object, numpy.str]
"""


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) >= "2.0.0", reason="np.bool is a dtype")
def test_names_that_numpy_dropped():
    assert run(NAMES + "print(*[v.__name__ for v in values], numpy.float_.__name__)") == (
        "bool int float complex object str float64"
    )
    # What Chainer uses of them.
    run(
        NAMES
        + """
import chainer
x = numpy.ones((1, 1, 2, 2), "f")
assert chainer.functions.resize_images(x, (4, 4)).shape == (1, 1, 4, 4)
"""
    )


def test_names_that_numpy_has_stay():
    assert (
        run("""
import numpy
before = dict(vars(numpy))
import chx.chainer
print(all(vars(numpy)[name] is value for name, value in before.items()))
""")
        == "True"
    )
