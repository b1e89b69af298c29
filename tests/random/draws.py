"""Every draw, as a function of its key: small enough for loops, large enough to meet every branch."""

from collections.abc import Callable
from typing import Any

import numpy as np

import afx
from afx import random

HIGH = np.array([1, 7, 2**40])

DRAWS: dict[str, Callable[[Any], Any]] = {
    "bits": lambda k: random.bits(k, (3, 50)),
    "bits of 64": lambda k: random.bits(k, 40, dtype=afx.uint64),
    "split": lambda k: random.split(k, 4),
    "fold_in": lambda k: random.fold_in(k, 3),
    "uniform": lambda k: random.uniform(k, (3, 50)),
    "one uniform": random.uniform,
    "uniform between": lambda k: random.uniform(k, (3, 50), np.float64(-1), 5.0),
    "normal": lambda k: random.normal(k, (3, 50)),
    "one normal": random.normal,
    "normal in float64": lambda k: random.normal(k, (50,), 1.0, np.arange(50.0)),
    "normal in float16": lambda k: random.normal(k, 40, dtype=afx.float16),
    "randint": lambda k: random.randint(k, 0, HIGH, (40, 3)),
    "randint in int8": lambda k: random.randint(k, -100, 100, 40, dtype=afx.int8),
    "bernoulli": lambda k: random.bernoulli(k, 0.3, 100),
    "rademacher": lambda k: random.rademacher(k, 100),
}
