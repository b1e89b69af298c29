"""What every test has: plots without a screen, reproducible random data, hypothesis without surprises."""

import gc
import os

os.environ.setdefault("MPLBACKEND", "Agg")

import hypothesis
import numpy as np
import pytest

hypothesis.settings.register_profile("afx", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("afx")


def pytest_collection_finish() -> None:
    """Keep what was collected, which lives as long as the process, out of the garbage collector's sight.

    Each of its full rounds, and some tests ask for hundreds of them, would go through all of it: a second.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def rng() -> np.random.Generator:
    """A random generator with a fixed seed, fresh for each test."""
    return np.random.default_rng(20240607)
