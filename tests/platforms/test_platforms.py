"""Portable programs have one digest on each kind of processor that this machine has or can play."""

from __future__ import annotations

import numpy as np
import pytest

from tests.platforms.compare import able_processors, compare, compare_random, few_cases, judge
from tests.platforms.processors import PROCESSORS

pytest.importorskip("llvmlite", reason="machine code is an extra")


def test_programs_have_one_digest() -> None:
    """Some programs, on all kinds that can run here: SSE2 and AVX2 on x86-64, others with an emulator or node."""
    kinds, _ = able_processors()
    table = compare(few_cases(), kinds)
    assert {row[kind] for row in table.values() for kind in kinds} <= {"same"}, table


def test_random_programs_have_one_digest() -> None:
    """Two of them, of which one is a gradient; ``python -m tests.platforms random`` runs more."""
    lines: list[str] = []
    verdicts = compare_random(2, 0, ["SSE2", "AVX2"], lines.append)
    assert all(set(counts) <= {"same"} for counts in verdicts.values()), lines


def test_each_kind_is_run_or_says_what_it_needs() -> None:
    """Nothing is left out in silence."""
    kinds, missing = able_processors()
    assert {*kinds, *missing} == set(PROCESSORS)
    assert all(missing.values())


def test_a_difference_is_told_with_its_size() -> None:
    """In the last bit, of a zero's sign, and of a refusal on one kind alone."""
    one = [np.array([1.0, 2.0])]
    assert judge([np.nextafter(one[0], 3)], one).startswith("differs by 4.4")
    assert judge([np.array([-0.0])], [np.array([0.0])]) == "differs by 0"
    assert judge("no portable form", one) == "no portable form"
