"""Views that copy run as soon as what they look at is there, so that the loops around them are one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.program.leaves import Nest
from tests.compiler.native_backend.native_run import assert_same_bits


def step(x: Any, y: Any) -> Any:
    """Return a step of a wave on a ring, with a neighbour that a view of a result gives, too."""
    pull = np.roll(x, 1) - 2.0 * x + np.roll(x, -1)
    z = 2.0 * x - y + 0.25 * pull
    return z, np.roll(z, 3) - x


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_loops_between_copies_are_one(dtype: str) -> None:
    """Neighbours on a ring are copied first; then one loop computes what needs no copy of its results."""
    x, y = np.random.default_rng(0).normal(size=(2, 100)).astype(dtype)
    native = assert_same_bits(step, x, y)
    nests = [s for s in native.program.block.all_steps() if isinstance(s, Nest) and s.operations]
    assert len(nests) == 2
