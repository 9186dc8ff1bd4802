"""--gpu 0 of Chainer's programs is the daemon's cuda:0."""

import chx.chainer  # isort: skip  # before chainer

import chainer
import chx
import numpy as np
import pytest
from chainer.backends import cuda


@pytest.fixture(autouse=True)
def session():
    with chx.connect(devices="native:0,cuda:0") as session:
        yield session


@pytest.mark.parametrize("spec", [0, "0", "@cupy:0"])
def test_numbers_name_the_daemons_device(spec):
    device = chainer.get_device(spec)
    assert device == chainer.get_device("cuda:0")
    assert device.send(np.ones(2, "f")).device is chx.get_device("cuda:0")


def test_older_programs():
    device = cuda.get_device_from_id(0)
    assert device == cuda.GpuDevice.from_device_id(0) == chainer.get_device("cuda:0")
    device.use()
    model = chainer.links.Linear(3, 2)
    model.to_device(device)
    y = model(device.send(np.ones((1, 3), "f")))
    assert y.array.device is chx.get_device("cuda:0")
    with pytest.raises(RuntimeError, match="--devices=cuda:1"):
        cuda.get_device_from_id(1)
