"""A session, and random inputs from a printed seed."""

import os

import chx
import chx.chainer  # before Chainer
import numpy as np
import pytest

SEED = int(os.environ.get("CHX_TEST_SEED", 0)) or int.from_bytes(os.urandom(4), "little")


def pytest_report_header():
    return f"CHX_TEST_SEED={SEED}"


@pytest.fixture(scope="module", autouse=True)
def session():
    with chx.connect() as session:
        yield session


@pytest.fixture
def rng():
    print(f"CHX_TEST_SEED={SEED}")
    return np.random.default_rng(SEED)
