"""Linear algebra agrees with NumPy, and its derivatives with central differences."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import afx
from afx import Array, linalg
from tests.ops.samples import together
from tests.ops.samples_linalg import A, P, S

EPS = 1e-6
RNG = np.random.default_rng(8)


V = A[0, 0]
T = RNG.normal(size=(2, 5, 3))
W = T.swapaxes(-1, -2).copy()
C = A + 1j * RNG.normal(size=A.shape)
H = C @ C.conj().swapaxes(-1, -2)
MAP = RNG.normal(size=(6, 4, 2, 3, 4))

CALLS: dict[str, Callable[[Any], Any]] = {
    "cholesky": lambda m: (m(np.linalg.cholesky, P), m(np.linalg.cholesky, H)),
    "cholesky of a triangle": lambda m: m(np.linalg.cholesky, np.tril(P)),
    "cholesky upper": lambda m: (m(np.linalg.cholesky, P, upper=True), m(np.linalg.cholesky, np.triu(H), upper=True)),
    "cond": lambda m: [m(np.linalg.cond, A, p) for p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc")],
    "cond of others": lambda m: (m(np.linalg.cond, T), m(np.linalg.cond, np.zeros((2, 2)), 1)),
    "cross": lambda m: (m(np.linalg.cross, V, V + 1), m(np.linalg.cross, W, W[::-1], axis=1)),
    "det": lambda m: (m(np.linalg.det, A), m(np.linalg.det, C)),
    "diagonal": lambda m: (m(np.linalg.diagonal, T), m(np.linalg.diagonal, T, offset=1)),
    "eig": lambda m: (m(np.linalg.eig, A), m(np.linalg.eig, C)),
    "eigh": lambda m: (m(np.linalg.eigh, S), m(np.linalg.eigh, np.tril(S)), m(np.linalg.eigh, H)),
    "eigvals": lambda m: (m(np.linalg.eigvals, A), m(np.linalg.eigvals, S)),
    "eigvalsh": lambda m: (m(np.linalg.eigvalsh, S), m(np.linalg.eigvalsh, A, UPLO="U"), m(np.linalg.eigvalsh, H)),
    "inv": lambda m: (m(np.linalg.inv, A), m(np.linalg.inv, C)),
    "lstsq": lambda m: (m(np.linalg.lstsq, T[0], T[1]), m(np.linalg.lstsq, T[0], T[1, :, 0])),
    "lstsq of wide": lambda m: (m(np.linalg.lstsq, W[0], A[0]), m(np.linalg.lstsq, A[0], A[1], 0.2)),
    "matmul": lambda m: m(np.linalg.matmul, T, W),
    "matrix_norm": lambda m: [m(np.linalg.matrix_norm, T, ord=o) for o in (2, -2, 1, -1, np.inf, "fro", "nuc")],
    "matrix_power": lambda m: [m(np.linalg.matrix_power, A, n) for n in (-3, -1, 0, 1, 2, 7)],
    "matrix_rank": lambda m: (m(np.linalg.matrix_rank, T), m(np.linalg.matrix_rank, V), m(np.linalg.matrix_rank, T, 2)),
    "matrix_rank by each": lambda m: m(np.linalg.matrix_rank, T, rtol=np.array([0.1, 0.9])),
    "matrix_transpose": lambda m: m(np.linalg.matrix_transpose, T),
    "multi_dot": lambda m: m(np.linalg.multi_dot, [T[0], W[0], T[1], W[0]]),
    "multi_dot of vectors": lambda m: (m(np.linalg.multi_dot, [V, A[0], V]), m(np.linalg.multi_dot, [V, V])),
    "outer": lambda m: m(np.linalg.outer, V, V),
    "pinv": lambda m: (m(np.linalg.pinv, T), m(np.linalg.pinv, W), m(np.linalg.pinv, C)),
    "pinv cut off": lambda m: (m(np.linalg.pinv, T, 0.6), m(np.linalg.pinv, T, rtol=0.6)),
    "pinv of Hermitian": lambda m: m(np.linalg.pinv, H, hermitian=True),
    "qr": lambda m: [m(np.linalg.qr, x, mode) for x in (T, W, A, C) for mode in ("reduced", "complete", "r")],
    "slogdet": lambda m: (m(np.linalg.slogdet, A), m(np.linalg.slogdet, C), m(np.linalg.slogdet, np.zeros((2, 2)))),
    "solve": lambda m: (m(np.linalg.solve, A, W), m(np.linalg.solve, A, V), m(np.linalg.solve, C, A)),
    "svd": lambda m: [m(np.linalg.svd, x, full) for x in (T, W, A, C) for full in (True, False)],
    "svd without vectors": lambda m: (m(np.linalg.svd, T, compute_uv=False), m(np.linalg.svdvals, W)),
    "svd of Hermitian": lambda m: m(np.linalg.svd, np.tril(S), compute_uv=False, hermitian=True),
    "tensordot": lambda m: (m(np.linalg.tensordot, T, T, axes=([0, 1], [0, 1])), m(np.linalg.tensordot, A[0], A[0])),
    "tensorinv": lambda m: (m(np.linalg.tensorinv, MAP), m(np.linalg.tensorinv, A[0], 1)),
    "tensorsolve": lambda m: m(np.linalg.tensorsolve, MAP, np.ones((6, 4))),
    "tensorsolve moved": lambda m: m(np.linalg.tensorsolve, np.moveaxis(MAP, -1, 0), np.ones((6, 4)), axes=(0,)),
    "trace": lambda m: (m(np.linalg.trace, T), m(np.linalg.trace, T, offset=-1), m(np.linalg.trace, T, dtype="f")),
    "vecdot": lambda m: (m(np.linalg.vecdot, C, A), m(np.linalg.vecdot, T, T, axis=0)),
    "vector_norm": lambda m: [m(np.linalg.vector_norm, T, ord=o, axis=(0, 1)) for o in (0, 1, 2, 3, np.inf, -np.inf)],
}


def _flat(found: Any) -> list[np.ndarray]:
    return [x for part in found for x in _flat(part)] if isinstance(found, (tuple, list)) else [np.asarray(found)]


@together("name", CALLS)
def test_values_are_numpys(name: str) -> None:
    """Every function of ``np.linalg`` on an Array gives what NumPy gives on its values."""

    def plain(fn: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return fn(*args, **options)

    def ours(fn: Callable[..., Any], *args: Any, **options: Any) -> Any:
        first = [afx.asarray(x) for x in args[0]] if isinstance(args[0], list) else afx.asarray(args[0])
        found = fn(first, *args[1:], **options)
        assert all(isinstance(x, Array) for x in (found if isinstance(found, tuple) else (found,)))
        return found

    for got, want in zip(_flat(CALLS[name](ours)), _flat(CALLS[name](plain)), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_every_function_of_numpys_is_there() -> None:
    """Each of ``np.linalg``'s functions has its own in `afx.linalg`, and a test."""
    names = set(np.linalg.__all__) - {"LinAlgError"}
    assert names <= set(linalg.__all__)
    assert names - {"svdvals", "norm"} <= {name.split()[0] for name in CALLS}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 5, 1024, 1025])
