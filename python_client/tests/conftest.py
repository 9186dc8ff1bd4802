"""What tests against NumPy share: a session of a module's own, and random inputs from a printed seed."""

import chx
import numpy as np
import pytest

SEED = np.random.SeedSequence().entropy % 2**32


@pytest.fixture(scope="module")
def seeded_session():
    print("seed", SEED)
    with chx.connect() as session:
        yield session


@pytest.fixture
def rng():
    return np.random.default_rng(SEED)
