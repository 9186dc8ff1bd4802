"""Each scenario for a second, with a seed of the day; a failure names it."""

import os

import pytest

from .scenarios import SCENARIOS

SECONDS = 1


@pytest.mark.parametrize("name", SCENARIOS)
def test(name):
    seed = int(os.environ.get("CHX_FAULTS_SEED", 0)) or int.from_bytes(os.urandom(3), "little")
    SCENARIOS[name](seed, SECONDS)
