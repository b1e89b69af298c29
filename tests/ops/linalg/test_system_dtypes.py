"""Iterative solvers take complex, integer, mixed and sparse operands, and a damping that is traced."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import linalg
from afx.sparse import Csr

SOLVERS: list[Callable[..., Any]] = [linalg.cg, linalg.gmres, linalg.bicgstab, linalg.lsmr]
WHOLE, RIGHT = np.array([[4, 1], [1, 3]]), np.array([1, 2])


@pytest.mark.parametrize("solve", SOLVERS)
def test_complex_systems(solve: Callable[..., Any]) -> None:
    """Solutions and their derivatives are those of `solve`."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4))
    a, b = a @ a.conj().T + np.eye(4), rng.normal(size=4) + 1j * rng.normal(size=4)
    found = solve(a, b, tol=1e-12)
    assert bool(found.converged)
    np.testing.assert_allclose(found.x, np.linalg.solve(a, b), rtol=1e-8)

    def slope(x: Callable[[Any], Any]) -> Any:
        return afx.grad(lambda s: afx.sum(afx.abs(x(s)) ** 2 * np.arange(4)))(np.float64(0))

    t = a * a.T * 0.1
    want = slope(lambda s: linalg.solve(a + s * t, b))
    np.testing.assert_allclose(slope(lambda s: solve(a + s * t, b, tol=1e-12).x), want, rtol=1e-6)


@pytest.mark.parametrize("solve", SOLVERS)
def test_integers_mixed_and_sparse_operands(solve: Callable[..., Any]) -> None:
    """Operands are promoted together; sparse matrices are taken."""
    want = np.linalg.solve(WHOLE, RIGHT)
    sparse = Csr.from_entries(WHOLE.ravel() * 1.0, [0, 0, 1, 1], [0, 1, 0, 1], (2, 2))
    for a in (WHOLE, WHOLE * 1.0, sparse):
        np.testing.assert_allclose(solve(a, RIGHT).x, want, rtol=1e-5)
        np.testing.assert_allclose(solve(a, RIGHT.astype(np.float32)).x, want, rtol=1e-5)


def test_traced_damping() -> None:
    """The damping of least squares may be an argument of a compiled function."""
    x = afx.jit(lambda d: linalg.lsmr(WHOLE * 1.0, RIGHT * 1.0, damp=d, tol=1e-12).x)(np.float64(0.5))
    np.testing.assert_allclose(x, np.linalg.solve(WHOLE @ WHOLE + 0.25 * np.eye(2), WHOLE @ RIGHT), rtol=1e-9)
