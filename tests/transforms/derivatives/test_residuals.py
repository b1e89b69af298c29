"""Residuals of loops: what a step moves or adds up is not stacked, and derivatives keep their bits."""

from typing import Any

import numpy as np
import pytest

import afx
from afx.core.graph import Graph

RNG = np.random.default_rng(2)
X, T = RNG.uniform(0.1, 1, size=(5, 3)), RNG.uniform(0.1, 1, size=(7,))


def stacked_by(fn: Any, *xs: Any) -> list[tuple[int, ...]]:
    """Return the shapes of what the forward loop of a gradient stacks."""
    graph: Graph = afx.trace(afx.grad(fn))(*map(afx.asarray, xs))
    forward = next(eq for eq in graph.equations if eq.primitive.name == "scan")
    return [v.aval.shape for v in forward.outputs[1:]]


def moves(x: Any, t: Any) -> Any:
    """Return a loop whose steps stack, permute, slice and reshape a value that they read several times."""

    def step(h: Any, _: Any) -> Any:
        e = afx.exp(h)
        both = afx.stack([e, -e], axis=1)
        turned = afx.permute_dims(both, (2, 1, 0))
        flat = afx.reshape(both, (5, 6))
        return h * 0.5 + 0.01 * (turned[:, 0] * turned[:, 1] + (flat * flat)[:, :3].T).T, None

    return (afx.scan(step, x, None, 4)[0] ** 2).sum() + t.sum()


def sums(x: Any, t: Any) -> Any:
    """Return a loop whose steps multiply by constants of the loop, and by what is kept anyway."""

    def step(h: Any, _: Any) -> Any:
        e = afx.exp(-h[:, :, None] * t)
        r = 0.5 * e - t
        return h - 0.01 * (r * (t * e) * e).sum(axis=-1), None

    return (afx.scan(step, x, None, 4)[0] ** 2).sum()


@pytest.mark.parametrize(("fn", "largest", "count"), [(moves, 15, 1), (sums, 105, 1)])
def test_few_residuals_are_stacked(fn: Any, largest: int, count: int) -> None:
    """Of all large values that the way back reads, the exponential alone is stacked."""
    shapes = stacked_by(fn, X, T)
    sizes = [int(np.prod(s[1:])) for s in shapes]
    assert max(sizes) == largest
    assert sizes.count(largest) <= count + (fn is moves), shapes


@pytest.mark.parametrize("fn", [moves, sums])
def test_derivatives_are_right(fn: Any) -> None:
    """Gradients by either operand agree with difference quotients, compiled ones with eager ones."""
    slopes = afx.jit(afx.grad(fn, argnums=(0, 1)))(X, T)
    for k, (x, slope) in enumerate(zip((X, T), slopes, strict=True)):
        way = RNG.normal(size=x.shape)
        found = float(np.sum(np.asarray(slope) * way))

        def at(s: float, k: int = k, way: Any = way) -> float:
            return float(fn(*[afx.asarray(v + s * way if n == k else v) for n, v in enumerate((X, T))]))

        assert found == pytest.approx((at(1e-6) - at(-1e-6)) / 2e-6, rel=1e-7)
    for found, want in zip(slopes, afx.grad(fn, argnums=(0, 1))(X, T), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=1e-13, atol=1e-13)


def test_large_operands_are_not_kept_for_small_results() -> None:
    """A slice of a large value that nothing else reads is kept itself."""

    def fn(x: Any) -> Any:
        def step(h: Any, _: Any) -> Any:
            big = afx.cumsum(h)
            part = big[:2] * 1.5
            return h * (1 + 0.01 * (part * part).sum()), None

        return afx.scan(step, x, None, 3)[0].sum()

    sizes = [int(np.prod(s[1:])) for s in stacked_by(fn, RNG.normal(size=50))]
    assert sizes.count(50) <= 1  # the carry, which the product with the sum reads


def test_ignored_errors_stay_ignored() -> None:
    """What is computed again on the way back ignores the floating-point errors that it ignored on the way there."""

    def fn(x: Any) -> Any:
        def step(h: Any, _: Any) -> Any:
            large = h * 1e160
            with np.errstate(over="ignore"):
                larger = large * large
            return h + afx.minimum(larger, 3.0), None

        return afx.scan(step, x, None, 2)[0].sum()

    assert np.asarray(afx.jit(afx.grad(fn))(np.ones(3))).tolist() == [1.0, 1.0, 1.0]
    assert np.asarray(afx.grad(fn)(np.ones(3))).tolist() == [1.0, 1.0, 1.0]
