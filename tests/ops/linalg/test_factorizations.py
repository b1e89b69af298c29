"""Derivatives of linear algebra on real and complex matrices of every form, where no choice of vectors shows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array, linalg
from tests.ops.samples import RNG, normal_like, together

EPS = 1e-6

FORMS = [(2, 5, 3), (2, 3, 5), (3, 3), (1, 1), (4, 1), (1, 4), (0, 3), (3, 0), (2, 0, 0), (0, 3, 2)]
SQUARE = [(2, 4, 4), (1, 1), (0, 0), (0, 4, 4)]
RIGHT = np.arange(10.0).reshape(5, 2) - 3
Function = Callable[[Any], Any]


def adjoint(x: Any) -> Any:
    """Return the conjugate transpose."""
    return afx.conj(afx.matrix_transpose(x))


def join(*parts: Any) -> Array:
    """Return the elements of several results as one vector."""
    return afx.concat([afx.ravel(x) for x in parts])


def square_svd(x: Any) -> Array:
    """Return the projectors on what a matrix leaves out, and its reconstruction from full vectors."""
    u, s, vh = linalg.svd(x)
    k = s.shape[-1]
    left, right = u[..., k:], vh[..., k:, :]
    return join(left @ adjoint(left), adjoint(right) @ right, u[..., :k] * s[..., None, :] @ vh[..., :k, :])


def thin_svd(x: Any) -> Array:
    """Return functions of the singular values and vectors that depend on no choice of these."""
    u, s, vh = linalg.svd(x, full_matrices=False)
    return join(u * afx.sin(s)[..., None, :] @ vh, u @ vh, s, u * s[..., None, :] ** 2 @ adjoint(u))


def complete_qr(x: Any) -> Array:
    """Return R and the projector on what the columns of a matrix leave out."""
    q, r = linalg.qr(x, "complete")
    rest = q[..., x.shape[-1] :]
    return join(rest @ adjoint(rest), r)


def hermitian_sine(x: Any) -> Array:
    """Return the sine of a Hermitian matrix."""
    w, v = linalg.eigh(x)
    return v * afx.sin(w)[..., None, :] @ adjoint(v)


def general_exponential(x: Any) -> Array:
    """Return the exponential of a matrix by its eigenvectors, and their elements' sizes."""
    w, v = linalg.eig(x)
    return join(v * afx.exp(w)[..., None, :] @ linalg.inv(v), abs(v) ** 2)


GENERAL: dict[str, Function] = {
    "qr": lambda x: join(*linalg.qr(x)),
    "complete qr": complete_qr,
    "thin svd": thin_svd,
    "full svd": square_svd,
    "svdvals": linalg.svdvals,
    "pinv": linalg.pinv,
    "lu": lambda x: join(*linalg.lu(x)[1:]),
    "permuted lu": lambda x: join(*linalg.lu(x, permute_l=True)),
    "lstsq": lambda x: join(*linalg.lstsq(x, RIGHT[: x.shape[-2]].astype(x.real.dtype))[:2]),
    "nuclear norm": lambda x: linalg.matrix_norm(x, ord="nuc"),
}
OF_SQUARE: dict[str, Function] = {
    "eig": general_exponential,
    "eigvals": linalg.eigvals,
    "expm": linalg.expm,
    "det": linalg.det,
    "slogdet": lambda x: join(*linalg.slogdet(x)),
    "inv": linalg.inv,
    "power": lambda x: linalg.matrix_power(x, -3),
    "solve": lambda x: linalg.solve(x, x[..., :2] ** 2),
    "lower": lambda x: linalg.solve_triangular(x + 3, x[..., :2] ** 2, lower=True, trans="C"),
    "upper": lambda x: linalg.solve_triangular(x + 3, x[..., :2] ** 2, trans="T"),
    "unit": lambda x: linalg.solve_triangular(x, x[..., :2] ** 2, unit_diagonal=True),
}
OF_HERMITIAN: dict[str, Function] = {
    "cholesky": linalg.cholesky,
    "upper cholesky": lambda x: linalg.cholesky(x, upper=True),
    "eigvalsh": linalg.eigvalsh,
    "eigh": hermitian_sine,
    "upper eigh": lambda x: linalg.eigvalsh(x, "U"),
}
NORMS: dict[str, Function] = {
    f"{name} {ord}": lambda x, fn=fn, ord=ord: fn(x, ord)
    for name, fn in (("cond", linalg.cond), ("norm", lambda x, ord: linalg.matrix_norm(x, ord=ord)))
    for ord in ("fro", "nuc", 2, -2, 1, -1, np.inf, -np.inf)
}


