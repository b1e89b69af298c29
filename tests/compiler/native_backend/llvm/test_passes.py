"""LLVM's passes: few where vectors are written out, its own pipeline elsewhere."""

from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.service.child import FEW_PASSES, UNROLL, compile_text
from afx.compiler.native_backend.service.link import link
from tests.compiler.native_backend.native_run import Native, assert_same_bits, use_limits

LONG = np.linspace(-1, 1, 20_000)


def chain(x: Any) -> Any:
    """Return functions of each element, and their sum."""
    return np.tanh(x) * np.exp(-x * x), (np.sin(x) * x).sum()


def turned(x: Any) -> Any:
    """Return the sum of two orders of the same elements."""
    return x.reshape(100, 200).T * 2 + x.reshape(200, 100)


def passes_of(fn: Any, *args: Any, tier: int = 2) -> str:
    """Return what the first line of a function's module asks for: few passes, unrolling, or LLVM's own pipeline."""
    line = Native(fn, *args, tier=tier).text.partition("\n")[0]
    return {FEW_PASSES: "few", UNROLL: "unroll"}.get(line, "stock")


@pytest.mark.parametrize("tier", [1, 2])
def test_loops_over_vectors_need_few_passes(tier: int) -> None:
    """Long elementwise chains, their sums, and copies ask for few passes; so do short loops of any kind."""
    assert passes_of(chain, LONG, tier=tier) == "few"
    assert passes_of(lambda x: x[::-1] * 2, np.arange(50.0), tier=tier) == "few"


@pytest.mark.parametrize("tier", [1, 2])
def test_loops_over_elements_and_short_rows_are_unrolled(tier: int) -> None:
    """What reads elements far apart, or many short rows, asks for unrolling besides."""
    assert passes_of(lambda x: x.reshape(100, 200).T + 0.0, LONG, tier=tier) == "unroll"
    assert passes_of(lambda x: x.reshape(5000, 4) * np.arange(4.0), LONG, tier=tier) == "unroll"
    assert passes_of(lambda x: (x * x).sum(axis=1), LONG.reshape(200, 100)) == "unroll"


def test_loops_of_short_turns_need_the_stock_pipeline() -> None:
    """Scans ask for LLVM's own pipeline, which keeps what does not change in registers."""
    assert passes_of(lambda x: afx.scan(lambda y, _: (y * 0.5 + 1, None), x, None, 10)[0], np.ones(100)) == "stock"


def test_branches_are_no_loops() -> None:
    """A branch runs once, and asks for no more passes than what stands in it."""

    def halved(x: Any) -> Any:
        return afx.cond(x[0] > 0, lambda x: np.tanh(x) * 2, np.sin, x)

    assert passes_of(halved, LONG) == "few"
    assert passes_of(lambda x: afx.cond(x[0] > 0, turned, lambda x: x.reshape(200, 100), x), LONG) == "unroll"
    assert passes_of(lambda x: afx.fori_loop(0, 9, lambda _, x: halved(x), x), np.ones(100)) == "stock"


def test_short_rows_that_take_little_time_change_nothing() -> None:
    """A program spends its time where its long rows are; a long loop body of such rows needs few passes too."""
    rows = LONG.reshape(5000, 4)
    assert passes_of(lambda x, y: (np.tanh(x), y * np.arange(4.0)), LONG[:200], rows, tier=1) == "unroll"
    assert passes_of(lambda x, y: (np.tanh(np.tanh(x)), y * np.arange(4.0)), LONG, rows, tier=1) == "few"

    weights = np.linspace(-1, 1, 64 * 64).reshape(64, 64)

    def loop(x: Any) -> Any:
        return afx.scan(lambda h, _: (np.tanh(h @ weights) * h, None), x, None, 10)[0]

    assert passes_of(loop, np.ones((8, 64)), tier=1) == "stock"
    with use_limits(passes_loop_min_characters=1000):
        assert passes_of(loop, np.ones((8, 64)), tier=1) == "few"


@pytest.mark.parametrize("fn", [chain, turned])
@pytest.mark.parametrize("tier", [1, 2])
def test_passes_change_no_bit(tier: int, fn: Any) -> None:
    """A module gives the same bits by few passes, with unrolling or without, as by LLVM's own pipeline."""
    native = Native(fn, LONG, tier=tier)
    found, _ = native(LONG)
    text = native.text.partition("\n")[2]
    assert native.text.startswith((FEW_PASSES, UNROLL))
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
