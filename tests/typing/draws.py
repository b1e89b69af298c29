"""What type checkers know of random numbers."""

from typing import assert_type

import numpy as np

import afx
from afx import Array, nn, random


def keys(seed: int) -> None:
    key = random.key(seed)
    assert_type(key, Array)
    first, second = random.split(key)
    assert_type(first, Array)
    assert_type(random.fold_in(second, 3), Array)


def draws(key: Array) -> None:
    assert_type(random.normal(key, (2, 3), loc=1.0, scale=np.ones(3)), Array)
    assert_type(random.gamma(key, 2.0, 5, dtype=afx.float64), Array)
    assert_type(random.choice(key, 5, (2,), replace=False), Array)
    assert_type(random.poisson(key, np.ones(3)), Array)


def layers(key: Array) -> None:
    assert_type(nn.MLP.create(key, [2, 3]), nn.MLP)
    assert_type(nn.MLP.create(0, [2, 3]), nn.MLP)
