"""Stacks of small systems: elimination of all of them at once, eagerly, in plans and as machine code."""

from typing import Any

import numpy as np
import pytest

import afx
from afx.ops.linalg.solve import pays, solve_or_nan, triangles_pay
from tests.ops.samples import together

RNG = np.random.default_rng(7)


def systems(n: int, columns: int, dtype: str = "float64", count: int = 800) -> tuple[Any, Any]:
    """Return matrices whose first pivots are often small or zero, and right sides."""
    a = RNG.integers(-2, 3, size=(count, n, n)) + 0.0
    a += np.where(np.abs(np.linalg.det(a)) < 0.5, 3.0, 0.0)[:, None, None] * np.eye(n)
    a += np.where(np.abs(np.linalg.det(a)) < 0.5, 5.0, 0.0)[:, None, None] * np.eye(n)
    return a.astype(dtype), RNG.normal(size=(count, n, columns)).astype(dtype)


@together("dtype", ["float32", "float64"])
@together(("n", "columns"), [(1, 1), (2, 1), (2, 4), (3, 1), (3, 2), (4, 1)])
def test_solutions_are_lapacks(n: int, columns: int, dtype: str) -> None:
    """Solutions agree with LAPACK's to rounding, where rows must be exchanged too; plans give the eager bits."""
    a, b = systems(n, columns, dtype)
    assert pays(a, b)
    found = np.asarray(afx.linalg.solve(a, b))
    want = np.linalg.solve(a.astype("float64"), b.astype("float64"))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, want, rtol=1e-12 if dtype == "float64" else 1e-6, atol=1e-12)
    assert np.asarray(afx.jit(afx.linalg.solve)(a, b)).tobytes() == found.tobytes()


def test_stacks_of_several_axes() -> None:
    """Stacks broadcast against each other, axes in any order, and are cut into blocks."""
    a, b = systems(2, 1, count=60 * 50)
    a, b = a.reshape(60, 50, 2, 2).transpose(1, 0, 3, 2), b.reshape(50, 60, 2, 1)
    for x, y in ((a, b), (a, b[:, :1]), (a[:1], b), (a[:, 0], b[:, :1, :, :][:, 0]), (a, b[0, 0])):
        np.testing.assert_allclose(np.asarray(afx.linalg.solve(x, y)), np.linalg.solve(x, y), rtol=1e-11, atol=1e-11)


def test_derivatives() -> None:
    """Gradients and tangents are those of one LAPACK solution at a time, to 1e-12."""
    a, b = systems(3, 1)

    def loss(a: Any, b: Any) -> Any:
        return (afx.linalg.solve(a, b) ** 2).sum()

    slopes = afx.jit(afx.grad(loss, argnums=(0, 1)))(a, b)
    for k in range(0, 800, 100):
        for found, want in zip(slopes, afx.grad(loss, argnums=(0, 1))(a[k], b[k]), strict=True):
            np.testing.assert_allclose(found[k], want, rtol=1e-12, atol=1e-12 * float(np.abs(want).max()))
    ways = (RNG.normal(size=a.shape), RNG.normal(size=b.shape))
    _, moved = afx.jvp(lambda a, b: afx.linalg.solve(a, b), (a, b), ways)
    z = np.linalg.solve(a, b)
    np.testing.assert_allclose(np.asarray(moved), np.linalg.solve(a, ways[1] - ways[0] @ z), rtol=1e-9, atol=1e-9)


def test_singular_systems() -> None:
    """One singular matrix among many raises, also compiled; for solvers its solution is nan, and no other one."""
    a, b = systems(2, 1)
    a[7], a[9] = np.ones((2, 2)), 0.0
    for solve in (afx.linalg.solve, afx.jit(afx.linalg.solve), afx.jit(afx.linalg.solve, backend="native")):
        with np.errstate(all="ignore"), pytest.raises(np.linalg.LinAlgError):
            solve(a, b)
    for solve in (solve_or_nan, afx.jit(solve_or_nan)):
        found = np.asarray(solve(afx.asarray(a), afx.asarray(b)))
        assert np.flatnonzero(np.isnan(found).any(axis=(1, 2))).tolist() == [7, 9]


def test_infinities_pass_without_warnings() -> None:
    """As LAPACK, elimination tells nothing of overflows and of nan."""
    a, b = systems(2, 1)
    a[3], b[5], a[6] = np.nan, np.inf, a[6] * 1e-308
    for solve in (afx.linalg.solve, afx.jit(afx.linalg.solve)):
        found = np.asarray(solve(a, b))
        assert np.isfinite(np.delete(found, [3, 5, 6], axis=0)).all()
        assert np.isnan(found[3]).all()


@together("dtype", ["float32", "float64"])
@together("lower", [False, True])
@together("unit", [False, True])
@together(("n", "columns"), [(1, 1), (3, 1), (4, 3), (8, 2)])
def test_triangular_systems(n: int, columns: int, dtype: str, lower: bool, unit: bool) -> None:
    """Substitution in all systems at once agrees with LAPACK, the plan with eager calls, and the other triangle is not read."""
    a = RNG.uniform(-1, 1, size=(200, n, n)) + 2 * np.eye(n)
    triangle = (np.tril if lower else np.triu)(a, 0)
    if unit:
        triangle[:, range(n), range(n)] = 1
    a = np.where(np.tril(np.ones((n, n))) if lower else np.triu(np.ones((n, n))), a, np.nan).astype(dtype)
    b = RNG.normal(size=(200, n, columns)).astype(dtype)
    assert triangles_pay(a, b)

    def fn(a: Any, b: Any) -> Any:
        return afx.linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit)

    tol = {"float32": 1e-4, "float64": 1e-12}[dtype]
    found = np.asarray(fn(a, b))
    np.testing.assert_allclose(found, np.linalg.solve(triangle, b.astype("float64")), rtol=tol, atol=tol)
    assert np.asarray(afx.jit(fn)(a, b)).tobytes() == found.tobytes()
    slopes, one = [afx.jit(afx.grad(lambda b: (fn(x, b) ** 2).sum()))(y) for x, y in ((a, b), (a[0], b[0]))]  # noqa: B023  # called at once
    np.testing.assert_allclose(np.asarray(slopes)[0], np.asarray(one), rtol=tol, atol=tol)


def test_triangles_with_a_zero_raise() -> None:
    """A zero on one diagonal among many raises, unless diagonals count as ones."""
    a, b = np.tile(np.eye(3), (200, 1, 1)), np.ones((200, 3, 1))
    a[9, 1, 1] = 0
    for backend in (None, "native"):
        with pytest.raises(np.linalg.LinAlgError):
            afx.jit(afx.linalg.solve_triangular, backend=backend)(a, b)
    assert np.asarray(afx.linalg.solve_triangular(a, b, unit_diagonal=True)).tolist() == b.tolist()
