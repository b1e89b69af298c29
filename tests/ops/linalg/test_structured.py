"""Matrices of vectors and of sizes, and updates of factorisations, beside SciPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import afx
from afx import errors, linalg
from tests.ops.samples import together

RNG = np.random.default_rng(5)
C, R, A, B = RNG.normal(size=4), RNG.normal(size=3), RNG.normal(size=(5, 3)), RNG.normal(size=(2, 4))
S = A[:3] @ A[:3].T + 3 * np.eye(3)

OF_VECTORS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {  # a call of a namespace, and operands
    "block_diag": (lambda m, x, y: m.block_diag(x, y, [[1.0]]), (A, R)),
    "toeplitz": (lambda m, x, y: m.toeplitz(x, y), (C, R)),
    "toeplitz, symmetric": (lambda m, x: m.toeplitz(x), (C,)),
    "hankel": (lambda m, x, y: m.hankel(x, y), (C, R)),
    "hankel, one vector": (lambda m, x: m.hankel(x), (C,)),
    "circulant": (lambda m, x: m.circulant(x), (C,)),
    "companion": (lambda m, x: m.companion(x), (C,)),
    "fiedler_companion": (lambda m, x: m.fiedler_companion(x), (RNG.normal(size=6),)),
    "fiedler_companion, odd": (lambda m, x: m.fiedler_companion(x), (RNG.normal(size=7),)),
    "fiedler_companion, linear": (lambda m, x: m.fiedler_companion(x), (R[:2],)),
    "leslie": (lambda m, x, y: m.leslie(x, y), (C, R)),
    "fiedler": (lambda m, x: m.fiedler(x), (C,)),
    "convolution_matrix": (lambda m, x: m.convolution_matrix(x, 6, mode="full"), (C,)),
    "convolution_matrix, same": (lambda m, x: m.convolution_matrix(x, 3, mode="same"), (C,)),
    "convolution_matrix, same, long": (lambda m, x: m.convolution_matrix(x, 7, mode="same"), (C,)),
    "convolution_matrix, valid": (lambda m, x: m.convolution_matrix(x, 2, mode="valid"), (C,)),
    "convolution_matrix, valid, long": (lambda m, x: m.convolution_matrix(x, 7, mode="valid"), (C,)),
    "qr_multiply": (lambda m, x, y: m.qr_multiply(x, y)[0], (A, RNG.normal(size=(2, 5)))),
    "qr_multiply, left": (lambda m, x, y: m.qr_multiply(x, y, mode="left")[0], (A, RNG.normal(size=(3, 2)))),
    "qr_multiply, a vector": (lambda m, x, y: m.qr_multiply(x, y)[0], (A, RNG.normal(size=5))),
    "eigh_tridiagonal": (lambda m, d, e: m.eigh_tridiagonal(d, e, eigvals_only=True), (C, R)),
    "eigh_tridiagonal, some": (
        lambda m, d, e: m.eigh_tridiagonal(d, e, eigvals_only=True, select="i", select_range=(1, 2)),
        (C, R),
    ),
    "expm_frechet": (lambda m, a, t: m.expm_frechet(a, t, compute_expm=False), (S / 5, A[:3])),
}


@together("name", OF_VECTORS)
def test_values_and_derivatives(name: str) -> None:
    """Values are SciPy's, plain, compiled and mapped, of float32 too; derivatives agree with differences."""
    call, operands = OF_VECTORS[name]
    fn = lambda *xs: call(linalg, *xs)  # of the operands alone
    want = call(scipy.linalg, *operands)
    np.testing.assert_allclose(np.asarray(fn(*operands)), want, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.asarray(afx.jit(fn)(*operands)), want, rtol=1e-12, atol=1e-12)
    twice = afx.vmap(fn)(*[np.stack([x, x]) for x in operands])
    np.testing.assert_allclose(np.asarray(twice), np.stack([want, want]), rtol=1e-12, atol=1e-12)
    single = fn(*[x.astype(np.float32) for x in operands])
    assert single.dtype == np.float32
    np.testing.assert_allclose(np.asarray(single), want, rtol=2e-4, atol=2e-5)
    afx.testing.check_grads(fn, operands)


def test_complex_and_whole_numbers() -> None:
    """The first row of `toeplitz` is the conjugate; whole numbers stay so; nothing makes what SciPy makes of it."""
    z = C + 1j * C[::-1]
    np.testing.assert_array_equal(np.asarray(linalg.toeplitz(z)), scipy.linalg.toeplitz(z))
    for fn in ("toeplitz", "hankel", "circulant"):
        got = getattr(linalg, fn)([1, 2, 3])
        assert got.dtype == np.int64
        np.testing.assert_array_equal(np.asarray(got), getattr(scipy.linalg, fn)([1, 2, 3]))
    assert linalg.block_diag().shape == (1, 0)
    assert linalg.toeplitz(np.zeros(0)).shape == (0, 0)
    assert linalg.block_diag(np.ones((2, 1, 1)), np.ones((2, 2))).shape == (2, 3, 3)


OF_SIZES: dict[str, Callable[[Any, int], Any]] = {
    "hilbert": lambda m, n: m.hilbert(n),
    "invhilbert": lambda m, n: m.invhilbert(n),
    "invhilbert, exact": lambda m, n: m.invhilbert(n, exact=True),
    "pascal": lambda m, n: m.pascal(n),
    "pascal, lower": lambda m, n: m.pascal(n, kind="lower"),
    "pascal, upper": lambda m, n: m.pascal(n, kind="upper", exact=False),
    "invpascal": lambda m, n: m.invpascal(n),
    "invpascal, lower": lambda m, n: m.invpascal(n, kind="lower"),
    "invpascal, upper": lambda m, n: m.invpascal(n, kind="upper", exact=False),
    "dft": lambda m, n: m.dft(n),
    "dft, unitary": lambda m, n: m.dft(n, scale="sqrtn"),
    "dft, inverse": lambda m, n: m.dft(n, scale="n"),
    "helmert": lambda m, n: m.helmert(n),
    "helmert, full": lambda m, n: m.helmert(n, full=True),
}


