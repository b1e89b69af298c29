"""Sources of plans that run as machine code: kernels as pseudo-code, and what is left to NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.target import use_target
from tests.compiler.native_backend.native_run import FIRST_TIER, by_numpy


def source_of(fn: Any, *args: Any) -> str:
    """Return the source of a function's plan, compiled before its first call."""
    text: str = afx.jit(fn, backend="native").lower(*args).plan.source
    return text


def test_loops_show_what_they_compute() -> None:
    """A nest is a loop with its operations, stores and reductions."""
    text = source_of(afx.value_and_grad(lambda x: afx.sum(afx.exp(-x * x))), np.ones(1000, np.float32))
    assert text.startswith("# machine code: ")
    assert "def native_0(p0: f4[1000], p1: f4[], p2: f4[1000]):" in text
    assert "    for i in 1000:" in text
    assert "exp(" in text
    assert "p1[0] = sum of " in text
    assert "NumPy's:" not in text


def test_calls_of_numpy_stand_beside_with_their_reason() -> None:
    """Instructions without native form are named with the reason, and their calls are shown."""
    text = source_of(lambda x: np.exp(by_numpy(x) * 2) + 1, np.ones(50))
    assert "  (jv has no native form)" in text
    assert "native_0(b, " in text
    assert "def run(a):" in text


def test_control_flow_and_products() -> None:
    """Loops, branches, products and indexing have readable forms."""
    w, x = np.ones((8, 8)), np.ones(8)
    text = source_of(lambda w, x: afx.scan(lambda h, r: (np.tanh(h @ w) + r, h), x, np.ones((5, 8))), w, x)
    assert "for t in range(5):" in text
    assert "@ p0  # 1 × 1 × 8 × 8: sums in registers" in text
    assert "p2_next[i] = (tanh(m" in text
    assert "p2 = p2_next" in text
    text = source_of(lambda x: afx.while_loop(lambda c: c.sum() < 50, lambda c: c * 1.1, x), x)
    assert "while True:" in text
    assert ": break" in text
    text = source_of(
        lambda x, i: (x.at[i].add(1.0), afx.cond(x[0] > 0, lambda a: a + 1, lambda a: a - 1, x)), x, np.arange(3)
    )
    assert "bounds checked" in text
    assert "case 1:" in text


def test_what_threads_share() -> None:
    """Loops that threads share parts of say so, within loops too."""
    u = np.ones((300, 300))
    text = source_of(lambda u: afx.scan(lambda u, _: (u[::-1] * 0.5 + u, u[0]), u, None, 500), u)
    assert "for i, j in 300 × 300:  # shared by threads" in text
    with use_target(FIRST_TIER):
        text = afx.jit(lambda x: afx.nn.softmax(x, 1)).lower(np.ones((600, 500))).plan.source
    assert re.search("for b in .* blocks:  # shared by threads", text)
    assert "shared" not in source_of(lambda x: np.sqrt(x) + x[::-1], u)


def test_random_words() -> None:
    """Draws name their generator."""
    key = afx.random.key(0)
    assert "philox(p0)" in source_of(lambda key: afx.random.uniform(key, (100,)) * 2 + 1, key)


def test_plans_without_machine_code_show_numpys_calls() -> None:
    """Where NumPy runs, its lines are all there is."""
    text = afx.jit(lambda x: x * 2, backend="numpy").lower(np.ones(3)).plan.source
    assert "machine code" not in text
    assert "np_multiply(" in text
