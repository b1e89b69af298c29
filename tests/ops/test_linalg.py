"""Linear algebra agrees with NumPy, and its derivatives with central differences."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array, linalg
from tests.ops.samples_linalg import A, P, S

EPS = 1e-6
RNG = np.random.default_rng(8)


@pytest.mark.parametrize(
    ("mine", "numpys", "x"),
    [
        (linalg.inv, np.linalg.inv, A),
        (linalg.det, np.linalg.det, A),
        (linalg.cholesky, np.linalg.cholesky, P),
        (linalg.eigvalsh, np.linalg.eigvalsh, S),
        (lambda x: linalg.slogdet(x).logabsdet, lambda x: np.linalg.slogdet(x).logabsdet, A),
        (lambda x: linalg.matrix_power(x, 3), lambda x: np.linalg.matrix_power(x, 3), A),
        (lambda x: linalg.matrix_power(x, -2), lambda x: np.linalg.matrix_power(x, -2), A),
        (lambda x: linalg.norm(x[0]), lambda x: np.linalg.norm(x[0]), A),
        (lambda x: linalg.norm(x, 1, (1, 2)), lambda x: np.linalg.norm(x, 1, (1, 2)), A),
        (lambda x: linalg.solve(x[0], x[1, :, 0]), lambda x: np.linalg.solve(x[0], x[1, :, 0]), A),
    ],
)
def test_values_are_numpys(mine: Callable[[Any], Array], numpys: Callable[[Any], Any], x: np.ndarray) -> None:
    """Values agree with NumPy's, over batches."""
    np.testing.assert_allclose(np.asarray(mine(x)), numpys(x), rtol=1e-12, atol=1e-12)


def _outside_sign(x: Array) -> Array:
    w, v = linalg.eigh(x)
    return v @ (w[..., None] ** 3 * v.mT)  # a function of the matrix does not depend on the signs of eigenvectors


@pytest.mark.parametrize(
    ("fn", "x"),
    [
        (linalg.inv, A),
        (linalg.cholesky, P),
        (linalg.eigvalsh, S),
        (_outside_sign, S),
        (lambda x: linalg.slogdet(x).logabsdet, A),
        (linalg.det, A),
        (linalg.matrix_norm, A),
        (lambda x: linalg.solve(x, x @ x), A),
    ],
    ids=["inv", "cholesky", "eigvalsh", "eigh", "slogdet", "det", "matrix_norm", "solve"],
)
def test_derivatives(fn: Callable[[Any], Array], x: np.ndarray) -> None:
    """Forward mode, reverse mode and second order agree with central differences, plain and compiled."""
    t = RNG.normal(size=x.shape)
    t = t + t.swapaxes(-1, -2) if fn in (linalg.eigvalsh, _outside_sign, linalg.cholesky) else t
    ct = RNG.normal(size=fn(x).shape)

    def total(v: Any) -> Array:
        return afx.sum(fn(v) * ct)

    difference = (float(total(x + EPS * t)) - float(total(x - EPS * t))) / (2 * EPS)
    for run in (total, afx.jit(total)):
        assert float(afx.jvp(run, (x,), (t,))[1]) == pytest.approx(difference, rel=2e-7, abs=1e-7)
        assert float(np.sum(np.asarray(afx.grad(run)(x)) * t)) == pytest.approx(difference, rel=2e-7, abs=1e-7)
    second = np.asarray(afx.hvp(total, (x,), (t,)))
    slopes = [np.asarray(afx.grad(total)(x + s * EPS * t)) for s in (1, -1)]
    np.testing.assert_allclose(second, (slopes[0] - slopes[1]) / (2 * EPS), rtol=1e-5, atol=1e-6)


def test_batched_by_vmap() -> None:
    """Mapping over matrices is the batch."""
    for fn in (linalg.inv, linalg.det, linalg.cholesky, linalg.eigvalsh):
        np.testing.assert_allclose(np.asarray(afx.vmap(fn)(P)), np.asarray(fn(P)), rtol=1e-12)


def test_equal_eigenvalues_have_finite_derivatives() -> None:
    """The sum of the eigenvalues' squares is smooth, also at the identity."""
    found = afx.grad(lambda x: afx.sum(linalg.eigvalsh(x) ** 2))(np.eye(3))
    np.testing.assert_allclose(np.asarray(found), 2 * np.eye(3), atol=1e-12)


def test_numpys_names_are_answered() -> None:
    """``np.linalg.solve`` and others on an Array are afx's own, with derivatives."""
    found = afx.grad(lambda x: np.linalg.det(np.linalg.inv(x)))(afx.asarray(A[0]))
    np.testing.assert_allclose(np.asarray(found), -np.linalg.inv(A[0]).T / np.linalg.det(A[0]), rtol=1e-10)


@pytest.mark.parametrize(
    ("run", "kind", "words"),
    [
        (lambda: linalg.solve(A[0], np.ones(2)), afx.errors.ShapeError, "rows of b"),
        (lambda: linalg.inv(np.ones((2, 3))), afx.errors.ShapeError, "square"),
        (lambda: linalg.det(np.ones((2, 2), np.float16)), afx.errors.DtypeError, "half precision"),
        (lambda: linalg.matrix_norm(A, ord=7), afx.errors.ArgumentError, "ord"),
        (lambda: linalg.solve(np.zeros((2, 2)), np.ones(2)), np.linalg.LinAlgError, "[Ss]ingular"),
    ],
)
def test_mistakes_are_explained(run: Callable[[], Any], kind: type[Exception], words: str) -> None:
    """Each mistake raises with its reason."""
    with pytest.raises(kind, match=words):
        run()
