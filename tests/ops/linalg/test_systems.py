"""Systems by kept factorisations, by bands and by iteration: SciPy's solutions, and derivatives of the plain solve."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import afx
from afx import linalg
from afx.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(15)
N = 6
G = RNG.normal(size=(N, N)) + 6 * np.eye(N)
S = G @ G.T / 10 + np.eye(N)
B, W = RNG.normal(size=(2, N))
T = RNG.normal(size=(N, N))
T = T + T.T
BAND = np.abs(RNG.normal(size=(4, N))) + np.array([0.0, 9.0, 0.0, 0.0])[:, None]  # one above, two below


def dense(band: Any, upper: int = 1) -> Any:
    """Return the matrix of a band, from afx's operations."""
    total = afx.zeros((N, N), dtype=np.float64)
    for k in range(band.shape[0]):
        d = upper - k
        row = band[k, d:] if d >= 0 else band[k, :d]
        total = total + afx.diag(row, d)
    return total


SOLVERS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], Any], np.ndarray, np.ndarray]] = {
    "lu_solve": (lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b), lambda a: a, G, T),
    "transposed lu_solve": (lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b, 1), lambda a: a.T, G, T),
    "cho_solve": (lambda a, b: linalg.cho_solve(linalg.cho_factor(a), b), lambda a: a, S, T),
    "lower cho_solve": (lambda a, b: linalg.cho_solve(linalg.cho_factor(a, lower=True), b), lambda a: a, S, T),
    "solve_banded": (lambda a, b: linalg.solve_banded((2, 1), a, b), dense, BAND, RNG.normal(size=BAND.shape)),
    "cg": (lambda a, b: linalg.cg(a, b, tol=1e-14).x, lambda a: a, S, T),
    "cg of a function": (lambda a, b: linalg.cg(lambda v: a @ v, b, tol=1e-14).x, lambda a: a, S, T),
    "cg with M": (lambda a, b: linalg.cg(a, b, tol=1e-14, M=lambda v: v / a.diagonal()).x, lambda a: a, S, T),
    "gmres": (lambda a, b: linalg.gmres(a, b, tol=1e-14).x, lambda a: a, G, T),
    "bicgstab": (lambda a, b: linalg.bicgstab(a, b, tol=1e-15).x, lambda a: a, G, T),
    "bicgstab with M": (
        lambda a, b: linalg.bicgstab(a, b, tol=1e-15, M=lambda v: v / a.diagonal()).x,
        lambda a: a,
        G,
        T,
    ),
    "lsmr": (lambda a, b: linalg.lsmr(a, b, tol=1e-15).x, lambda a: a, G, T),
    "restarted gmres": (lambda a, b: linalg.gmres(lambda v: a @ v, b, tol=1e-16, restart=4).x, lambda a: a, G, T),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_derivatives_are_the_plain_solves(name: str) -> None:
    """Values and three derivatives, by matrix and right side together, are those of `solve`; both modes, compiled too."""
    solve, matrix, a, t = SOLVERS[name]

    def found(s: Any) -> Any:
        return afx.sum(solve(a + s * t / 10, B + s * W) ** 2 * W)

    def plain(s: Any) -> Any:
        return afx.sum(linalg.solve(matrix(a + s * t / 10), B + s * W) ** 2 * W)

    zero, one = np.float64(0), np.float64(1)
    assert float(afx.jvp(found, (zero,), (one,))[1]) == pytest.approx(float(afx.grad(plain)(zero)), rel=1e-9)
    assert float(afx.jit(afx.grad(found))(zero)) == pytest.approx(float(afx.grad(plain)(zero)), rel=1e-9)
    f, g = found, plain
    for order in range(4):
        expected = float(g(zero))
        assert float(f(zero)) == pytest.approx(expected, rel=1e-9, abs=1e-10), order
        f, g = afx.grad(f), afx.grad(g)


