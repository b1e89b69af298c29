"""Errors of portable functions are within the bounds of the guide, on a small sample of ``python -m tests.portable.errors``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="machine code is an extra")
pytest.importorskip("mpmath", reason="the exact values are mpmath's")

from tests.every import together
from tests.portable.errors import ELEMENTARY, FUNCTIONS, worst

GUIDE = Path(__file__).parents[2] / "examples" / "guides" / "one_hash.md"


@together("name", ELEMENTARY)
def test_elementary_functions_are_within_an_ulp(name: str) -> None:
    """Of float64 below one unit in the last place, of float32 below 0.51."""
    assert worst(name, np.float64, 200) < 1.0
    assert worst(name, np.float32, 100) < 0.51


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in ELEMENTARY])
def test_other_functions_are_within_their_bounds(name: str) -> None:
    """Of float64 below 12 units in the last place, which exponents of erfc and ndtr alone exceed."""
    assert worst(name, np.float64, 400) < (64.0 if name in ("erfc", "ndtr") else 12.0)


def test_the_guide_has_a_line_for_each_function() -> None:
    """The table, as the command prints it."""
    text = GUIDE.read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in text for name in FUNCTIONS)
