"""What Python registers with the compiled core: all of it, and nothing else."""

import subprocess
import sys

import chx
import pytest
from chx import _callbacks, _core

NAMES = """Backend as_array_like as_grad_stopped as_indices as_operand backward call_with_keywords connect_default getitem_by_arrays
new_ndarray Number reduce_device repr_array setitem_by_arrays signature to_numpy""".split()


def never(*args, **kwargs):
    raise AssertionError("this was registered after all")


def refused(**callbacks):
    """The error of a registration, which leaves the one before in force."""
    with pytest.raises(TypeError) as caught:
        _core._register(**callbacks)
    assert chx.array([1.0, 2.0])[[1]].tolist() == [2.0]
    return str(caught.value)


def test_unknown_callback():
    names = [*NAMES, "to_cupy"]
    assert refused(**dict.fromkeys(names, never)) == "[_register] got an unknown callback 'to_cupy'"


@pytest.mark.parametrize("missing", NAMES)
def test_missing_callback(missing):
    given = dict.fromkeys(set(NAMES) - {missing}, never)
    assert refused(**given) == f"[_register] expects a callback '{missing}', got none"


def test_callback_that_cannot_be_called():
    given = {**dict.fromkeys(NAMES, never), "signature": "text"}
    assert refused(**given) == "[_register] expects 'signature' to be callable, got str"


def test_callbacks_have_names():
    with pytest.raises(TypeError, match="expects callbacks by name"):
        _core._register(never)


def test_registered_again():
    _core._register(**{**_callbacks.CALLBACKS, "repr_array": lambda a: "another text"})
    try:
        assert repr(chx.array([1.0])) == "another text"
    finally:
        _core._register(**_callbacks.CALLBACKS)
    assert repr(chx.array([1.0])).startswith("array([1.]")


def test_core_without_the_package():
    program = f"""
from importlib import machinery, util
spec = util.spec_from_file_location("chx._core", {_core.__file__!r})
core = util.module_from_spec(spec)
spec.loader.exec_module(core)
try:
    core.ndarray((2,), "float32")
except RuntimeError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[_core] expects 'new_ndarray' to be registered: import chx first\n"
