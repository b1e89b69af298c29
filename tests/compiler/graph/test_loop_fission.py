"""Functions that no step waits for leave the loops of plans."""

import warnings
from typing import Any

import numpy as np
import pytest

import afx
from afx.compiler.graph.rewrite_rules import simplify
from afx.compiler.target import DEFAULT

LENGTH = 20
DTYPES = ["float32", "float64"]


def step_of_all_kinds(carry: Any, row: Any) -> Any:
    """Return a step with functions before, in and behind what is carried, of numbers, rows and booleans."""
    s, v = carry
    x, w = row
    early = np.exp(x) * w
    new = s * 0.5 + np.tanh(v[0]) * early[1]
    late = np.log(np.abs(new) + np.abs(s)) + w
    return (new, v * 0.9 + early), (late, np.sin(v) * x, new > 0, early, np.cos(x), s, new)


def arguments(dtype: str) -> tuple[Any, Any]:
    """Return a first carry, and rows: a number and a vector each."""
    rng = np.random.default_rng(0)
    carry = np.array(0.3, dtype), rng.normal(size=3).astype(dtype)
    return carry, (rng.normal(size=LENGTH).astype(dtype), rng.normal(size=(LENGTH, 3)).astype(dtype))


def run(carry: Any, rows: Any, reverse: bool = False) -> Any:
    """Return the loop's results."""
    return afx.scan(step_of_all_kinds, carry, rows, reverse=reverse)


def plan_of(fn: Any, *args: Any) -> tuple[str, str]:
    """Return the texts of the body of the only loop of a plan's graph, and of all around it."""
    trace: Any = afx.trace
    graph = simplify(trace(fn)(*args), DEFAULT, expanding=True)
    (loop,) = [eq for eq in graph.equations if eq.primitive.name == "scan"]
    return str(loop.keywords["body"].graph), "\n".join([str(eq) for eq in graph.equations if eq is not loop])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reverse", [False, True])
def test_results_have_the_bits_of_the_loop(dtype: str, reverse: bool) -> None:
    """All results are those of NumPy's own calls in each step, in both directions."""
    (s, v), (xs, ws) = arguments(dtype)
    (last, moved), ys = afx.jit(run, static_argnums=2, backend="numpy")((s, v), (xs, ws), reverse)
    carry, rows = (s, v), list[Any]()
    for t in range(LENGTH)[:: -1 if reverse else 1]:
        carry, results = step_of_all_kinds(carry, (xs[t], ws[t]))
        rows.append(results)
    np.testing.assert_array_equal(last, carry[0], strict=True)
    np.testing.assert_array_equal(moved, carry[1], strict=True)
    for y, want in zip(ys, zip(*rows[:: -1 if reverse else 1], strict=True), strict=True):
        np.testing.assert_array_equal(y, np.stack(want), strict=True)


def test_functions_before_and_behind_the_recurrence_leave_it() -> None:
    """What a later step needs stays; the rest is computed for all rows."""
    body, around = plan_of(run, *arguments("float64"))
    assert "tanh" in body
    assert not any(name in body for name in ("= exp", "= log", "= sin", "= cos"))
    assert all(f"float64[{LENGTH}" in around and name in around for name in ("exp", "log", "sin", "cos"))


def test_what_gains_nothing_stays() -> None:
    """Long rows, few steps, and operations that are single instructions stay in the loop."""

    def long_rows(x: Any) -> Any:
        def step(c: Any, r: Any) -> Any:
            return c + r, np.log(c)

        return afx.scan(step, x[0], x)

    def cheap(x: Any) -> Any:
        def step(c: Any, r: Any) -> Any:
            return c + r, c * 2 + r

        return afx.scan(step, x[0], x)

    assert "= log" in plan_of(long_rows, np.ones((LENGTH, 100)))[0]
    assert "= log" in plan_of(long_rows, np.ones((4, 2)))[0]
    assert "multiply" in plan_of(cheap, np.ones((LENGTH, 2)))[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_are_those_of_the_loop(dtype: str) -> None:
    """The forward loop and the one back are parted alike."""
    carry, rows = arguments(dtype)

    def loss(carry: Any, rows: Any) -> Any:
        last, ys = run(carry, rows)
        return last[0] + np.sum(last[1]) + sum(np.sum(y * 1.0) for y in ys)

    found, want = afx.jit(afx.grad(loss, argnums=(0, 1)))(carry, rows), afx.grad(loss, argnums=(0, 1))(carry, rows)
    for g, h in zip(afx.pytree.leaves(found), afx.pytree.leaves(want), strict=True):
        np.testing.assert_allclose(g, h, rtol=2e-5 if dtype == "float32" else 1e-12)


def test_errors_are_ignored_where_the_step_ignores_them() -> None:
    """A function that has left its loop warns as it did there."""

    def total(x: Any, quiet: bool) -> Any:
        def step(c: Any, r: Any) -> Any:
            with np.errstate(divide="ignore" if quiet else "warn"):
                return c + r, np.log(r)

        return afx.scan(step, 0.0, x)

    x = np.zeros(LENGTH)
    fn: Any = afx.jit(total, static_argnums=1, backend="numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found: Any = fn(x, True)
        assert np.all(np.isneginf(np.asarray(found[1], float)))
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        fn(x, False)


def test_equations_ignore_errors_in_one_order() -> None:
    """What left a loop ignores warnings in the order of ``np.errstate``, so that machine code has one text in all processes."""

    def step(carry: Any, x: Any) -> Any:
        return carry * 0.5 + x, np.log(np.abs(carry) + np.exp(x))

    def fn(carry: Any, xs: Any) -> Any:
        with np.errstate(all="ignore"):
            return afx.scan(step, carry, xs)

    graph = simplify(afx.trace(fn)(np.array(0.3), np.ones(LENGTH)), DEFAULT, expanding=True)
    ignored = [eq.ignored_fp_errors for eq in graph.equations if eq.primitive.name in ("exp", "log")]
    assert len(ignored) == 2
    assert set(ignored) == {tuple(name for name in np.geterr() if name in ignored[0])}