@pytest.mark.parametrize("solve", [linalg.cg, linalg.gmres, linalg.bicgstab, linalg.lsmr])
def test_derivatives_of_exact_solutions(solve: Callable[..., Any]) -> None:
    """Where a solution leaves no residual at all, so that refining it begins and ends at zeros."""
    a, b, w = np.diag([2.0, 4.0]), np.array([1.0, 2.0]), np.array([1.0, -0.5])
    t = np.array([[0.2, 0.075], [0.075, -0.2]])

    def found(s: Any) -> Any:
        return afx.sum(solve(a + s * t, b + s * w, tol=1e-14).x ** 2 * w)

    def plain(s: Any) -> Any:
        return afx.sum(linalg.solve(a + s * t, b + s * w) ** 2 * w)

    f, g, zero = found, plain, np.float64(0)
    for order in range(4):
        expected = float(g(zero))
        assert float(f(zero)) == pytest.approx(expected, rel=1e-12), order
        assert float(afx.jit(f)(zero)) == pytest.approx(expected, rel=1e-12), order
        f, g = afx.grad(f), afx.grad(g)
    along = afx.jvp(lambda s: afx.jvp(found, (s,), (np.float64(1),))[1], (zero,), (np.float64(1),))[1]
    assert float(along) == pytest.approx(float(afx.grad(afx.grad(plain))(zero)), rel=1e-12)


@pytest.mark.parametrize("name", SOLVERS)
def test_batches(name: str) -> None:
    """Solutions and gradients batch."""
    solve, _, a, t = SOLVERS[name]

    def fn(s: Any) -> Any:
        return afx.sum(solve(a + s * t / 10, B) * W)

    points = np.array([0.0, 0.2])
    for each in (fn, afx.grad(fn)):
        expected = [float(each(s)) for s in points]
        np.testing.assert_allclose(np.asarray(afx.vmap(each)(points)), expected, rtol=1e-8)


def test_pivots_are_scipys() -> None:
    """Exchanges of rows are LAPACK's, beyond one panel, of stacks and under `jit` and `vmap`; each solves by the other's."""
    for a in (G, RNG.normal(size=(70, 70)), np.zeros((3, 3)), np.zeros((0, 0)), np.arange(9.0).reshape(3, 3)[::-1]):
        packed, pivots = linalg.lu_factor(a)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", scipy.linalg.LinAlgWarning)  # of singular ones
            expected = scipy.linalg.lu_factor(a)
        np.testing.assert_array_equal(pivots, expected[1])
        np.testing.assert_allclose(packed, expected[0], atol=1e-12)
        np.testing.assert_array_equal(afx.jit(linalg.lu_factor)(a).piv, pivots)
    mixed = np.asarray(linalg.lu_solve(scipy.linalg.lu_factor(G), B))
    np.testing.assert_allclose(mixed, np.linalg.solve(G, B), rtol=1e-9)
    mixed = scipy.linalg.lu_solve(tuple(map(np.asarray, linalg.lu_factor(G))), B)
    np.testing.assert_allclose(mixed, np.linalg.solve(G, B), rtol=1e-9)
    packed = linalg.lu_factor(G).lu
    for wrong in (np.arange(N - 1), np.arange(N) + 0.5, np.array(0), np.full(N, -1), np.arange(N) + 1):
        with pytest.raises(ArgumentError, match="lu_solve: pivots are"):
            linalg.lu_solve((packed, wrong), B)
    stack = RNG.normal(size=(4, N, N))
    for found in (linalg.lu_factor(stack), afx.vmap(linalg.lu_factor)(stack)):
        np.testing.assert_array_equal(found.piv, [scipy.linalg.lu_factor(a)[1] for a in stack])


