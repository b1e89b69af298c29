"""Reductions of the second tier: 32 lanes that no vector's width changes, joined to the loops that make their operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import afx
from afx.compiler.native_backend.program.leaves import Nest

pytest.importorskip("llvmlite", reason="machine code is an extra")

from tests.compiler.native_backend.native_run import Native, same_bits, use_threads

WIDE = np.longdouble


def lanes_of(x: Any) -> Any:
    """Return the sum of a row as the docstring of the emitter says it: lanes, totals with their rests, halves."""
    x = np.asarray(x)
    lanes = np.full(32, -0.0, x.dtype)
    totals, rests = lanes.copy(), lanes.copy()
    for start in range(0, len(x), 1024):
        for k, value in enumerate(x[start : start + 1024]):
            lanes[k % 32] += value
        if len(x) > 1024:
            both = totals + lanes
            there = both - totals
            rests = rests + ((totals - (both - there)) + (lanes - there))
            totals, lanes = both, np.full(32, -0.0, x.dtype)
    found = totals + rests if len(x) > 1024 else lanes
    while len(found) > 1:
        found = found[: len(found) // 2] + found[len(found) // 2 :]
    return found[0]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("count", [1, 3, 31, 33, 77, 1024, 1025, 2600])
def test_sums_are_those_of_32_lanes(count: int, dtype: str) -> None:
    """A sum has the stated order, whether its elements lie next to each other, are computed on the way, or lie apart."""
    wide = np.random.default_rng(count).normal(size=(count, 2)).astype(dtype)
    x = np.ascontiguousarray(wide[:, 0])
    want = lanes_of(x)
    assert same_bits(Native(afx.sum, x, tier=2)(x)[0][0], want)
    assert same_bits(Native(lambda y: afx.sum(y[:, 0]), wide, tier=2)(wide)[0][0], want)
    (total, doubled), _ = Native(lambda x: (afx.sum(x * 2), x * 2), x, tier=2)(x)
    assert same_bits(total, lanes_of(x * 2))
    assert same_bits(doubled, x * 2)


def test_sums_within_functions_that_call_numpy() -> None:
    """Sums of what NumPy's loops compute strip by strip are those of their values."""
    x = np.random.default_rng(0).normal(size=1000)
    (total, z), _ = Native(lambda x: (afx.sum(afx.arctan(x)), afx.arctan(x)), x, tier=2)(x)
    assert same_bits(z, np.arctan(x))
    assert same_bits(total, lanes_of(np.arctan(x)))


def test_sums_behind_several_functions() -> None:
    """Functions that share a nest have loops of their own over strips: their values, and sums of them, keep their bits."""
    for dtype, count in (("f4", 3000), ("f8", 1500), ("f4", 70)):
        x = np.random.default_rng(count).uniform(0.1, 2, count).astype(dtype)

        def fn(x: Any) -> Any:
            y = np.exp(x) * np.sin(x) + np.log(x)
            return afx.sum(y), y, np.tanh(y)

        (total, y, z), _ = Native(fn, x, tier=2)(x)
        assert same_bits(total, lanes_of(y))
        single = [Native(f, x, tier=2)(x)[0][0] for f in (np.exp, np.sin, np.log)]
        assert same_bits(y, single[0] * single[1] + single[2])
        assert same_bits(z, Native(np.tanh, y, tier=2)(y)[0][0])


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (1, 2), (0, 2), None])
@pytest.mark.parametrize("reduce", [afx.sum, afx.max, afx.min])
def test_any_axes(reduce: Any, axis: Any) -> None:
    """Reductions along any axes, alone and beside what they reduce, agree with longdouble's."""
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=(5, 33, 7)) for _ in range(2))

    def fn(x: Any, y: Any) -> Any:
        return reduce(x * y, axis=axis), x * y, reduce(x, axis=axis)

    found, _ = Native(fn, x, y, tier=2)(x, y)
    name = {afx.sum: "sum", afx.max: "max", afx.min: "min"}[reduce]
    for z, value in ((found[0], x * y), (found[2], x)):
        want = getattr(np, name)(value.astype(WIDE), axis=axis)
        assert z.shape == np.shape(want)
        assert np.abs(z - want).max() <= (2e-15 * 10 if name == "sum" else 0)
    assert same_bits(found[1], x * y)


