"""--gpu 0 of Chainer's programs where the daemon serves no GPU; tests/cuda has the other case."""

import chainer
import chx
import pytest
from chainer.backends import cuda


@pytest.mark.parametrize("spec", [0, "0", "@cupy:0", 3])
def test_a_gpu_that_is_not_served(spec):
    number = str(spec)[-1]
    with chx.connect(devices="native:0,native:1"), pytest.raises(RuntimeError) as raised:
        chainer.get_device(spec)
    text = str(raised.value)
    assert f"cuda:{number}" in text and "serves native:0, native:1" in text


def test_older_programs():
    with chx.connect(devices="native:0"):
        assert cuda.get_device_from_id(None) is cuda.get_device_from_id(-1) is cuda.DummyDevice
        with pytest.raises(RuntimeError, match="--devices=cuda:1"):
            cuda.get_device_from_id(1)
        with pytest.raises(ValueError, match="the number of a GPU"):
            cuda.GpuDevice.from_device_id("0")


def test_numbers_below_0_are_the_cpu():
    assert chainer.get_device(-1) == chainer.get_device("@numpy")
