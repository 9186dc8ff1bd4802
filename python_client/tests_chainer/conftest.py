"""Chainer on chx, in the process of a test. Random inputs come from a seed that is printed."""

import os

import chx
import chx.chainer
import numpy as np
import pytest

SEED = int(os.environ.get("CHX_TEST_SEED", 0)) or int.from_bytes(os.urandom(4), "little")


def pytest_report_header():
    return f"CHX_TEST_SEED={SEED}"


@pytest.fixture(autouse=True)
def settings():
    """Every test starts with the same settings, and its own numbers from the seed."""
    np.random.seed(SEED % 2**32)
    chx.config.fallback = "raise"
    yield
    chx.config.fallback = "warn"
    chx.chainer.clear_fallbacks()


@pytest.fixture
def rng():
    print(f"CHX_TEST_SEED={SEED}")
    return np.random.default_rng(SEED)


@pytest.fixture
def device():
    """Chainer's device that most tests are on, by default: $CHX_TEST_DEVICE, or native:0."""
    import chainer

    device = chainer.get_device(os.environ.get("CHX_TEST_DEVICE", "native:0"))
    with device.create_context():
        yield device