def test_value_and_gradient_share_one_loop() -> None:
    """A loss of one shape and its gradient are one loop over memory."""
    x = np.linspace(0.1, 1, 100)
    native = Native(afx.value_and_grad(lambda x: afx.sum(np.exp(-x * x) * np.tanh(x))), x, tier=2)
    (step,) = native.program.block.steps
    assert isinstance(step, Nest)
    assert len(step.folds) == 1
    assert len(step.stores) == 1


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_long_sums_are_accurate(dtype: str) -> None:
    """A million numbers are summed to two units of the last place, where plain lanes lose more."""
    x = np.random.default_rng(2).uniform(0, 1, 1_000_000).astype(dtype)
    (total,), _ = Native(afx.sum, x, tier=2)(x)
    exact = np.sum(x.astype(WIDE))
    assert abs(total - exact) <= 2 * np.spacing(total)


def test_special_elements() -> None:
    """Infinities, nan and zeros come out as from NumPy's sums and extremes, in long sums too."""
    for count in (5, 3000):
        for special, total in (
            ([np.inf], np.inf),
            ([-np.inf], -np.inf),
            ([np.inf, -np.inf], np.nan),
            ([np.nan], np.nan),
        ):
            x = np.ones(count)
            x[1 : 1 + len(special)] = special
            for fn, want in ((afx.sum, total), (afx.max, np.max(x)), (afx.min, np.min(x))):
                assert same_bits(Native(fn, x, tier=2)(x)[0][0], np.float64(want)), (count, special)
    negative = np.full(5, -0.0)
    assert same_bits(Native(afx.sum, negative, tier=2)(negative)[0][0], np.float64(-0.0))
    assert Native(afx.max, np.array([1.0, np.nan, 2.0]), tier=2)(np.array([1.0, np.nan, 2.0]))[1] == 0


ROWS = [
    ((300, 5), 0),
    ((40, 64), 0),
    ((6, 9, 33), 1),
    ((7, 4, 3, 18), (1, 2)),
    ((5, 6, 7, 16, 1), (2,)),
    ((70, 64, 30), 1),
    ((3, 300), 0),
]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("shape", "axis"), ROWS)
def test_rows_of_what_a_loop_makes_are_added_one_after_the_other(shape: tuple[int, ...], axis: Any, dtype: str) -> None:
    """Sums and products along other axes than the last one have the first tier's bits, with nan and zeros too."""
    rng = np.random.default_rng(3)
    x, y = (rng.normal(size=shape).astype(dtype) for _ in range(2))
    rough = [
        rng.choice(np.array([0.0, -0.0, 1.5, np.inf, np.nan], dtype), shape, p=[0.3, 0.4, 0.28, 0.01, 0.01])
        for _ in "xy"
    ]

    def fn(x: Any, y: Any) -> Any:
        return afx.sum(x * y, axis=axis), afx.sum(abs(x) + y, axis=axis), afx.prod(x + y, axis=axis)

    negative = np.full(shape, -0.0, dtype)
    for tier in (1, 2):
        native = Native(fn, x, y, tier=tier)
        alone = Native(lambda x, y: afx.prod(x + y, axis=axis), x, y, tier=tier, compiled=False).program.block
        assert [len(step.stores) for step in alone.all_steps() if isinstance(step, Nest) and step.folds] == [0]
        for args in ((x, y), rough, (x, x), (negative, abs(negative))):
            found, errors = native(*args)
            with np.errstate(all="ignore"):
                want = native.plan(*args)
            for z, w in zip(found, want, strict=True):
                assert same_bits(z, w) if tier == 1 else np.allclose(z, w, rtol=1e-5, atol=1e-5, equal_nan=True)
            assert errors == 0 or args is rough
        with use_threads(1):
            single = native(x, y)[0]
        assert all(same_bits(a, b) for a, b in zip(single, native(x, y)[0], strict=True))
