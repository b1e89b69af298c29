"""Schur's and Hessenberg's forms beside SciPy's, and Halley's polar factors beside JAX's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import afx
from afx import errors, linalg
from tests.ops.samples import together

RNG = np.random.default_rng(8)
A = RNG.normal(size=(3, 4, 4))


def _matrix(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if dtype in "FD" else x).astype(dtype)


def _forms(m: Any, a: Any) -> list[Any]:
    """Return every form of one matrix by a namespace's functions."""
    forms = [*m.schur(a), *m.schur(a, output="complex"), m.hessenberg(a), *m.hessenberg(a, calc_q=True)]
    return [*forms, *m.rsf2csf(*forms[:2])]


@together("dtype", "fdFD")
@together("n", [0, 1, 3, 6])
def test_forms_are_scipys(n: int, dtype: str) -> None:
    """Values and dtypes are SciPy's."""
    a = _matrix((n, n), dtype)
    tolerance = 1e-12 if dtype in "dD" else 2e-5
    for z, want in zip(_forms(linalg, a), _forms(scipy.linalg, a), strict=True):
        assert z.shape == want.shape
        assert z.dtype == want.dtype or n < 3  # SciPy answers q of small matrices as float64
        np.testing.assert_allclose(np.asarray(z), want, rtol=tolerance, atol=tolerance)


def test_forms_of_stacks() -> None:
    """Leading axes are batches, plain, compiled and mapped."""

    def forms(a: Any) -> list[Any]:
        return _forms(linalg, a)

    wanted = [np.stack(z) for z in zip(*[_forms(scipy.linalg, x) for x in A], strict=True)]
    for run in (forms, afx.jit(forms), afx.vmap(forms), afx.jit(afx.vmap(forms))):
        for z, want in zip(run(A), wanted, strict=True):
            np.testing.assert_allclose(np.asarray(z), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", [lambda a: linalg.schur(a).T, linalg.hessenberg], ids=["schur", "hessenberg"])
def test_forms_without_derivative_say_so(form: Callable[..., Any]) -> None:
    """A derivative is refused by name in every mode, compiled too; of what is detached it is none."""
    total = lambda a: afx.sum(form(a))
    for run in (afx.grad(total), afx.jit(afx.grad(total)), afx.grad(afx.jit(total)), afx.vmap(afx.grad(total))):
        with pytest.raises(errors.TracerError, match=r"(schur|hessenberg): has no derivative: got float64"):
            run(A)
    with pytest.raises(errors.TracerError, match="has no derivative"):
        afx.jvp(form, (A,), (A,))
    assert afx.grad(lambda a: afx.sum(a) + total(afx.stop_gradient(a)))(A).tolist() == np.ones_like(A).tolist()


def test_complex_forms_have_derivatives() -> None:
    """Those of `rsf2csf` agree with differences where the zeros of T stay."""
    form, basis = linalg.schur(A[0])
    zeros = np.asarray(form) != 0
    assert zeros.sum() > 10  # with a block of complex eigenvalues
    afx.testing.check_grads(lambda t, z: linalg.rsf2csf(t * zeros, z), (form, basis))


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (6, 3)])
def test_halleys_polar_factors(shape: tuple[int, int], dtype: str) -> None:
    """Factors are those of `polar`; they, steps and convergence are JAX's."""
    jax = pytest.importorskip("jax", reason="the reference is JAX's")
    a = _matrix(shape, dtype)
    tolerance = 1e-12 if dtype in "dD" else 2e-5
    with jax.enable_x64(True):
        wanted = jax.lax.linalg.qdwh(a)
    for z, want in zip(linalg.qdwh(a), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(z), want, rtol=tolerance, atol=tolerance)
    for z, want in zip(linalg.qdwh(a)[:2], linalg.polar(a), strict=True):
        np.testing.assert_allclose(np.asarray(z), np.asarray(want), rtol=tolerance, atol=tolerance)


def test_halleys_factors_differentiate_and_batch() -> None:
    """Derivatives agree with differences; steps are counted for each matrix."""
    afx.testing.check_grads(lambda a: linalg.qdwh(a)[:2], (A[0, :, :3],))
    twice = afx.jit(afx.vmap(linalg.qdwh))(A)
    assert twice.num_iters.tolist() == [6, 6, 6]
    np.testing.assert_allclose(np.asarray(twice.u), np.asarray(linalg.polar(A).u), atol=1e-12)
    assert linalg.qdwh(np.zeros((2, 0))).u.shape == (2, 0)
    lost = linalg.qdwh(np.full((2, 2), np.nan))
    assert np.isnan(lost.u).all()
    assert not lost.is_converged
    assert linalg.qdwh(np.diag([2.0, 3.0]), max_iterations=1).num_iters == 1


def test_what_forms_refuse() -> None:
    """Shapes, values and arguments that have no form are named."""
    for form in (linalg.schur, linalg.hessenberg):
        with pytest.raises(errors.ShapeError, match="needs square matrices"):
            form(np.ones((2, 3)))
        with pytest.raises(np.linalg.LinAlgError):
            form(np.full((2, 2), np.nan))
    with pytest.raises(errors.ArgumentError, match="schur: output is one of"):
        linalg.schur(np.eye(2), output="upper")  # what is refused
    with pytest.raises(errors.ShapeError, match="rsf2csf: T and Z are of one shape"):
        linalg.rsf2csf(np.eye(2), np.eye(3))
    with pytest.raises(errors.ShapeError, match="qdwh: has as many rows as columns"):
        linalg.qdwh(np.ones((2, 3)))