def test_scipys_solutions() -> None:
    """Kept factorisations and bands solve as SciPy's, several right sides and complex matrices too."""
    right = RNG.normal(size=(N, 3))
    h = G + 1j * T
    for trans in (0, 1, 2):
        expected = scipy.linalg.lu_solve(scipy.linalg.lu_factor(h), right + 0j, trans)
        np.testing.assert_allclose(np.asarray(linalg.lu_solve(linalg.lu_factor(h), right, trans)), expected, rtol=1e-10)
    spd = h @ h.conj().T
    for lower in (False, True):
        expected = scipy.linalg.cho_solve(scipy.linalg.cho_factor(spd, lower=lower), right + 0j)
        found = linalg.cho_solve(linalg.cho_factor(spd, lower), right)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-10)
    expected = scipy.linalg.solve_banded((2, 1), BAND, right)
    np.testing.assert_allclose(np.asarray(linalg.solve_banded((2, 1), BAND, right)), expected, rtol=1e-13)
    np.testing.assert_allclose(np.asarray(dense(afx.asarray(BAND)) @ expected), right, atol=1e-12)


def test_what_iterations_report() -> None:
    """A solver says how many iterations it took, and whether it reached the tolerance."""
    done = linalg.cg(S, B, tol=1e-10)
    assert bool(done.converged)
    assert 1 <= int(done.iterations) <= 2 * N
    cut = linalg.cg(S, B, tol=1e-10, maxiter=1)
    assert not bool(cut.converged)
    assert int(cut.iterations) == 1
    started = linalg.cg(S, B, np.linalg.solve(S, B), tol=1e-8)
    assert int(started.iterations) == 0
    assert bool(linalg.gmres(np.eye(3), np.zeros(3)).converged)


def test_operands_that_do_not_fit() -> None:
    """A matrix that is not square and right sides that do not fit are refused."""
    with pytest.raises(ShapeError, match="cg: needs a square matrix or a function"):
        linalg.cg(np.ones((2, 3)), np.ones(3))
    with pytest.raises(ShapeError, match="gmres: b is a vector that the matrix fits"):
        linalg.gmres(lambda v: v[:2], np.ones(3))
    with pytest.raises(ShapeError, match="solve_banded: ab has a row for each of 4 diagonals"):
        linalg.solve_banded((2, 1), BAND[:3], B)
    with pytest.raises(ShapeError, match="lu_solve"):
        linalg.lu_solve(linalg.lu_factor(G), np.ones(N + 1))


@pytest.mark.parametrize("damp", [0.0, 0.5])
def test_lsmr_solves_least_squares(damp: float) -> None:
    """Rectangular and damped problems, of matrices and functions, have NumPy's solution, and derivatives by the matrix."""
    rng = np.random.default_rng(1)
    a, b, t = rng.normal(size=(9, 4)), rng.normal(size=9), rng.normal(size=(9, 4))
    stacked = np.concatenate([a, damp * np.eye(4)]), np.concatenate([b, np.zeros(4)])

    def normal(s: Any) -> Any:
        m = a + s * t
        return linalg.solve(m.T @ m + damp**2 * np.eye(4), m.T @ b)

    def found(s: Any) -> Any:
        return linalg.lsmr(a + s * t, b, damp=damp, tol=1e-14).x

    zero = afx.asarray(np.float64(0))
    result = linalg.lsmr(lambda v: a @ v, b, columns=4, damp=damp, tol=1e-14)
    np.testing.assert_allclose(result.x, np.linalg.lstsq(*stacked)[0], rtol=1e-10)
    assert bool(result.converged)
    assert int(result.iterations) <= 8
    np.testing.assert_allclose(afx.jacfwd(found)(zero), afx.jacfwd(normal)(zero), rtol=1e-9)
    np.testing.assert_allclose(afx.jacfwd(afx.jacrev(found))(zero), afx.jacfwd(afx.jacfwd(normal))(zero), rtol=1e-8)
    with pytest.raises(ArgumentError, match="give columns=n"):
        linalg.lsmr(lambda v: a @ v, b)
    with pytest.raises(ShapeError, match="b is a vector that the matrix fits"):
        linalg.lsmr(a, b[:3])
