"""Masked products: gradients of choices multiply whole matrices, and what was not chosen counts as nothing all the same."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx.compiler.graph.rewrite_rules import simplify
from afx.compiler.target import Target, use_target
from afx.core.graph import Graph

RNG = np.random.default_rng(5)
X, W, SIGNS = RNG.normal(size=(300, 6)), RNG.normal(size=6), RNG.choice([-1.0, 1.0], 300)
MATRIX, SHIFT = RNG.normal(size=(6, 4)), RNG.normal(size=4)
EAGER = Target(unmask_min_elements=16)


def hinge(w: Any, x: Any, signs: Any) -> Any:
    """Return the loss of a support vector machine, by where."""
    margin = 1 - signs * (x @ w)
    return afx.sum(afx.where(margin > 0, margin, 0.0))


def units(w: Any, x: Any, shift: Any) -> Any:
    """Return the sum of the squares of units that are cut off by where, with a row of which none is active."""
    z = x @ w + shift
    return afx.sum(afx.where((z > 0) & (x[:, :1] > 0), z, 0.0) ** 2)


def turned(w: Any, x: Any, signs: Any) -> Any:
    """Return the loss of a matrix whose columns are the examples."""
    return hinge(w, x.T, signs)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a vector": (hinge, (W, X, SIGNS)),
    "a matrix": (units, (MATRIX, X, SHIFT)),
    "columns": (turned, (W, np.ascontiguousarray(X.T), SIGNS)),
}


def simple(fn: Callable[..., Any], args: tuple[Any, ...], target: Target = EAGER) -> Graph:
    """Return the simplified graph of a gradient."""
    return simplify(afx.trace(afx.grad(fn))(*args), target, expanding=True)


def masks_matrix(graph: Graph) -> bool:
    """Tell whether a matrix as large as the examples is masked."""
    return any(eq.primitive.name == "where" and eq.outputs[0].aval.size >= X.size for eq in graph.equations)


def test_the_hinge_loss_masks_no_matrix() -> None:
    """Unless it is small, where a copy costs less than a look at the result."""
    assert not masks_matrix(simple(hinge, (W, X, SIGNS)))
    assert masks_matrix(simple(hinge, (W, X, SIGNS), Target()))


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_an_eager_call(name: str) -> None:
    """One product that is looked at, and another in a branch."""
    fn, args = CASES[name]
    assert simple(fn, args).counts().get("switch") == 1
    with use_target(EAGER):
        found = afx.jit(afx.grad(fn))(*args)
    np.testing.assert_allclose(np.asarray(found), np.asarray(afx.grad(fn)(*args)), rtol=1e-12)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_was_not_chosen_counts_as_nothing(value: float) -> None:
    """An example that is far on the right side, and infinite or unknown elsewhere, has no part in the gradient."""
    x = X.copy()
    x[3] = value
    known = afx.where(np.arange(300) == 3, 0.0, 1.0)

    def loss(w: Any, x: Any, signs: Any) -> Any:
        margin = 1 - signs * (x @ w)
        return afx.sum(afx.where((known > 0) & (margin > 0), margin, 0.0))

    rest = np.delete(np.arange(300), 3)
    margin = 1 - SIGNS[rest] * (X[rest] @ W)
    want = -(SIGNS[rest] * (margin > 0)) @ X[rest]
    with use_target(EAGER), np.errstate(invalid="ignore"):
        assert not masks_matrix(simple(loss, (W, x, SIGNS)))
        found = afx.jit(afx.grad(loss))(W, x, SIGNS)
    np.testing.assert_allclose(np.asarray(found), want, rtol=1e-12)


def test_infinities_of_what_was_chosen_stay() -> None:
    """A gradient that is infinite is so with and without a plan."""
    x = X.copy()
    x[7, 2] = np.inf
    w = np.zeros(6)  # so that all margins are 1, or nan where an infinity meets a 0
    w[2] = -SIGNS[7]
    with use_target(EAGER), np.errstate(all="ignore"):
        found = afx.jit(afx.grad(hinge))(w, x, SIGNS)
        want = afx.grad(hinge)(w, x, SIGNS)
    assert not np.isfinite(np.asarray(want)).all()
    np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=1e-12)


def test_products_of_other_operands_stay() -> None:
    """A masked matrix times what is not 0 there is masked: inf times 0 is nan in NumPy, and a number is not."""

    def fn(u: Any, x: Any, keep: Any) -> Any:
        return u @ afx.where(keep[:, None], x, 0.0)

    graph = simplify(afx.trace(fn)(SIGNS, X, SIGNS > 0), EAGER, expanding=True)
    assert masks_matrix(graph)


@pytest.mark.parametrize("tier", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_machine_code_has_the_same_bits(name: str, tier: int) -> None:
    """With and without examples that count as nothing."""
    pytest.importorskip("llvmlite", reason="machine code is an extra")
    from tests.compiler.native_backend.native_run import Native, same_bits

    fn, args = CASES[name]
    odd = [np.array(a) for a in args]
    odd[1][0, 0] = -np.inf
    with use_target(EAGER):
        native = Native(afx.grad(fn), *args, tier=tier)
        for given in (args, odd):
            (found,), _ = native(*given)
            with np.errstate(all="ignore"):
                (want,) = native.plan(*given)
            if tier == 1:
                assert same_bits(found, want)
            np.testing.assert_allclose(found, np.asarray(want), rtol=1e-12)


def test_choices_by_a_negated_condition_exchange_their_operands() -> None:
    """``where(~c, x, y)`` is ``where(c, y, x)``."""

    def fn(c: Any, x: Any, y: Any) -> Any:
        return afx.where(~c, x, y)

    graph = simplify(afx.trace(fn)(X > 0, X, X + 1), Target(), expanding=True)
    assert set(graph.counts()) == {"where"}