def test_norms_neither_overflow_nor_underflow(dtype: str, size: int) -> None:
    """The norm of n equal numbers is √n of them from the smallest to the largest that have one; inf and nan stay."""
    limits = np.finfo(dtype)
    for value in (limits.smallest_normal, limits.eps**3, 1e-12, 1.0, 1e12, float(limits.max) / 64):
        x = np.full(size, value, dtype)
        assert float(linalg.norm(x)) == pytest.approx(math.sqrt(size) * float(x[0]), rel=4 * float(limits.eps))
    assert float(linalg.norm(np.array([np.inf, 1.0], dtype))) == np.inf
    assert np.isnan(float(linalg.norm(np.array([np.nan, 1.0], dtype))))


@together("order", [None, 2, -2, 1, -1, 0, 3, 0.5, np.inf, -np.inf, "fro", "f", "nuc", 7, "x"], ids=str)
def test_norms_are_numpys(order: Any) -> None:
    """``np.linalg.norm`` has NumPy's values, shapes and refusals for every order, of all axes, one, or two."""
    for x, axis, keep in itertools.product((V, T[0], T), (None, 0, -1, (0,), (0, 1), (1, -1), (0, 0)), (False, True)):
        try:
            want = np.linalg.norm(x, order, axis, keep)
        except ValueError:
            with pytest.raises(ValueError, match="norm"):
                np.linalg.norm(afx.asarray(x), order, axis, keep)
            continue
        found = np.linalg.norm(afx.asarray(x), order, axis, keep)
        assert found.shape == np.shape(want)
        np.testing.assert_allclose(np.asarray(found), want, rtol=1e-12)


@pytest.mark.parametrize("shape", [(2, 5, 3), (3, 5), (4, 4), (70, 70), (90, 40), (1, 1), (0, 3), (3, 0)], ids=str)
def test_lu(shape: tuple[int, ...]) -> None:
    """LU factors are triangular, bounded, give their product back, and are SciPy's."""
    for x in (RNG.normal(size=shape), RNG.normal(size=shape) + 1j * RNG.normal(size=shape), np.ones(shape)):
        p, low, high = (np.asarray(v) for v in linalg.lu(x))
        np.testing.assert_allclose(p @ low @ high, x, atol=1e-12)
        assert np.all(np.abs(low) <= 1 + 1e-12)
        np.testing.assert_array_equal(low, np.tril(low))
        np.testing.assert_array_equal(high, np.triu(high))
        if x.dtype.kind == "f" and x.size:  # LAPACK compares complex numbers by another size
            for got, want in zip((p, low, high), scipy.linalg.lu(x), strict=True):
                np.testing.assert_allclose(got, want, atol=1e-10)
        np.testing.assert_allclose(np.asarray(linalg.lu(x, permute_l=True)[0]), p @ low, atol=1e-12)