@together("name", OF_SIZES)
@together("n", [1, 2, 5, 11])
def test_matrices_of_a_size(name: str, n: int) -> None:
    """Matrices that a size makes are SciPy's, to the last digits in float64."""
    with afx.default_dtype(np.float64):
        got = OF_SIZES[name](linalg, n)
    want = OF_SIZES[name](scipy.linalg, n)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12, atol=2e-13)
    assert np.asarray(OF_SIZES[name](linalg, n)).dtype in (np.float32, np.complex64, np.int64)


def test_hadamard() -> None:
    """Sylvester's construction, in a dtype that may be chosen."""
    for n in (1, 2, 16):
        np.testing.assert_array_equal(np.asarray(linalg.hadamard(n)), scipy.linalg.hadamard(n))
    assert linalg.hadamard(4, np.float32).dtype == np.float32


def test_updated_cholesky_factor() -> None:
    """The factor of a matrix with a rank-one term has a positive diagonal, and derivatives."""
    r, w = np.linalg.cholesky(S).T, R
    got = np.asarray(linalg.cholesky_update(r, w))
    np.testing.assert_allclose(got, np.linalg.cholesky(S + np.outer(w, w)).T, rtol=1e-12, atol=1e-13)
    afx.testing.check_grads(linalg.cholesky_update, (r, w))


def test_householder_products() -> None:
    """LAPACK's reflections multiply to the factor of `qr`; a factor of 0 is no reflection."""
    (h, tau), _ = scipy.linalg.qr(A, mode="raw")
    q = scipy.linalg.qr(A, mode="economic")[0]
    np.testing.assert_allclose(np.asarray(linalg.householder_product(h, tau)), q, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(np.asarray(linalg.householder_product(A, np.zeros(3))), np.eye(5, 3))
    afx.testing.check_grads(linalg.householder_product, (A, tau))


def test_systems_of_three_diagonals() -> None:
    """Solutions are those of the full matrix; derivatives are by every diagonal."""
    dl, d, du, b = RNG.normal(size=4), RNG.normal(size=4) + 5, RNG.normal(size=4), B.T
    full = np.diag(d) + np.diag(dl[1:], -1) + np.diag(du[:-1], 1)
    np.testing.assert_allclose(np.asarray(linalg.tridiagonal_solve(dl, d, du, b)), np.linalg.solve(full, b), rtol=1e-12)
    afx.testing.check_grads(linalg.tridiagonal_solve, (dl, d, du, b))


def test_symmetric_products() -> None:
    """A matrix times its transpose, scaled, and another one."""
    got = linalg.symmetric_product(A, np.eye(5), 2.0, 3.0)
    np.testing.assert_allclose(np.asarray(got), 2 * A @ A.T + 3 * np.eye(5), rtol=1e-12)


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "companion": (lambda: linalg.companion([1.0]), errors.ShapeError, "companion"),
    "leslie": (lambda: linalg.leslie(C, C), errors.ShapeError, "leslie"),
    "toeplitz": (lambda: linalg.toeplitz(3.0), errors.ShapeError, "toeplitz"),
    "hadamard": (lambda: linalg.hadamard(6), errors.ArgumentError, "power of two"),
    "invhilbert": (lambda: linalg.invhilbert(15, exact=True), errors.ArgumentError, "int64"),
    "pascal": (lambda: linalg.pascal(40), errors.ArgumentError, "int64"),
    "dft": (lambda: linalg.dft(3, "n2"), errors.ArgumentError, "scale"),  # refused
    "convolution_matrix": (lambda: linalg.convolution_matrix(C, 0), errors.ArgumentError, "length"),
    "eigh_tridiagonal": (lambda: linalg.eigh_tridiagonal(C, C), errors.ShapeError, "one number less"),
    "expm_frechet": (lambda: linalg.expm_frechet(S, A), errors.ShapeError, "expm_frechet"),
    "tridiagonal_solve": (lambda: linalg.tridiagonal_solve(C, R, C, B.T), errors.ShapeError, "one length"),
    "block_diag": (lambda: linalg.block_diag(np.ones((2, 1, 1)), np.ones((3, 1, 1))), errors.ShapeError, "batches"),
}


@together("name", REFUSED)
def test_bad_input_is_refused_by_name(name: str) -> None:
    """The error names the function and what is wrong."""
    call, kind, match = REFUSED[name]
    with pytest.raises(kind, match=match):
        call()


def test_an_infinite_number_stays_at_its_place() -> None:
    """Zeros beside it are zeros."""
    assert linalg.leslie([0.5, 2.0, 1.0], [np.inf, 0.5]).tolist() == [
        [0.5, 2.0, 1.0],
        [np.inf, 0.0, 0.0],
        [0.0, 0.5, 0.0],
    ]
    with afx.default_dtype(afx.float64):
        matrix = linalg.fiedler_companion([1.0, np.inf, 2.0])
    assert matrix.tolist() == [[-np.inf, -2.0], [1.0, 0.0]]


def test_coefficients_without_sign_are_negated_as_floats() -> None:
    """Bytes do not wrap around."""
    a = np.array([1, 240, 86, 80], np.uint8)
    for name in ("companion", "fiedler_companion"):
        np.testing.assert_array_equal(getattr(linalg, name)(a), getattr(scipy.linalg, name)(a.astype(float)))
