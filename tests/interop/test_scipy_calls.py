"""Inside of `afx.interop.array_api` SciPy's functions, classes and laws are differentiated by afx's of the same names."""

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import interpolate, linalg, signal, stats
from scipy.interpolate import CubicSpline
from scipy.linalg import solve

import afx
from afx import errors, interop

RNG = np.random.default_rng(5)
A = RNG.normal(size=(4, 4))
S = A @ A.T + 4 * np.eye(4)
B = RNG.normal(size=(4, 2))
X = np.linspace(0.3, 2.0, 8)
GRID = np.arange(8.0)

# beside JAX: of a matrix, which JAX takes for symmetric where a function does
BESIDE_JAX: dict[str, Callable[[Any, Any], Any]] = {
    "cholesky": lambda m, a: m.cholesky(a + a.T),
    "cholesky, lower": lambda m, a: m.cholesky(a + a.T, lower=True),
    "cho_solve": lambda m, a: m.cho_solve(m.cho_factor(a + a.T, True), B),
    "det": lambda m, a: m.det(a, check_finite=False),
    "eigh": lambda m, a: m.eigh(a + a.T)[1] ** 2,
    "eigh, values": lambda m, a: m.eigh(a + a.T, eigvals_only=True),
    "eigh, upper": lambda m, a: m.eigh(a + a.T, lower=False)[0],
    "expm": lambda m, a: m.expm(a / 9),
    "inv": lambda m, a: m.inv(a, True),
    "lu": lambda m, a: m.lu(a)[2],
    "qr": lambda m, a: m.qr(a)[1],
    "qr, economic": lambda m, a: abs(m.qr(a, mode="economic")[0]),
    "solve": lambda m, a: m.solve(a, B),
    "solve, positive": lambda m, a: m.solve(a + a.T, B, assume_a="pos"),
    "solve_triangular": lambda m, a: m.solve_triangular(a, B, lower=True, trans=1),
    "svd": lambda m, a: (
        m.svd(a, compute_uv=False, lapack_driver="gesvd") if m is linalg else m.svd(a, compute_uv=False)
    ),
    "toeplitz": lambda m, a: m.toeplitz(a[0], a[:, 1]),
}


@pytest.mark.parametrize("name", BESIDE_JAX)
def test_values_and_gradients_are_jaxs(name: str) -> None:
    """Gradients of matrix functions are those of JAX, eager and compiled, and traced values are SciPy's."""
    call, shape = BESIDE_JAX[name], np.shape(BESIDE_JAX[name](linalg, S))
    weights = np.cos(np.arange(np.prod(shape, dtype=int))).reshape(shape)
    jax = pytest.importorskip("jax", reason="the reference is JAX's")
    with jax.enable_x64(True):
        theirs = importlib.import_module("jax.scipy.linalg")
        expected = jax.jit(jax.grad(lambda a: jax.numpy.sum(weights * call(theirs, a))))(S)
    with interop.array_api(["scipy"]):
        loss = afx.value_and_grad(lambda a: afx.sum(weights * call(linalg, a)))
        for value, gradient in (loss(S), afx.jit(loss)(S)):
            np.testing.assert_allclose(value, np.sum(weights * call(linalg, S)), rtol=1e-11)
            np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-12)


TRIANGLES: dict[str, Callable[[Any], Any]] = {
    "cholesky": linalg.cholesky,
    "cho_factor": lambda a: np.triu(linalg.cho_factor(a)[0]),
    "cho_factor, lower": lambda a: np.tril(linalg.cho_factor(a, lower=True)[0]),
    "eigh": lambda a: linalg.eigh(a)[0],
    "eigvalsh, upper": lambda a: linalg.eigvalsh(a, lower=False),
    "solve": lambda a: linalg.solve(a, B, assume_a="pos", lower=True),
    "solve, transposed": lambda a: linalg.solve(a, B, transposed=True),
}


@pytest.mark.parametrize("name", TRIANGLES)
def test_one_triangle_is_read(name: str) -> None:
    """Functions of Hermitian matrices read the triangle that SciPy reads, and differentiate by that alone."""
    call = TRIANGLES[name]
    a = S + 0.1 * np.triu(RNG.normal(size=(4, 4)), 1)
    with interop.array_api(["scipy"]):
        traced = afx.jacfwd(call)(a)
        np.testing.assert_allclose(afx.jit(call)(a), call(a), rtol=1e-12, atol=1e-12)
    steps = 1e-6 * np.eye(16).reshape(16, 4, 4)
    slopes = [(call(a + h) - call(a - h)) / 2e-6 for h in steps]
    np.testing.assert_allclose(
        np.moveaxis(np.asarray(traced).reshape(*traced.shape[:-2], 16), -1, 0), slopes, atol=1e-8
    )


def test_names_that_were_imported_before_are_answered_and_taken_back() -> None:
    """Functions and classes are themselves all the time: for plain arrays as before, with their signatures."""
    code, signature, spline = solve.__code__, inspect.signature(solve), CubicSpline(GRID, X)
    of_class = inspect.signature(CubicSpline)
    with interop.array_api(["scipy"]):
        assert (inspect.signature(solve), inspect.signature(CubicSpline)) == (signature, of_class)
        assert isinstance(solve(S, B), np.ndarray)
        assert isinstance(CubicSpline(GRID, X), CubicSpline)
        assert afx.grad(lambda b: afx.sum(solve(S, b)))(B).shape == (4, 2)
        assert afx.grad(lambda y: afx.sum(CubicSpline(GRID, y)(X)))(X).shape == (8,)
        slope = afx.grad(lambda at: afx.sum(spline(at)))(X)  # a spline from before, of plain arrays
        np.testing.assert_allclose(slope, spline(X, 1), rtol=1e-12)
        straight = interpolate.make_interp_spline(GRID, X)
        np.testing.assert_allclose(afx.grad(lambda at: afx.sum(straight(at)))(X), straight(X, 1), rtol=1e-12)
    assert solve.__code__ is code
    assert (inspect.signature(solve), inspect.signature(CubicSpline)) == (signature, of_class)
    assert isinstance(CubicSpline(GRID, y=X), CubicSpline)
    assert np.array_equal(CubicSpline(GRID, X)(X), spline(X))
    with pytest.raises(errors.ConcreteValueError):
        afx.grad(lambda b: afx.sum(solve(S, b)))(B)
    with pytest.raises(errors.ConcreteValueError):
        afx.grad(lambda y: afx.sum(CubicSpline(GRID, y)(X)))(X)


