"""What is not selected has derivative 0, whatever the formula is there: slices, indices, gathers, splits, updates."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array
from tests.every import together

X = np.array([0.0, 1.0, 4.0, 9.0])  # the root has an infinite slope at the first
FROM_1 = np.array([1, 3])
SELECTIONS: dict[str, Callable[[Any], Any]] = {
    "slice": lambda y: y[1:],
    "integer": lambda y: y[2],
    "strides": lambda y: y[::2][1:],
    "reversed": lambda y: y[::-1][:-1],
    "gather": lambda y: y[FROM_1],
    "take": lambda y: afx.take(y, FROM_1),
    "take_along_axis": lambda y: afx.take_along_axis(y, FROM_1, axis=0),
    "split": lambda y: afx.split(y, [1])[1],
    "unstack": lambda y: afx.unstack(y)[3],
    "iteration": lambda y: list(y)[2],
    "set": lambda y: y.at[0].set(5.0),
    "set at indices": lambda y: y.at[np.array([0])].set(5.0),
    "behind structure": lambda y: afx.concat([afx.roll(y.reshape(2, 2), 1, axis=0).T.reshape(-1), y])[[0, 2, 3]],
    "in rows": lambda y: y.reshape(2, 2)[1] * y.reshape(2, 2)[:, 1],
    "overlapping": lambda y: (y[2:] - y[1:-1]) * y[1:3],
    "before arithmetic": lambda y: (y + 1.0)[1:] * 2.0 - (3.0 * y)[1:],
}
FORMULAS: dict[str, Callable[[Any], Any]] = {
    "sqrt": afx.sqrt,
    "x log x": lambda x: x * afx.log(x),
    "1/x": lambda x: 1.0 / x,
    "x/x": lambda x: x / x * x,
    "x ** 0.5": lambda x: x**0.5 + x,
    "norm of a root": lambda x: afx.sqrt(x * x) * afx.sin(x),
}
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the forward pass, at 0


def derivatives(fn: Callable[[Any], Any]) -> list[Callable[[Any], Any]]:
    """Return the gradient of the sum of squares of a function, eager and compiled."""
    loss = lambda x: afx.sum(fn(x) * fn(x))
    return [afx.grad(loss), afx.jit(afx.grad(loss)), afx.grad(afx.jit(loss))]


@together("formula", FORMULAS)
@together("selection", SELECTIONS)
def test_first_order(selection: str, formula: str) -> None:
    """The gradient is 0 at the place left out, and elsewhere what it is where the formula is finite."""
    fn = lambda x: SELECTIONS[selection](FORMULAS[formula](x))
    finite = X + np.array([0.5, 0.0, 0.0, 0.0])
    for run in derivatives(fn):
        g, wanted = np.asarray(run(X)), np.asarray(run(finite))
        assert g[0] == 0.0 == wanted[0]
        np.testing.assert_allclose(g, wanted, rtol=1e-12)


@together("selection", SELECTIONS)
def test_second_order_and_batches(selection: str) -> None:
    """So are second derivatives, of both nestings, and rows of a batch."""
    fn = lambda x: afx.sum(SELECTIONS[selection](afx.sqrt(x)) ** 3)
    finite = X + np.array([0.5, 0.0, 0.0, 0.0])
    want = np.asarray(afx.hessian(fn)(finite))
    for run in (afx.hessian(fn), afx.jit(afx.hessian(fn)), afx.jacrev(afx.grad(fn)), afx.jit(afx.jacrev(afx.grad(fn)))):
        np.testing.assert_allclose(np.asarray(run(X)), want, rtol=1e-10, atol=1e-12)
    rows = np.stack([X, finite])
    for run in (afx.vmap(afx.grad(fn)), afx.jit(afx.vmap(afx.grad(fn)))):
        np.testing.assert_allclose(np.asarray(run(rows)), [np.asarray(afx.grad(fn)(finite))] * 2, rtol=1e-12)


PADDED = np.array([np.nan, 2.0, 3.0, -1.0])
OPERANDS: dict[str, Callable[[Any, Any], Any]] = {  # finite formulas beside an operand that is not finite
    "product": lambda x, c: x * c,
    "sine of a product": lambda x, c: afx.sin(x * c) * x,
    "quotient": lambda x, c: (c * x) / (1.0 + x * x),
    "broadcast": lambda x, c: (x[1] * c) * afx.cos(c + x[2]),
    "turned": lambda x, c: afx.flip(afx.tanh(x * c))[::-1],
    "rows": lambda x, c: (afx.exp(-(x * c)) * np.ones((2, 1))).T.reshape(4, 2)[:, 0],
}


@together("operand", OPERANDS)
@together("bad", [np.nan, 1e308], ids=["nan", "overflow"])
def test_operands_that_are_not_finite(operand: str, bad: float) -> None:
    """What a slice or an index in advance leaves out may be nan or overflow, eager and compiled."""
    padded = np.where(np.isnan(PADDED), bad, PADDED)
    finite = np.where(np.isnan(PADDED), 1.0, PADDED)
    point = X + np.array([1e5, 0.0, 0.0, 0.0])
    for selection in ("slice", "gather", "split", "reversed", "set"):
        loss = lambda x, c: afx.sum(SELECTIONS[selection](OPERANDS[operand](x, c)) ** 2)  # noqa: B023  # used at once
        want = [np.asarray(g) for g in afx.grad(loss, (0, 1))(X, finite)]
        slope = afx.grad(loss, (0, 1))
        mapped = lambda x, c: [g[0] for g in afx.vmap(slope)(x[None], c[None])]  # noqa: B023  # used at once
        for run in (slope, afx.jit(slope), mapped):
            for found, wanted in zip(run(point, padded), want, strict=True):
                np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-12, atol=1e-14, err_msg=selection)


def test_a_slice_of_a_formula_is_computed_alone() -> None:
    """The backward pass multiplies the elements that were selected, and no others."""
    c = np.arange(1.0, 1001.0)
    graph = afx.jit(afx.grad(lambda x: afx.sum((x * c)[:10]))).lower(np.ones(1000)).graph
    sizes = [eq.outputs[0].aval.size for eq in graph.equations if eq.primitive.name == "multiply"]
    assert max(sizes, default=10) == 10


@pytest.mark.parametrize(
    ("fn", "want"),
    [
        (lambda x: afx.max(afx.sqrt(x)), [0, 0, 0, 1 / 6]),
        (lambda x: afx.min(3.0 - afx.sqrt(x)), [0, 0, 0, -1 / 6]),
        (lambda x: afx.sum(afx.max(afx.sqrt(x).reshape(2, 2), axis=1)), [0, 1 / 2, 0, 1 / 6]),
        (lambda x: afx.sum(afx.sort(afx.sqrt(x))[1:]), [0, 1 / 2, 1 / 4, 1 / 6]),
        (lambda x: afx.sum(afx.top_k(afx.sqrt(x), 2)[0]), [0, 0, 1 / 4, 1 / 6]),
        (lambda x: afx.median(afx.sqrt(x)), [0, 1 / 4, 1 / 8, 0]),
    ],
    ids=["max", "min", "max of rows", "sort", "top_k", "median"],
)
def test_selections_by_value(fn: Callable[[Any], Any], want: list[float]) -> None:
    """Extremes and order statistics give 0 to what they do not choose, in both modes, plain and compiled."""
    for run in (afx.grad(fn), afx.jit(afx.grad(fn)), afx.grad(afx.jit(fn)), afx.jacfwd(fn), afx.jit(afx.jacfwd(fn))):
        np.testing.assert_allclose(np.asarray(run(X)), want, rtol=1e-12)


def test_second_derivatives_at_an_exact_fit() -> None:
    """Masks go by place, not by value: a residual that happens to be 0 keeps its curvature."""
    x, y = np.array([0.0, 4.0, 9.0]), np.array([2.0, 3.0])
    fn = lambda x: afx.sum((afx.sqrt(x)[1:] - y) ** 2)
    want = np.diag([0.0, 1 / 8, 1 / 18])
    for run in (afx.hessian(fn), afx.jit(afx.hessian(fn)), afx.jacrev(afx.grad(fn))):
        np.testing.assert_allclose(np.asarray(run(x)), want, rtol=1e-12, atol=1e-15)


def test_choices_are_masked_at_every_call() -> None:
    """What a choice leaves out gives 0 at the first call and at later ones, with and without values that need the mask."""
    gradient = afx.grad(lambda x: afx.sum(afx.where(x > 0, afx.sqrt(x) * afx.log(x), 0.0)))
    for point, want in ((X[1:], None), (X, 0.0), (X[1:], None), (X, 0.0)):
        found = np.asarray(gradient(point))
        expected = (np.log(X[1:]) / 2 + 1) / np.sqrt(X[1:])
        np.testing.assert_allclose(found, expected if want is None else [want, *expected], rtol=1e-14)


def test_what_is_selected_keeps_infinities_and_nan() -> None:
    """A selected infinite slope stays infinite, and a nan stays nan."""
    for run in (lambda f: f, afx.jit):
        assert run(afx.grad(lambda x: afx.sum(afx.sqrt(x)[:2])))(X).tolist() == [np.inf, 0.5, 0.0, 0.0]
    assert np.isnan(np.asarray(afx.grad(lambda x: afx.sum((x * np.nan)[:1]))(X))[0])


def test_selections_are_silent() -> None:
    """The backward pass does not warn of what was not selected, eagerly or compiled."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for gradient in derivatives(lambda x: afx.sqrt(x)[1:]):
            assert np.asarray(gradient(X)).tolist() == [0.0, 1.0, 1.0, 1.0]


def test_a_long_chain_of_selections_needs_no_recursion() -> None:
    """Masks that ask each other are computed in time: twenty thousand links differentiate."""

    def fn(x: Array) -> Array:
        y, total = afx.sqrt(x)[1:], afx.asarray(0.0)
        for k in range(20_000):
            y = afx.roll(y, 1)
            if k % 10 == 0:
                total = total + y[0]
        return total + y[1]

    found = np.asarray(afx.grad(fn)(X))
    assert found[0] == 0.0
    assert np.isfinite(found).all()


def test_plans_of_bounded_formulas_carry_no_masks() -> None:
    """Where nothing infinite can arise a selection adds no equation to a compiled gradient."""
    graph = afx.jit(afx.grad(lambda x: afx.sum((afx.sin(x) * afx.exp(x))[1:]))).lower(X).graph
    assert not {"where", "not_equal"} & set(graph.counts())