@together("lower", [False, True])
@together("trans", [0, 1, 2, "N", "T", "C"])
def test_triangular_systems(trans: Any, lower: bool) -> None:
    """Triangular systems are solved as SciPy solves them, with one triangle read, small and large ones."""
    for n, unit in itertools.product((3, 150), (False, True)):
        x = (RNG.normal(size=(n, n)) + 1j * RNG.normal(size=(n, n))) / n + np.eye(n)
        b = RNG.normal(size=(n, 2))
        want = scipy.linalg.solve_triangular(x, b, trans, lower, unit)
        for rhs, expected in ((b, want), (b[:, 0], want[:, 0])):
            found = linalg.solve_triangular(x, rhs, trans=trans, lower=lower, unit_diagonal=unit)
            np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-10)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        linalg.solve_triangular(np.zeros((2, 2)), np.ones(2), trans=trans, lower=lower)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 30.0])
def test_exponentials(scale: float) -> None:
    """Exponentials are SciPy's, of matrices of any size in one stack, of defective ones, and of nan."""
    x = scale * np.stack([A[0], A[0] / 100, A[0] - A[0].T, np.eye(3, k=1)])
    for v in (x, 1j * x):
        for found, y in zip(np.asarray(linalg.expm(v)), v, strict=True):
            want = scipy.linalg.expm(y)
            np.testing.assert_allclose(found, want, atol=1e-11 * np.abs(want).max())
    turned = np.asarray(linalg.expm(x[2].astype(np.float32)))
    np.testing.assert_allclose(turned @ turned.T, np.eye(3), atol=3e-5)
    both = np.asarray(linalg.expm(np.stack([A[0], np.full((3, 3), np.nan)])))
    assert np.isfinite(both[0]).all()
    assert np.isnan(both[1]).all()


@pytest.mark.parametrize("far", [0.0, 1e3, 1e8])
def test_exponentials_lose_no_digits_to_large_elements(far: float) -> None:
    """A large element above the diagonal asks for no halvings that the result does not need."""
    want = np.array([[np.e, far * np.sinh(1)], [0, 1 / np.e]])
    np.testing.assert_allclose(np.asarray(linalg.expm(np.array([[1, far], [0, -1]]))), want, rtol=1e-14)
    assert np.isnan(np.asarray(linalg.expm(np.full((2, 2), np.inf)))).all()


@pytest.mark.filterwarnings("ignore:invalid value")
def test_factors_of_nan_are_nan() -> None:
    """Where NumPy gives nan so does afx, and where its iterations end in errors too, but for general eigenvalues."""
    x = np.full((2, 2), np.nan)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.eig(afx.asarray(x))
    for fn in (np.linalg.svd, np.linalg.pinv, np.linalg.qr, np.linalg.eigh, np.linalg.inv, np.linalg.det):
        assert all(np.isnan(v).all() for v in _flat(fn(afx.asarray(x)))[:1])


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


