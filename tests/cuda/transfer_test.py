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


@pytest.mark.parametrize("megabytes", [0.1, 1, 2, 5, 33])
def test_large_values_pass_in_parts(megabytes):
    values = np.random.default_rng().integers(0, 255, int(megabytes * (1 << 20)) + 3, np.uint8)
    a = chx.array(values, device="cuda:0")
    b = chx.array(values[::-1], device="cuda:0")
    np.testing.assert_array_equal(chx.to_numpy(a), values)
    np.testing.assert_array_equal(chx.to_numpy(b), values[::-1])
    np.testing.assert_array_equal(chx.to_numpy((a + 1)[::-1]), (values + 1)[::-1])


def test_between_devices():
    values = np.random.default_rng().normal(size=(700, 1001)).astype(np.float32)
    a = chx.array(values, device="cuda:0")
    host = a.to_device("native:0")
    np.testing.assert_array_equal(chx.to_numpy(host), values)
    np.testing.assert_array_equal(chx.to_numpy((host + 1).to_device("cuda:0")), values + 1)


def test_the_host_is_there_too():
    with chx.connect(devices="cuda:0") as session:
        assert [device.name for device in session.devices] == ["cuda:0", "native:0"]
        values = np.random.default_rng().normal(size=1 << 20)
        with chx.using_device(session.devices[0]):
            np.testing.assert_array_equal(chx.to_numpy(chx.array(values) + 1), values + 1)
