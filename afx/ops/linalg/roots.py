"""Matrix roots: principal square roots, logarithms and real powers of stacks of matrices.

General matrices are SciPy's business: by their Schur form (Björck & Hammarling 1983; Al-Mohy & Higham 2012; Higham & Lin
2013). Symmetric (Hermitian) ones go by their eigenvalues, with derivatives by divided differences.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind_single
from afx.errors import MissingExtraError
from afx.ops._kinds.matrix import floating, matrix_op, square, transposed
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.where import where
from afx.ops.linalg._divided_differences import Logarithm, Power
from afx.ops.linalg.hermitian_functions import hermitian_function
from afx.ops.manipulation.join import concat
from afx.ops.reductions.sums import max as max_

__all__ = ["fractional_matrix_power", "frechet", "logm", "sqrtm"]


def frechet(p: Primitive, a: Array, t: Array, **params: Any) -> Array:
    """Return a matrix function's derivative in a direction: a block of the function of [[a, t], [0, a]]."""
    n = a.shape[-1]
    if not n:
        return t
    top = stop_gradient(max_(abs_(t), axis=(-2, -1), keepdims=True))
    scale = where(top == 0, 1, top)  # so that a large direction asks for no more work
    upper = concat([a, t / scale], axis=-1)
    lower = concat([a * 0, a], axis=-1)
    return bind_single(p, concat([upper, lower], axis=-2), **params)[..., :n, n:] * scale


def sqrtm(a: ArrayLike, hermitian: bool = False) -> Array:
    """Return the principal square root of square matrices.

    Real matrices have a real one; where there is none the result is nan: make them complex.

    Args:
        a: float[..., n, n], real or complex, without eigenvalues on the negative axis.
        hermitian: whether to take the symmetric (Hermitian) part, positive semidefinite, and compute by its
            eigenvalues; all derivatives are right at equal ones. The extra ``scipy`` is needed where not.

    Raises:
        ShapeError: not square.
        MissingExtraError: SciPy is not installed, and the matrices are not Hermitian.

    >>> sqrtm(np.diag([4.0, 9.0]), hermitian=True)
    Array([[2., 0.],
           [0., 3.]], dtype=float64)
    """
    x = floating(a, "sqrtm")
    return hermitian_function(x, Power(0.5)) if hermitian else bind_single(sqrtm_p, x)


def logm(a: ArrayLike, hermitian: bool = False) -> Array:
    """Return the principal logarithm of square matrices; arguments are `sqrtm`'s.

    >>> logm(np.eye(2), hermitian=True)
    Array([[0., 0.],
           [0., 0.]], dtype=float64)
    """
    x = floating(a, "logm")
    return hermitian_function(x, Logarithm()) if hermitian else bind_single(logm_p, x)


def fractional_matrix_power(a: ArrayLike, t: float, hermitian: bool = False) -> Array:
    """Return square matrices to a real power t, a Python number; the other arguments are `sqrtm`'s.

    >>> fractional_matrix_power(np.diag([4.0, 9.0]), -0.5, hermitian=True).round(4)
    Array([[0.5   , 0.    ],
           [0.    , 0.3333]], dtype=float64)
    """
    x = floating(a, "fractional_matrix_power")
    power = float(t)
    return hermitian_function(x, Power(power)) if hermitian else bind_single(fractional_matrix_power_p, x, power=power)


# -- general matrices --
def _schur_op(name: str) -> Primitive:
    """Make an op of SciPy's function of this name, of stacks of matrices too."""

    def impl(a: Any, **params: float) -> Any:
        fn = _find_function(name)
        double = a.astype(np.result_type(a.dtype, np.float64))  # SciPy warns of what single precision loses
        z: Any = np.empty(a.shape, np.complex128)
        with np.errstate(all="ignore"):
            for k in np.ndindex(a.shape[:-2]):
                z[k] = fn(double[k], *params.values())
        if a.dtype.kind == "c":
            return z.astype(a.dtype)
        noise = float(np.finfo(np.float64).eps) * 1e3 * np.abs(z).max(axis=(-2, -1), keepdims=True, initial=0)
        lost: Any = (np.abs(z.imag) > noise).any(axis=(-2, -1), keepdims=True)
        found: Any = np.where(lost, np.nan, z.real)
        return found.astype(a.dtype)

    def abstract(a: Aval, **_params: float) -> Aval:
        square(a, name)
        return Aval(a.shape, a.dtype)

    def push(t: Array, z: Any, a: Array, **params: float) -> Array:
        return frechet(op, a, t, **params)

    def pull(ct: Array, z: Any, a: Array, **params: float) -> Array:
        return frechet(op, transposed(a), ct, **params)

    op = matrix_op(name, impl, abstract, push, pull, reads=2)
    return op


def _find_function(name: str) -> Callable[..., Any]:
    try:
        module: Any = importlib.import_module("scipy.linalg")
    except ImportError as error:
        raise MissingExtraError(
            f"{name}: needs SciPy for matrices that are not Hermitian; pip install 'afx[scipy]', or pass hermitian=True"
        ) from error
    found: Callable[..., Any] = getattr(module, name)
    return found


sqrtm_p: Primitive = _schur_op("sqrtm")
logm_p: Primitive = _schur_op("logm")
fractional_matrix_power_p: Primitive = _schur_op("fractional_matrix_power")
