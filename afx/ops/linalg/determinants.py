"""Determinants: of stacks of matrices, with signs and logarithms.

The derivative of the determinant is the matrix of cofactors (Jacobi's formula). It is a polynomial of the elements, and
so are its own derivatives: they are computed without dividing by the determinant, so that they exist at singular
matrices too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, aval_of
from afx.core.dtypes import real_dtype
from afx.core.primitive import Derivative, Lowering, Params, Primitive, Value, register
from afx.core.tracing.tracer import bind, bind_single, to_array, to_lower_level
from afx.errors import ShapeError
from afx.ops._kinds.batching import batch_along_axes
from afx.ops._kinds.matrix import arrays, by_lapack, column, floating, matrix_op, plain, square, transposed
from afx.ops.elementwise.complex import imag, real
from afx.ops.linalg.solve import inv_p
from afx.ops.reductions.sums import sum as sum_

__all__ = ["SlogdetResult", "det", "slogdet"]


class SlogdetResult(NamedTuple):
    """The sign and the logarithm of the absolute value of a determinant."""

    sign: Array
    logabsdet: Array


def det(a: ArrayLike) -> Array:
    """Return the determinant of square matrices; `slogdet` does not overflow.

    Its derivative is the matrix of cofactors, det(a)·a⁻ᵀ, which is finite and right at singular matrices too, and so
    are the derivatives of higher order.

    Raises:
        ShapeError: not square.

    >>> det(afx.asarray([[2.0, 0.0], [0.0, 4.0]]))
    Array(8., dtype=float32)
    """
    return bind_single(det_p, floating(a, "det"))


def _det_abstract(a: Aval) -> Aval:
    square(a, "det")
    return Aval(a.shape[:-2], a.dtype)


def _det_run(a: Any) -> Any:
    return np.asarray(np.linalg.det(a))


def _det_push(t: Array, z: Any, a: Array) -> Array:
    return sum_(bind_single(cofactors_p, a) * t, axis=(-2, -1))


def _det_pull(ct: Array, z: Any, a: Array) -> Array:
    return column(column(ct)) * bind_single(cofactors_p, a)


det_p: Primitive = matrix_op(
    "det", _det_run, _det_abstract, _det_push, _det_pull, reads=2, native=by_lapack("det", refuses=False)
)


# -- cofactors --
# The cofactors' derivative of order k in the directions t1 … tk. Its product with a matrix is the determinant's
# derivative of order k + 1, which is symmetric in its directions: hence each rule is the op itself.
def _cofactors_abstract(a: Aval, *ts: Aval) -> Aval:
    square(a, "cofactors")
    if any(t != a for t in ts):
        raise ShapeError(f"cofactors: directions are like the matrices: got {a} and {ts}; broadcast them")
    return Aval(a.shape, a.dtype)


def _cofactors_run(a: Any, *ts: Any) -> Any:
    _cofactors_abstract(aval_of(a), *map(aval_of, ts))
    if len(ts) > 1:
        return _interpolate_derivative(a, *ts).astype(a.dtype)
    if not ts:
        found = _cofactors_by_inverse(a)
        if found is not None:
            return found
    u, s, vh = np.linalg.svd(a)
    phase = (np.linalg.det(u) * np.linalg.det(vh))[..., None, None]
    inner = _cofactors_of_diagonal(
        s, None if not ts else u.conj().swapaxes(-1, -2) @ ts[0] @ vh.conj().swapaxes(-1, -2)
    )
    return (phase * (u.conj() @ inner @ vh.conj())).astype(a.dtype)


def _cofactors_by_inverse(a: Any) -> Any:
    """Return det(a)·a⁻ᵀ where all matrices are well conditioned."""
    try:
        inverse = plain(np.linalg.inv(a))
    except np.linalg.LinAlgError:
        return None
    condition = np.abs(a).max(axis=(-2, -1), initial=0) * np.abs(inverse).max(axis=(-2, -1), initial=0)
    if not (condition < np.finfo(a.dtype).eps ** -0.5 / max(a.shape[-1], 1)).all():
        return None
    return np.linalg.det(a)[..., None, None].astype(a.dtype) * inverse.swapaxes(-1, -2)


def _cofactors_of_diagonal(s: Any, t: Any) -> Any:
    """Return the cofactors of diagonal matrices, or their derivative in a direction, by products of elements."""
    n = s.shape[-1]
    later = plain(np.tri(n, dtype=bool).T & ~np.eye(n, dtype=bool))
    if t is None:
        others = np.where(plain(np.eye(n, dtype=bool)), 1, s[..., None, :])
        return np.prod(others, axis=-1)[..., None] * np.eye(n, dtype=s.dtype)
    # the products of all elements but i and l: of those before i, those between, and those after l
    runs = np.cumprod(np.where(later, s[..., None, :], 1), axis=-1)
    between = np.concatenate([np.ones_like(runs[..., :1]), runs[..., :-1]], axis=-1)
    before = np.cumprod(np.concatenate([np.ones_like(s[..., :1]), s[..., :-1]], axis=-1), axis=-1)
    after = np.cumprod(np.concatenate([np.ones_like(s[..., :1]), s[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    pairs = np.triu(before[..., :, None] * between * after[..., None, :], 1)
    pairs = pairs + pairs.swapaxes(-1, -2)
    on = np.einsum("...il,...ll->...i", pairs, t)
    return on[..., None] * np.eye(n, dtype=s.dtype) - pairs * t.swapaxes(-1, -2)


def _interpolate_derivative(a: Any, *ts: Any) -> Any:
    """Return the derivative in the last direction: a coefficient of a polynomial, from its values on a circle."""
    t, rest = ts[-1], ts[:-1]
    n = a.shape[-1]
    tops = [np.abs(v).max(axis=(-2, -1), keepdims=True, initial=0) for v in (a, t)]
    radius = np.where(tops[0] > 0, tops[0], 1) / np.where(tops[1] > 0, tops[1], 1)
    roots = np.exp(2j * np.pi * plain(np.arange(n)) / max(n, 1)).reshape((n,) + (1,) * a.ndim)
    points = plain(a + roots * (radius * t))
    values = _cofactors_run(points, *[np.broadcast_to(v, points.shape).astype(points.dtype) for v in rest])
    found = (values * roots.conj()).sum(axis=0) / (max(n, 1) * radius)
    return found if a.dtype.kind == "c" else found.real


def _cofactors_push(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    a, *rest = (to_array(x) for x in xs)
    total: Any = None
    for k, t in enumerate(ts):
        if t is not None:
            new = [*rest[: k - 1], to_array(t), *rest[k:]] if k else [*rest, to_array(t)]
            term = bind_single(cofactors_p, a, *new)
            total = term if total is None else total + term
    return to_lower_level(total)


def _cofactors_joint(
    ct: Value, z: Value, xs: tuple[Value, ...], params: Params, avals: tuple[Aval | None, ...]
) -> list[Value]:
    a, *rest = (to_array(x) for x in xs)
    found: list[Value] = []
    for k, aval in enumerate(avals):
        new = [*rest[: k - 1], to_array(ct), *rest[k:]] if k else [*rest, to_array(ct)]
        found.append(None if aval is None else to_lower_level(bind_single(cofactors_p, a, *new)))
    return found


cofactors_p: Primitive = register(
    Primitive(
        name="cofactors",
        kind="custom",
        impl=_cofactors_run,
        abstract_eval=_cofactors_abstract,
        batch=batch_along_axes("cofactors"),
        lowering=Lowering(calls_lapack=True),
        derivative=Derivative(vjp_all=_cofactors_joint, reads=(-2,), jvp=_cofactors_push),  # it reads all operands
    )
)


# -- logarithms --
def slogdet(a: ArrayLike) -> SlogdetResult:
    """Return the sign and the logarithm of the absolute value of the determinant, which does not overflow.

    At a singular matrix the logarithm is -inf and has no derivative.

    Args:
        a: float[..., n, n]; where it is complex, so is the sign, a number of absolute value 1.

    Raises:
        ShapeError: not square.
        numpy.linalg.LinAlgError: where it is differentiated, at a singular matrix.

    >>> float(slogdet(afx.asarray([[-2.0]])).sign)
    -1.0
    """
    return SlogdetResult(*bind(slogdet_p, floating(a, "slogdet")))


def _slogdet_abstract(a: Aval) -> tuple[Aval, Aval]:
    square(a, "slogdet")
    return Aval(a.shape[:-2], a.dtype), Aval(a.shape[:-2], real_dtype(a.dtype))


def _slogdet_run(a: Any) -> Any:
    return arrays(np.linalg.slogdet(a))


def _slogdet_push(t: Array, z: tuple[Array, Array], a: Array) -> tuple[Any, Array]:
    # d log det a = trace(a⁻¹ da); the sign of a real matrix does not move
    slope = sum_(transposed(bind_single(inv_p, a)) * t, axis=(-2, -1))
    return (1j * z[0] * imag(slope), real(slope)) if slope.dtype.kind == "c" else (None, slope)


def _slogdet_pull(ct: tuple[Array, Array], z: tuple[Array, Array], a: Array) -> Array:
    slope = ct[1] + 1j * imag(ct[0] * z[0]) if a.dtype.kind == "c" else ct[1]
    return column(column(slope)) * transposed(bind_single(inv_p, a))


slogdet_p: Primitive = matrix_op(
    "slogdet", _slogdet_run, _slogdet_abstract, _slogdet_push, _slogdet_pull, reads=3, multiple_results=True
)