def matrix(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return a random matrix whose eigenvalues and singular values are apart."""
    x = RNG.normal(size=shape) + np.eye(*shape[-2:]) * np.arange(shape[-1])
    return x + 1j * RNG.normal(size=shape) if dtype == "D" else x


def check(fn: Function, x: np.ndarray, hermitian: bool = False) -> None:
    """Compare both modes, plain and compiled, and the second order with central differences."""
    t, z = normal_like(x), fn(x)
    t = np.asarray(t + adjoint(t)) if hermitian else t
    ct = normal_like(z)

    def total(v: Any) -> Array:
        return afx.real(afx.sum(fn(v) * ct))

    def slope(v: Any) -> Array:
        return afx.real(afx.sum(afx.grad(total)(v) * t))

    above, below = float(total(x + EPS * t)), float(total(x - EPS * t))
    for run in (total, afx.jit(total)):
        expected = pytest.approx((above - below) / (2 * EPS), rel=1e-6, abs=1e-6)
        assert float(afx.jvp(run, (x,), (t,))[1]) == expected
        assert float(np.real(np.sum(np.asarray(afx.grad(run)(x)) * t))) == expected
    second = (float(slope(x + EPS * t)) - float(slope(x - EPS * t))) / (2 * EPS)
    expected = pytest.approx(second, rel=1e-5, abs=1e-5)
    assert float(afx.jvp(slope, (x,), (t,))[1]) == expected
    assert float(np.real(np.sum(np.asarray(afx.grad(slope)(x)) * t))) == expected


both = pytest.mark.parametrize("dtype", ["d", "D"])


@both
@together("shape", FORMS, ids=str)
@together("name", GENERAL)
def test_of_any_form(name: str, shape: tuple[int, ...], dtype: str) -> None:
    """Factorisations of tall, wide, square, small and empty matrices differentiate in both modes and twice."""
    check(GENERAL[name], matrix(shape, dtype))


@both
@together("shape", SQUARE, ids=str)
@together("name", OF_SQUARE)
def test_of_square_matrices(name: str, shape: tuple[int, ...], dtype: str) -> None:
    """Functions of square matrices differentiate in both modes and twice."""
    check(OF_SQUARE[name], matrix(shape, dtype))


@both
@together("shape", SQUARE, ids=str)
@together("name", OF_HERMITIAN)
def test_of_hermitian_matrices(name: str, shape: tuple[int, ...], dtype: str) -> None:
    """Functions of symmetric and Hermitian matrices differentiate in both modes and twice."""
    x = matrix(shape, dtype)
    check(OF_HERMITIAN[name], np.asarray(x @ adjoint(x)) + np.eye(shape[-1]), hermitian=True)


@both
@together("name", NORMS)
def test_norms_and_condition_numbers(name: str, dtype: str) -> None:
    """Every norm of matrices, and its condition number, differentiates in both modes and twice."""
    check(NORMS[name], matrix((2, 3, 3), dtype))


@both
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_determinants_of_singular_matrices(rank: int, dtype: str) -> None:
    """The determinant is a polynomial: its derivatives of every order exist at singular matrices of any rank."""
    x = matrix((3, rank), dtype) @ matrix((rank, 3), dtype)
    check(linalg.det, x)

    def third(v: Any) -> Array:
        return afx.jvp(lambda u: afx.jvp(lambda w: afx.jvp(linalg.det, (w,), (t,))[1], (u,), (t,))[1], (v,), (t,))[1]

    t = matrix((3, 3), dtype)
    np.testing.assert_allclose(np.asarray(third(x)), 6 * np.linalg.det(t), rtol=1e-9)


def test_equal_singular_values() -> None:
    """Where singular values are equal, their symmetric functions and the polar factor have right derivatives.

    What depends on singular vectors is nan there.
    """
    x = np.linalg.qr(matrix((4, 4), "d"))[0] * 2.0
    for fn in (lambda v: afx.sum(linalg.svdvals(v) ** 3), lambda v: afx.sum(linalg.polar(v).u * x**2)):
        found = np.asarray(afx.grad(fn)(x))
        t = matrix((4, 4), "d")
        difference = (float(fn(x + EPS * t)) - float(fn(x - EPS * t))) / (2 * EPS)
        assert float(np.sum(found * t)) == pytest.approx(difference, rel=1e-6)
    turned = afx.grad(lambda v: afx.sum(linalg.svd(v).U @ linalg.svd(v).Vh * x**2))(x)
    assert np.isnan(np.asarray(turned)).all()
    one = np.asarray(afx.grad(lambda v: linalg.matrix_norm(v, ord=2))(np.eye(3)))
    np.testing.assert_allclose(one, np.eye(3) / 3, atol=1e-12)


def test_zero_matrices() -> None:
    """Norms have derivative 0 at a zero matrix, and singular vectors stay finite there."""
    x = np.zeros((3, 2))
    for ord in ("fro", "nuc", 1, np.inf):
        assert not np.any(np.asarray(afx.grad(lambda v, ord=ord: linalg.matrix_norm(v, ord=ord))(x)))


def test_equal_eigenvalues() -> None:
    """Where eigenvalues are equal, first derivatives of what depends on them alone are right."""
    x = np.diag([2.0, 2.0, 2.0, 5.0])
    for values in (
        linalg.eigvalsh,
        lambda v: linalg.eigh(v).eigenvalues,
        lambda v: afx.real(linalg.eig(v).eigenvalues),
    ):
        found = afx.grad(lambda v, values=values: afx.sum(afx.exp(values(v))))(x)
        np.testing.assert_allclose(np.asarray(found), np.diag(np.exp(np.diag(x))), atol=1e-12)


def test_eigenvectors_of_equal_eigenvalues() -> None:
    """What depends on eigenvectors of equal eigenvalues has derivative nan, not a finite number that misses terms."""
    x = np.diag([2.0, 2.0, 3.0])
    weights = np.arange(9.0).reshape(3, 3)

    def logarithm(v: Any) -> Array:
        w, q = linalg.eigh(v)
        return afx.sum((q * afx.log(w)) @ q.T * weights)

    assert np.isnan(np.asarray(afx.grad(logarithm)(x))).all()
    assert np.isnan(np.asarray(afx.jit(afx.grad(logarithm))(x))).all()
    hessian = np.asarray(afx.hessian(lambda v: afx.sum(linalg.eigvalsh(v) ** 2))(x))
    assert np.isnan(hessian[0, 1, 0, 1])
    slopes = afx.jvp(linalg.eigh, (x,), (weights + weights.T,))[1]
    np.testing.assert_allclose(np.asarray(slopes[0]), [0.0, 8.0, 16.0])
    assert np.isnan(np.asarray(slopes[1])).any()
    with afx.debug_nans(), pytest.raises(afx.errors.NanError, match="backward pass of eigh gives nan"):
        afx.grad(logarithm)(x)
    np.testing.assert_allclose(np.asarray(afx.grad(logarithm)(np.diag([1.0, 2.0, 4.0]))).diagonal(), [0.0, 2.0, 2.0])


def matrix_function(by: str, fn: Any, weights: Any) -> Any:
    """Return a weighted sum of a function of a matrix, written with the factors that `by` names."""

    def total(x: Any) -> Array:
        if by == "svd":
            u, s, vh = linalg.svd(x, full_matrices=False)
            return afx.sum(afx.real((u * fn(s)) @ vh * weights))
        w, v = linalg.eigh(x) if by == "eigh" else linalg.eig(x)
        return afx.sum(afx.real((v * fn(w)) @ afx.conj(v).T * weights))

    return total


@together("weights", [np.array([[0.0, 1.0], [2.0, 3.0]]), np.eye(2)[[1, 0]], np.array([[1.0, 0.5], [0.5, 1]])])
@together("dtype", ["d", "D"])
@together("by", ["eigh", "eig", "svd"])
def test_zeros_of_functions_at_equal_eigenvalues(by: str, dtype: str, weights: Any) -> None:
    """A function of the matrix that is 0 at equal eigenvalues has a derivative of nan there, never one that misses terms."""
    for fn, x in ((afx.log, np.eye(2, dtype=dtype)), (lambda w: afx.expm1(w) * 0.5, np.zeros((2, 2), dtype))):
        total = matrix_function(by, fn, weights)
        for run in (afx.grad(total), afx.jit(afx.grad(total)), afx.grad(afx.jit(total))):
            assert np.isnan(np.asarray(run(x))).any()
        direction = np.array([[0.0, 1.0], [1.0, 0.0]], dtype)
        assert np.isnan(afx.jvp(total, (x,), (direction,))[1])


def test_singular_value_zero() -> None:
    """Vectors of a singular value 0 that can turn out of their space have derivative nan; the value stays."""
    x = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    weights = np.arange(1.0, 7.0).reshape(3, 2)
    total = matrix_function("svd", lambda s: s, weights)
    assert np.isnan(np.asarray(afx.grad(total)(x))).any()
    assert np.isnan(afx.jvp(total, (x,), (weights,))[1])
    phase = matrix_function("svd", lambda s: s, np.array([[1.0j]]))
    assert np.isnan(np.asarray(afx.grad(phase)(np.zeros((1, 1), complex)))).all()
    np.testing.assert_allclose(np.asarray(afx.grad(lambda v: afx.sum(linalg.svdvals(v)[:1]))(x)), x, atol=1e-15)


def test_selected_vectors_beside_equal_eigenvalues() -> None:
    """What takes other vectors, or values that a choice left out, has right derivatives beside equal eigenvalues."""
    q = np.linalg.qr(matrix((4, 4), "d"))[0]
    weights, t = matrix((4, 4), "d"), matrix((4, 4), "d")

    def last(x: Any) -> Array:
        v = linalg.eigh(x).eigenvectors[:, -1]
        return afx.sum(afx.outer(v, v) * weights)

    def first(x: Any) -> Array:
        u, _, vh = linalg.svd(x)
        return afx.sum(afx.outer(u[:, 0], vh[0]) * weights)

    def inverse(x: Any) -> Array:
        w, v = linalg.eigh(x)
        return afx.sum((v * afx.where(w > 1e-9, 1 / w, 0.0)) @ v.T * weights)

    def shrunk(x: Any) -> Array:
        u, s, vh = linalg.svd(x)
        return afx.sum((u * afx.nn.relu(s - 0.5)) @ vh * weights)

    for fn, values, step in (
        (last, [1.0, 1.0, 1.0, 3.0], t),
        (first, [3.0, 1.0, 1.0, 1.0], t),
        (inverse, [0.0, 0.0, 2.0, 3.0], np.diag([0.0, 0.0, 1.0, 1.0])),
        (shrunk, [3.0, 2.0, 0.0, 0.0], t),
    ):
        x = (q * values) @ q.T
        step = q @ step @ q.T
        want = (float(fn(x + EPS * step)) - float(fn(x - EPS * step))) / (2 * EPS)
        for run in (afx.grad(fn), afx.jit(afx.grad(fn)), afx.grad(afx.jit(fn))):
            assert float(np.sum(np.asarray(run(x)) * step)) == pytest.approx(want, rel=1e-6)


def test_one_moving_triangle() -> None:
    """Value and derivative agree where one triangle moves: both are those of the symmetric part, or of the triangle."""
    for triangle in (None, "L", "U"):

        def total(t: Any, triangle: Any = triangle) -> Array:
            x = np.diag([2.0, 3.0]) + t * np.array([[0.0, 0.3], [1.0, 0.0]])
            return afx.sum(linalg.eigvalsh(x, triangle) ** 3) + linalg.eigh(x, triangle)[1][0, 0] ** 2

        slope = (float(total(0.5 + EPS)) - float(total(0.5 - EPS))) / (2 * EPS)
        assert float(afx.grad(total)(np.float64(0.5))) == pytest.approx(slope, rel=1e-7)


def test_factors_that_are_singular_raise() -> None:
    """Where a factor has a 0 on its diagonal, differentiating says so as NumPy's solve does."""
    for fn in (linalg.qr, lambda v: linalg.lu(v)[1:], linalg.slogdet):
        with pytest.raises(np.linalg.LinAlgError, match=r"[Ss]ingular"):
            afx.grad(lambda v, fn=fn: afx.sum(fn(v)[1]))(np.zeros((2, 2)))


@together("dtype", ["f", "d", "F", "D"])
@together("name", [*GENERAL, *OF_SQUARE, *OF_HERMITIAN, *NORMS])
def test_dtypes_are_kept(name: str, dtype: str) -> None:
    """Results have the operand's precision, eager, compiled and traced, and gradients its dtype."""
    fn = {**GENERAL, **OF_SQUARE, **OF_HERMITIAN, **NORMS}[name]
    x = matrix((3, 3), dtype.upper() if dtype in "DF" else "d").astype(dtype)
    x = (x @ x.conj().T + np.eye(3, dtype=dtype)) if name in OF_HERMITIAN else x
    z = fn(x)
    assert z.real.dtype == np.dtype(dtype.lower())
    assert afx.jit(fn)(x).dtype == z.dtype == afx.eval_shape(fn, x).dtype
    assert afx.grad(lambda v: afx.sum(afx.real(fn(v))))(x).dtype == dtype


@together("name", [*GENERAL, *OF_SQUARE, *OF_HERMITIAN])
def test_mapping_is_the_batch(name: str) -> None:
    """Gradients mapped over matrices are those of the stack."""
    fn = {**GENERAL, **OF_SQUARE, **OF_HERMITIAN}[name]
    x = matrix((2, 3, 3), "d")
    x = x @ x.swapaxes(-1, -2) + np.eye(3) if name in OF_HERMITIAN else x
    gradient = afx.grad(lambda v: afx.sum(afx.real(fn(v))))
    want = np.asarray(gradient(x))
    for mapped in (afx.vmap(gradient), afx.jit(afx.vmap(gradient))):
        np.testing.assert_allclose(np.asarray(mapped(x)), want, rtol=1e-9, atol=1e-9)


BY_ITERATION: dict[str, Callable[[Any], Any]] = {
    "svd": lambda a: tuple(linalg.svd(a)),
    "thin svd": lambda a: tuple(linalg.svd(a[..., :3], full_matrices=False)),
    "svdvals": lambda a: (linalg.svdvals(a),),
    "eigh": lambda a: tuple(linalg.eigh(a)),
    "upper eigh": lambda a: tuple(linalg.eigh(a, "U")),
    "eigvalsh": lambda a: (linalg.eigvalsh(a),),
    "pinv": lambda a: (linalg.pinv(a),),
    "nuclear norm": lambda a: (linalg.matrix_norm(a, ord="nuc"),),
    "lstsq": lambda a: (linalg.lstsq(a, np.ones((*a.shape[:-1], 2), a.dtype)).x,),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@together("dtype", ["float32", "float64", "complex128"])
@together("value", [np.nan, np.inf, -np.inf])
@together("name", BY_ITERATION)
def test_matrices_that_are_not_finite_have_nan(name: str, value: float, dtype: str) -> None:
    """Whatever LAPACK iterates for is nan of a matrix with inf or nan, in every back end; others of the stack stay."""
    fn = BY_ITERATION[name]
    x = RNG.normal(size=(3, 4, 4)).astype(dtype)
    good = x[::2] + np.swapaxes(x[::2], 1, 2)
    x[::2] = good
    x[1, 2, 2] = value
    backends: list[Any] = ["numpy", "auto", "native", *(["portable"] if dtype != "complex128" else [])]
    for run in (lambda a: fn(afx.asarray(a)), *[afx.jit(fn, backend=backend) for backend in backends]):
        found, wanted = run(x), fn(good)
        for z, want in zip(found, wanted, strict=True):
            assert z.dtype == want.dtype
            assert np.isnan(np.asarray(z)[1]).all()
            np.testing.assert_allclose(np.abs(z[::2]), np.abs(want), rtol=2e-3, atol=2e-3)


def test_ranks_of_matrices_that_are_not_finite_are_zero() -> None:
    """No singular value is above the tolerance, in any back end."""
    x = np.ones((3, 4, 4))
    x[1, 0, 0], x[2, 0, 0] = np.nan, np.inf
    backends: list[Any] = ["numpy", "auto", "native", "portable"]
    for run in (linalg.matrix_rank, *[afx.jit(linalg.matrix_rank, backend=backend) for backend in backends]):
        np.testing.assert_array_equal(run(x), [1, 0, 0])


# LAPACK's dgesdd of OpenBLAS 0.3.29 does not return from this one
ENDLESS = [[-750.0, 0.3, 0.3], [-np.inf, 2.5, 1e10], [-1e10, 7.0, -1e10], [-1.5, -0.25, 5e-324]]
ITERATED: dict[str, Callable[[Any], Any]] = {
    "svd": lambda a: linalg.svd(a, full_matrices=False).S,
    "svdvals": linalg.svdvals,
    "pinv": linalg.pinv,
    "nuclear norm": lambda a: linalg.norm(a, "nuc"),
    "spectral norm": lambda a: linalg.norm(a, 2),
    "polar": lambda a: linalg.polar(a).u,
    "lstsq": lambda a: linalg.lstsq(a, np.ones(4)).x,
    "logm": lambda a: linalg.logm(np.diag(a[1:, 0])),
    "fractional_matrix_power": lambda a: linalg.fractional_matrix_power(np.diag(a[1:, 0]), 0.5),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ITERATED)
def test_no_iteration_goes_on_without_an_end(name: str) -> None:
    """Whatever is computed by singular values, or by Schur's form, of a matrix with infinities is nan, in every tier."""
    fn = ITERATED[name]
    for run in (fn, afx.jit(fn), afx.jit(fn, backend="native")):
        assert np.isnan(np.asarray(run(np.array(ENDLESS)))).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_derivatives_of_determinants_end_at_infinities() -> None:
    """A gradient that needs cofactors, which are by singular values, is nan for a matrix with infinities."""
    x = np.array(ENDLESS)[:3]
    for backend in ("auto", "native"):
        gradient = afx.jit(afx.grad(linalg.det), backend=backend)(x)
        assert np.isnan(np.asarray(gradient)).any()
