"""Functions of matrices: values, and derivatives up to the third where eigenvalues are equal or nearly so."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import afx
from afx import linalg
from tests.ops.samples import together

RNG = np.random.default_rng(12)
GAPS = [0.0, 1e-300, 1e-16, 1e-12, 1e-8, 1e-4, 1e-2, 0.1, 0.5, 1.0]
X, T = RNG.normal(size=(2, 3, 3))
T = T + T.T
POWER = -0.3

# the function, the series of f(1 + u), and the derivatives of f at 1
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sqrtm": lambda a: linalg.sqrtm(a, hermitian=True),
    "logm": lambda a: linalg.logm(a, hermitian=True),
    "fractional_matrix_power": lambda a: linalg.fractional_matrix_power(a, POWER, hermitian=True),
    "expm": lambda a: linalg.expm(a, hermitian=True),
    "funm": lambda a: linalg.funm(a, afx.sin, hermitian=True),
}


def coefficients(name: str) -> list[float]:
    """Return the Taylor coefficients of a function at 1."""
    found = [1.0]
    for j in range(1, 60):
        power = {"sqrtm": 0.5, "fractional_matrix_power": POWER}.get(name, 0.0)
        found.append(found[-1] * (power - j + 1) / j)
    if name == "logm":
        return [0.0] + [(-1.0) ** (j - 1) / j for j in range(1, 60)]
    factorials = np.cumprod([1.0, *np.arange(1.0, 60.0)])
    if name == "expm":
        return list(np.e / factorials)
    return list(np.sin(1 + np.arange(60) * np.pi / 2) / factorials) if name == "funm" else found


def directional(name: str, u: np.ndarray, t: np.ndarray) -> list[np.ndarray]:
    """Return the derivatives of orders 0 to 3 of f(1 + u) along t, from powers of polynomials of matrices."""
    n = u.shape[0]
    power = [np.eye(n), *[np.zeros((n, n))] * 3]  # the coefficients of (u + s t)ʲ
    total = [np.zeros((n, n)) for _ in range(4)]
    for c in coefficients(name):
        total = [v + c * p for v, p in zip(total, power, strict=True)]
        power = [power[k] @ u + (power[k - 1] @ t if k else 0) for k in range(4)]
    return [v * f for v, f in zip(total, (1, 1, 2, 6), strict=True)]


@together(("name", "gap"), [(name, gap) for name in FUNCTIONS for gap in (GAPS if name != "funm" else GAPS[::4])])
def test_three_derivatives_at_every_gap(name: str, gap: float) -> None:
    """Value and three derivatives are the power series' to ten digits, whatever the gap of the eigenvalues.

    In forward and in reverse mode; eigenvectors are not those of the axes.
    """
    fn = FUNCTIONS[name]
    q = np.linalg.qr(X)[0]
    u = (q * np.array([0.0, gap, -0.2]) * 0.2) @ q.T
    x, t = np.eye(3) + u, T / 10
    expected = directional(name, u, t)
    along: Callable[[Any], Any] = lambda s: fn(x + s * t)  # replaced by its derivative below
    weighted: Callable[[Any], Any] = lambda s: afx.sum(fn(x + s * t) * X)
    for k, want in enumerate(expected):
        np.testing.assert_allclose(np.asarray(along(np.float64(0))), want, rtol=1e-10, atol=1e-10 * np.abs(want).max())
        size = float(np.sum(np.abs(want * X)))
        assert float(weighted(np.float64(0))) == pytest.approx(float(np.sum(want * X)), abs=1e-10 * size), k
        along = lambda s, f=along: afx.jvp(f, (s,), (np.float64(1),))[1]
        weighted = afx.grad(weighted)


def test_log_euclidean_fit_from_the_identity() -> None:
    """Gradient descent on ``|logm(a) - logm(target)|²`` from the identity finds the target."""
    target = scipy.linalg.expm(T / 4)
    goal = T / 4

    @afx.jit
    def step(a: Any) -> Any:
        return a - 0.4 * afx.grad(lambda v: afx.sum((linalg.logm(v, hermitian=True) - goal) ** 2))(a)

    a: Any = np.eye(3)
    for _ in range(300):
        a = step(a)
    np.testing.assert_allclose(np.asarray(a), target, rtol=1e-8)


@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
def test_values_are_scipys(dtype: str) -> None:
    """General matrices have SciPy's values, Hermitian ones too, in the operand's dtype."""
    a = np.eye(3) * 4 + X + (1j * X.T if dtype in "FD" else 0)
    h = (a + a.conj().T) / 2
    tolerance = 1e-5 if dtype in "fF" else 1e-12
    for x, options in ((a, {}), (h, {"hermitian": True})):
        x = x.astype(dtype)
        for name, args in (("sqrtm", ()), ("logm", ()), ("fractional_matrix_power", (0.3,)), ("expm", ())):
            found = getattr(linalg, name)(x, *args, **options)
            assert found.dtype == x.dtype
            expected = getattr(scipy.linalg, name)(x.astype("D"), *args)
            np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)
        sine = np.asarray(linalg.funm(x, afx.sin, **options))
        np.testing.assert_allclose(sine, scipy.linalg.sinm(x), rtol=tolerance, atol=tolerance)


def test_matrices_without_a_real_root() -> None:
    """A real matrix without a real root gives nan; made complex it has one. A semidefinite one has a root."""
    assert np.isnan(np.asarray(linalg.sqrtm(np.diag([1.0, -1.0])))).all()
    np.testing.assert_allclose(np.asarray(linalg.sqrtm(np.diag([1.0, -1.0 + 0j]))), np.diag([1, 1j]), atol=1e-15)
    assert np.isnan(np.asarray(linalg.logm(np.diag([1.0, -1.0]), hermitian=True))).any()
    v = np.array([[1.0, 2.0]])
    np.testing.assert_allclose(np.asarray(linalg.sqrtm(v.T @ v, hermitian=True)), v.T @ v / np.sqrt(5), atol=1e-7)


def test_vmap_and_jit() -> None:
    """Functions of Hermitian matrices batch, and compile."""
    x = np.stack([np.eye(3), np.eye(3) + T / 10])
    for fn in FUNCTIONS.values():
        expected = np.stack([np.asarray(fn(v)) for v in x])
        np.testing.assert_allclose(np.asarray(afx.jit(afx.vmap(fn))(x)), expected, rtol=1e-12, atol=1e-14)
        slopes = afx.vmap(afx.grad(lambda v, fn=fn: afx.sum(fn(v) * X)))(x)
        np.testing.assert_allclose(
            np.asarray(slopes),
            [np.asarray(afx.grad(lambda v, fn=fn: afx.sum(fn(v) * X))(v)) for v in x],
            rtol=1e-10,
            atol=1e-12,
        )


# -- polar ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_polar(shape: tuple[int, int]) -> None:
    """The factors are SciPy's, and the derivative is a difference of values, at equal singular values too."""
    for x in (RNG.normal(size=shape), np.eye(*shape) * 2):
        found, expected = linalg.polar(x), scipy.linalg.polar(x)
        np.testing.assert_allclose(np.asarray(found.u), expected[0], atol=1e-13)
        np.testing.assert_allclose(np.asarray(found.p), expected[1], atol=1e-13)
        t, weights = RNG.normal(size=(2, *shape))

        def value(s: Any, x: Any = x, t: Any = t, weights: Any = weights) -> Any:
            return afx.sum(linalg.polar(x + s * t).u * weights) + linalg.matrix_norm(x + s * t, ord="nuc")

        for fn in (value, afx.grad(value), afx.grad(afx.grad(value))):
            steps = [(float(fn(np.float64(h))) - float(fn(np.float64(-h)))) / (2 * h) for h in (1e-4, 2e-4)]
            slope = (4 * steps[0] - steps[1]) / 3  # exact to the fourth order
            assert float(afx.grad(fn)(np.float64(0))) == pytest.approx(slope, rel=1e-7, abs=1e-7)


def test_solve_sylvester() -> None:
    """Solutions are SciPy's, of batches too; operands that do not fit are refused."""
    a, b, q = X + 4 * np.eye(3), RNG.normal(size=(2, 2)), RNG.normal(size=(5, 3, 2))
    expected = [scipy.linalg.solve_sylvester(a, b, v) for v in q]
    np.testing.assert_allclose(np.asarray(linalg.solve_sylvester(a, b, q)), expected, rtol=1e-11, atol=1e-12)
    with pytest.raises(afx.errors.ShapeError, match="q has the rows of a and the columns of b"):
        linalg.solve_sylvester(a, b, q.swapaxes(-1, -2))
