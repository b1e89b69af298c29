"""What every test has: plots without a screen, reproducible random data, hypothesis without surprises."""

import os

os.environ.setdefault("MPLBACKEND", "Agg")

import hypothesis
import numpy as np
import pytest

hypothesis.settings.register_profile("afx", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("afx")


@pytest.fixture
def rng() -> np.random.Generator:
    """A random generator with a fixed seed, fresh for each test."""
    return np.random.default_rng(20240607)