class Own(CubicSpline):
    """A user's class of SciPy's."""


def test_heirs_are_left_alone() -> None:
    """A class that a user derived makes its own objects."""
    with interop.array_api(["scipy"]):
        assert type(Own(GRID, X)) is Own
        with pytest.raises(errors.ConcreteValueError):
            afx.grad(lambda y: afx.sum(Own(GRID, y)(X)))(X)
    assert type(Own(GRID, X)) is Own


LAWS: dict[str, Callable[[Any, Any], Any]] = {
    "norm": lambda m, x: m.norm.logpdf(x, 0.3, scale=x**2),
    "gamma": lambda m, x: m.gamma.logpdf(x, x + 1.0, scale=2.0),
    "beta": lambda m, x: m.beta.pdf(x / 3, 2.0, x),
    "poisson": lambda m, x: m.poisson.logpmf(3, x),
    "t": lambda m, x: m.t.logpdf(x, 4.0, loc=x / 2),
}


@pytest.mark.parametrize("name", LAWS)
def test_laws_have_gradients(name: str) -> None:
    """Densities of SciPy's laws have JAX's gradients by points and parameters."""
    call = LAWS[name]
    jax = pytest.importorskip("jax", reason="the reference is JAX's")
    with jax.enable_x64(True):
        theirs = importlib.import_module("jax.scipy.stats")
        expected = jax.jit(jax.grad(lambda x: jax.numpy.sum(call(theirs, x))))(X)
    with interop.array_api(["scipy"]):
        gradient = afx.grad(lambda x: afx.sum(call(stats, x)))(X)
        np.testing.assert_allclose(gradient, expected, rtol=1e-10)
        assert isinstance(call(stats, X), np.ndarray)
    with pytest.raises(errors.ConcreteValueError):
        afx.grad(lambda x: afx.sum(call(stats, x)))(X)


def test_frozen_laws_have_gradients() -> None:
    """A law at parameters that was made before, too."""
    law = stats.norm(0.5, 2.0)
    with interop.array_api(["scipy"]):
        np.testing.assert_allclose(afx.grad(lambda x: afx.sum(law.logpdf(x)))(X), -(X - 0.5) / 4.0, rtol=1e-12)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "another argument": (lambda x: linalg.eigh(x, subset_by_index=[0, 1])[0], "call afx.linalg.eigh"),
    "another form": (lambda x: linalg.solve(x, B, assume_a="tridiagonal"), "call afx.linalg.solve"),
    "columns": (lambda x: linalg.qr(x, pivoting=True)[1], "columns are not exchanged"),
    "triangles": (
        lambda x: interpolate.griddata(A[:, :2], x[0], A[:2, :2]),
        r"write afx.interpolate.RBFInterpolator\(points, values\), smooth",
    ),
    "cosine": (linalg.cosm, r"write afx.linalg.funm\(a, afx.cos\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_answered_says_what_to_write(name: str) -> None:
    """Arguments and functions that afx has not raise, with what does the same, or comes next to it."""
    call, advice = REFUSED[name]
    with interop.array_api(["scipy"]), pytest.raises(errors.AfxError, match=advice):
        afx.grad(lambda x: afx.sum(call(x)))(S)


def test_advice_for_functions_of_matrices_does_the_same() -> None:
    """What the errors say for cosines and their like, and for Lyapunov's equation, is SciPy's number."""
    for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh"):
        own = afx.linalg.funm(S / 9, getattr(afx, name))
        np.testing.assert_allclose(own, getattr(linalg, f"{name}m")(S / 9), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        afx.linalg.solve_sylvester(S, S.conj().T, A), linalg.solve_continuous_lyapunov(S, A), rtol=1e-10
    )


def test_griddata_is_not_another_interpolation() -> None:
    """Along a line it is answered within SciPy, by the linear interpolation that it is there; else no class stands for it."""
    with pytest.raises(errors.ConcreteValueError, match="smooth where griddata is linear on triangles"):
        afx.grad(lambda y: afx.sum(interpolate.griddata(GRID, y, X)))(X)
    with interop.array_api(["scipy"]):
        gradient = afx.grad(lambda y: afx.sum(interpolate.griddata(GRID, y, X)))(X)
    np.testing.assert_allclose(gradient, [sum(np.interp(X, GRID, e)) for e in np.eye(8)], rtol=1e-12, atol=1e-12)


def test_filters_run_batched() -> None:
    """A filter of SciPy's inside of `vmap` is the filter of each row."""
    rows = RNG.normal(size=(3, 20))
    with interop.array_api(["scipy"]):
        got = afx.vmap(lambda x: signal.savgol_filter(x, 5, 2))(rows)
    np.testing.assert_allclose(got, signal.savgol_filter(rows, 5, 2), rtol=1e-12)
