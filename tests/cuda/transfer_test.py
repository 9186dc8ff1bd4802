"""Values between the client and a device whose memory the host has no pointer to."""

import chx
import numpy as np
import pytest

VALUES = np.arange(12, dtype=np.int16).reshape(3, 4)


@pytest.mark.parametrize("copy", [False, True])
def test_to_numpy_is_a_copy(copy):
    a = chx.array(VALUES, device="cuda:0")
    values = chx.to_numpy(a, copy)
    assert values.flags.writeable and values.flags.c_contiguous
    values += 1
    np.testing.assert_array_equal(chx.to_numpy(a), VALUES)


@pytest.mark.parametrize("part", [np.s_[:, ::2], np.s_[::-1, 1:], np.s_[::2, ::-3]], ids=repr)
def test_asarray_keeps_strides(part):
    a = chx.asarray(VALUES[part], device="cuda:0")
    assert a.strides == VALUES[part].strides and a.device.name == "cuda:0"
    np.testing.assert_array_equal(chx.to_numpy(a * 2), VALUES[part] * 2)
    b = chx.ones(a.shape, "int16", device="cuda:0")
    b += a
    np.testing.assert_array_equal(chx.to_numpy(b), VALUES[part] + 1)