@together(
    ("run", "kind", "words"),
    [
        (lambda: linalg.solve(A[0], np.ones(2)), afx.errors.ShapeError, "rows of b"),
        (lambda: linalg.inv(np.ones((2, 3))), afx.errors.ShapeError, "square"),
        (
            lambda: linalg.cho_solve(np.eye(2), np.ones(2)),
            afx.errors.ArgumentError,
            r"takes what cho_factor returns: got ndarray; write cho_solve\(cho_factor\(a\), b\)",
        ),
        (lambda: linalg.lu_solve(np.eye(2), np.ones(2)), afx.errors.ArgumentError, "takes what lu_factor returns"),
        (
            lambda: linalg.solve_banded(1, np.ones((3, 2)), np.ones(2)),
            afx.errors.ArgumentError,
            r"solve_banded: two numbers of diagonals, 0 or more: got 1; count them",
        ),
        (
            lambda: linalg.householder_product(np.ones(2), np.ones(2)),
            afx.errors.ShapeError,
            r"householder_product: a matrix and a vector: got float64\[2\] and float64\[2\]",
        ),
        (lambda: linalg.det(np.ones((2, 2), np.float16)), afx.errors.DtypeError, "half precision"),
        (lambda: linalg.matrix_norm(A, ord=7), afx.errors.ArgumentError, "ord is one of"),
        (lambda: linalg.solve(np.zeros((2, 2)), np.ones(2)), np.linalg.LinAlgError, "[Ss]ingular"),
        (lambda: linalg.solve(np.eye(3), np.ones(4)), afx.errors.ShapeError, r"rows of b .* b float64\[4\]"),
        (lambda: linalg.solve_triangular(A[0], np.ones(2)), afx.errors.ShapeError, "rows of b"),
        (lambda: linalg.solve_triangular(A[0], A[0], trans=3), afx.errors.ArgumentError, "trans"),
        (
            lambda: linalg.solve(np.ones((3, 4)), np.ones(3)),
            afx.errors.ShapeError,
            r"square.*float64\[3,4\]; use lstsq",
        ),
        (lambda: linalg.cholesky(-P), np.linalg.LinAlgError, r"^cholesky: .*positive definite.*; look for nan"),
        (
            lambda: linalg.inv(A * [[[1.0]], [[0.0]]]),
            np.linalg.LinAlgError,
            r"^inv: Sing.*matrix \[1\] of a float64\[2,3,3\];",
        ),
        (lambda: linalg.cholesky(T), afx.errors.ShapeError, r"square.*float64\[2,5,3\]"),
        (lambda: linalg.eigh(A, "x"), afx.errors.ArgumentError, "UPLO"),
        (lambda: linalg.eig(V), afx.errors.ShapeError, "square"),
        (lambda: linalg.qr(A, "raw"), afx.errors.ArgumentError, "mode"),
        (lambda: linalg.svd(V), afx.errors.ShapeError, "matrices"),
        (lambda: linalg.svd(T, hermitian=True), afx.errors.ShapeError, "square"),
        (lambda: linalg.lu(1.0), afx.errors.ShapeError, "matrices"),
        (lambda: linalg.expm(T), afx.errors.ShapeError, "square"),
        (lambda: linalg.expm(np.ones((2, 2), np.float16)), afx.errors.DtypeError, "half precision"),
        (lambda: linalg.pinv(A, np.ones(3)), afx.errors.ShapeError, "one for each"),
        (lambda: linalg.pinv(A, 0.1, rtol=0.1), afx.errors.ArgumentError, "one tolerance"),
        (lambda: linalg.matrix_rank(A, 0.1, rtol=0.1), afx.errors.ArgumentError, "one tolerance"),
        (lambda: linalg.lstsq(A, np.ones((2, 2))), afx.errors.ShapeError, "rows of b"),
        (lambda: linalg.cond(T, 1), afx.errors.ShapeError, "square"),
        (lambda: linalg.cond(np.zeros((0, 2))), np.linalg.LinAlgError, "empty"),
        (lambda: linalg.norm(V, "nuc"), afx.errors.ArgumentError, "vectors"),
        (lambda: linalg.multi_dot([V]), afx.errors.ArgumentError, "two"),
        (lambda: linalg.multi_dot([A[0], T[0]]), afx.errors.ShapeError, "fit"),
        (lambda: linalg.tensorinv(T), afx.errors.ShapeError, "as many"),
        (lambda: linalg.tensorinv(T, 0), afx.errors.ArgumentError, "at least 1"),
        (lambda: linalg.tensorsolve(MAP, V), afx.errors.ShapeError, "as many"),
        (lambda: linalg.matrix_power(A, 1.5), afx.errors.ArgumentError, "integer"),
        (lambda: linalg.matrix_power(np.zeros((2, 2)), -1), np.linalg.LinAlgError, "[Ss]ingular"),
    ],
)
def test_mistakes_are_explained(run: Callable[[], Any], kind: type[Exception], words: str) -> None:
    """Each mistake raises with its reason."""
    with pytest.raises(kind, match=words):
        run()


@pytest.mark.parametrize("order", [1, np.inf, -np.inf, 0, 2, 3])
def test_norms_of_integers_are_floats(order: float) -> None:
    """The size of -128 is 128, which int8 does not hold."""
    x = np.array([[-128, 100], [-128, -128]], np.int8)
    with afx.default_dtype(afx.float64):
        z = linalg.vector_norm(x, axis=1, ord=order)
    np.testing.assert_allclose(np.asarray(z), np.linalg.vector_norm(x.astype(float), axis=1, ord=order), strict=True)


def test_norms_that_lapack_does_not_compute() -> None:
    """Vectors of half precision have norms, and matrices without elements sums of 0."""
    half = np.array([3.0, 4.0], np.float16)
    assert linalg.norm(half).dtype == linalg.norm(half, 1).dtype == np.float16
    assert float(linalg.norm(half)) == 5.0
    for shape in ((0, 3), (3, 0)):
        for order in (1, math.inf):
            assert linalg.norm(np.zeros(shape), order).tolist() == 0.0
            assert linalg.matrix_norm(np.zeros(shape), ord=order, keepdims=True).tolist() == [[0.0]]
