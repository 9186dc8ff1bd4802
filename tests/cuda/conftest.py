"""What tests of plans on an emulated GPU share: a session beside it, and random inputs from a printed seed."""

import chx
import numpy as np
import pytest

SEED = np.random.SeedSequence().entropy % 2**32


@pytest.fixture
def rng():
    print("seed", SEED)
    return np.random.default_rng(SEED)


@pytest.fixture(scope="module")
def session():
    with chx.connect(devices="native:0,cuda:0") as session:
        yield session
