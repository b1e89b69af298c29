"""LLVM's passes: few where vectors are written out, its own pipeline elsewhere."""

from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.child import FEW_PASSES, compile_text
from afx.compiler.native_backend.link import link
from tests.compiler.native_backend.native_run import Native, assert_same_bits, use_limits

LONG = np.linspace(-1, 1, 20_000)


def chain(x: Any) -> Any:
    """Return functions of each element, and their sum."""
    return np.tanh(x) * np.exp(-x * x), (np.sin(x) * x).sum()


def needs_few(fn: Any, *args: Any, tier: int = 2) -> bool:
    """Tell whether a function's module asks for few passes."""
    return Native(fn, *args, tier=tier).text.startswith(FEW_PASSES)


@pytest.mark.parametrize("tier", [1, 2])
def test_loops_over_vectors_need_few_passes(tier: int) -> None:
    """Long elementwise chains, their sums, and copies ask for few passes; so do short loops of any kind."""
    assert needs_few(chain, LONG, tier=tier)
    assert needs_few(lambda x: x[::-1] * 2, np.arange(50.0), tier=tier)
    assert needs_few(lambda x: x.reshape(100, 200).T + 0.0, LONG, tier=tier) is False
    assert needs_few(lambda x: x.reshape(5000, 4) * np.arange(4.0), LONG, tier=tier) is False


def test_loops_of_short_steps_need_the_stock_pipeline() -> None:
    """Scans, and lanes of folds over many short rows, ask for LLVM's own pipeline, which unrolls them."""
    assert not needs_few(lambda x: afx.scan(lambda y, _: (y * 0.5 + 1, None), x, None, 10)[0], np.ones(100))
    assert not needs_few(lambda x: (x * x).sum(axis=1), LONG.reshape(200, 100))


def test_short_rows_that_take_little_time_change_nothing() -> None:
    """A program spends its time where its long rows are; a long loop body of such rows needs few passes too."""
    rows = LONG.reshape(5000, 4)
    assert not needs_few(lambda x, y: (np.tanh(x), y * np.arange(4.0)), LONG[:200], rows, tier=1)
    assert needs_few(lambda x, y: (np.tanh(np.tanh(x)), y * np.arange(4.0)), LONG, rows, tier=1)

    weights = np.linspace(-1, 1, 64 * 64).reshape(64, 64)

    def loop(x: Any) -> Any:
        return afx.scan(lambda h, _: (np.tanh(h @ weights) * h, None), x, None, 10)[0]

    assert not needs_few(loop, np.ones((8, 64)), tier=1)
    with use_limits(passes_loop_min_characters=1000):
        assert needs_few(loop, np.ones((8, 64)), tier=1)


@pytest.mark.parametrize("tier", [1, 2])
def test_passes_change_no_bit(tier: int) -> None:
    """A module gives the same bits by few passes as by LLVM's own pipeline."""
    native = Native(chain, LONG, tier=tier)
    found, _ = native(LONG)
    text = native.text.removeprefix(FEW_PASSES)
    assert text != native.text
    native.kernel = link([native.program], compile_text(text, ""))[0]
    again, _ = native(LONG)
    for x, y in zip(found, again, strict=True):
        np.testing.assert_array_equal(x, y)


def test_long_programs_are_several_functions() -> None:
    """LLVM's time grows faster than a function: one of many steps calls others, with the same bits."""
    weights = np.linspace(-1, 1, 40 * 40).reshape(40, 40)

    def fn(x: Any) -> Any:
        for _k in range(130):
            x = np.tanh(x @ weights) - x.sum()
        return x, x.sum()

    native = assert_same_bits(fn, np.linspace(-1, 1, 160).reshape(4, 40))
    assert native.text.count("void @steps") == 2 * -(-len(native.program.block.steps) // 100)  # defined and called
