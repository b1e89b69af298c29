"""Linear algebra: systems, factorisations, determinants. Leading axes are batches.

Rules are those of Giles 2008, "Collected matrix derivative results", written in afx's own operations.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from afx.core.array import Array, ArrayLike
from afx.core.aval import Aval, Shape, aval_of, broadcast_shapes
from afx.core.dtypes import DType, promote, real_dtype
from afx.core.functions import FUNCTIONS
from afx.core.primitive import Params, Primitive, Value, register
from afx.core.tracer import bind, lowered, raised, single
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops.creation import asarray, eye
from afx.ops.matrix import matmul
from afx.ops.moments import vector_norm
from afx.ops.reductions import max as max_
from afx.ops.reductions import min as min_
from afx.ops.reductions import sum as sum_
from afx.ops.selection import where
from afx.ops.shaping import astype, broadcast_to, reshape

__all__ = ["cholesky", "det", "eigh", "eigvalsh", "inv", "matrix_norm", "matrix_power", "norm", "slogdet", "solve"]


class EighResult(NamedTuple):
    """Eigenvalues, ascending, and eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class SlogdetResult(NamedTuple):
    """The sign and the logarithm of the absolute value of a determinant."""

    sign: Array
    logabsdet: Array


def _floating(x: ArrayLike, who: str) -> Array:
    """Return an operand as an array that has derivatives; integers take the default dtype."""
    y = asarray(x)
    dtype: DType = promote((y.dtype,), (False,), floating=True)
    if dtype.char == "e":
        raise DtypeError(f"{who}: LAPACK has no half precision: got {y.aval}; use astype(afx.float32)")
    return astype(y, dtype)


def _square(x: Aval, who: str) -> None:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{who}: needs square matrices: got {x}; reshape it, or use lstsq for more rows than columns")


def _t(x: Value) -> Value:
    return x.swapaxes(-1, -2)


def _h(x: Value) -> Value:
    """Return the conjugate transpose."""
    return _t(x).conj()


def _same(size: int, x: Value, batched: bool) -> Value:
    return x if batched else broadcast_to(x, (size, *x.shape))


# -- systems ----------------------------------------------------------------------------------------------------------
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """Return x with ``a @ x = b``, by LU factorisation with row exchanges.

    Args:
        a: float[..., n, n].
        b: float[..., n, k], or a vector float[n].

    Raises:
        ShapeError: the shapes do not fit.
        numpy.linalg.LinAlgError: a is singular.

    >>> solve(asarray([[2.0, 0.0], [0.0, 4.0]]), asarray([1.0, 1.0]))
    Array([0.5 , 0.25], dtype=float32)
    """
    x, y = _floating(a, "solve"), _floating(b, "solve")
    dtype = promote((x.dtype, y.dtype), (False, False))
    x, y = astype(x, dtype), astype(y, dtype)
    if y.ndim == 1:
        return single(solve_p, x, reshape(y, (-1, 1)))[..., 0]
    return single(solve_p, x, y)


def _solve_abstract(a: Aval, b: Aval) -> Aval:
    _square(a, "solve")
    lead = broadcast_shapes([a.shape[:-2], b.shape[:-2]])
    if b.ndim < 2 or b.shape[-2] != a.shape[-1] or lead is None:
        raise ShapeError(f"solve: rows of b are as many as those of a: got a {a} and b {b}; reshape b")
    _lapack(a, "solve")
    return Aval((*lead, *b.shape[-2:]), a.dtype)


def _lapack(a: Aval, who: str) -> None:
    if a.dtype.char not in "fdFD":
        raise DtypeError(f"{who}: needs floating or complex matrices of 32 bits or more: got {a}; use astype")


def _checked(abstract: Any, compute: Any) -> Any:
    """Return an implementation that refuses what its shape rule refuses, where NumPy would convert."""

    def run(*xs: Any) -> Any:
        abstract(*[aval_of(x) for x in xs])
        return compute(*xs)

    return run


def _solve_by_matrix(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape, dtype: DType) -> Value:
    back = lowered(solve_t(xs[0], ct))
    return -(back @ _t(z))


def solve_t(a: Value, ct: Value) -> Value:
    """Return the solution for the transposed matrix."""
    return single(solve_p, _t(a), ct)


def _solve_by_right(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape, dtype: DType) -> Value:
    return lowered(solve_t(xs[0], ct))


def _solve_push(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    ta, tb = ts
    right = -(ta @ z) if tb is None and ta is not None else tb if ta is None else tb - ta @ z
    return lowered(single(solve_p, xs[0], right))


def _solve_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    rank = max(x.ndim - b for x, b in zip(xs, batched, strict=True))
    a, b = (
        reshape(y, (size,) + (1,) * (rank - y.ndim + 1) + y.shape[1:])
        for y in (_same(size, x, f) for x, f in zip(xs, batched, strict=True))
    )
    return single(solve_p, a, b)


solve_p = register(
    Primitive(
        name="solve",
        kind="custom",
        run=_checked(_solve_abstract, np.linalg.solve),
        abstract=_solve_abstract,
        pullbacks=(_solve_by_matrix, _solve_by_right),
        reads=(3, 2),
        jvp=_solve_push,
        batch=_solve_batch,
    )
)


def inv(a: ArrayLike) -> Array:
    """Return the inverse of square matrices; to solve a system, `solve` is better.

    Raises:
        ShapeError: not square.
        numpy.linalg.LinAlgError: singular.

    >>> inv(asarray([[2.0]]))
    Array([[0.5]], dtype=float32)
    """
    x = _floating(a, "inv")
    _square(x.aval, "inv")
    return solve(x, broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape))


# -- determinants -----------------------------------------------------------------------------------------------------
def slogdet(a: ArrayLike) -> SlogdetResult:
    """Return the sign and the logarithm of the absolute value of the determinant, which does not overflow.

    Raises:
        ShapeError: not square.

    >>> float(slogdet(asarray([[-2.0]])).sign)
    -1.0
    """
    sign, logabs = bind(slogdet_p, _floating(a, "slogdet"))
    return SlogdetResult(sign, logabs)


def _slogdet_abstract(a: Aval) -> tuple[Aval, Aval]:
    _square(a, "slogdet")
    _lapack(a, "slogdet")
    return Aval(a.shape[:-2], a.dtype), Aval(a.shape[:-2], real_dtype(a.dtype))


def _slogdet_run(a: Any) -> tuple[Any, Any]:
    found = np.linalg.slogdet(a)
    return np.asarray(found[0]), np.asarray(found[1])


def _slogdet_joint(
    ct: Value, z: Value, xs: tuple[Value, ...], params: Params, avals: tuple[Aval | None, ...]
) -> list[Value]:
    # d log|det a| = trace(a⁻¹ da); the sign of a real matrix does not move
    back = _t(inv(raised(xs[0])))
    return [lowered(reshape(raised(ct[1]), (*ct[1].shape, 1, 1)) * back)]


def _slogdet_push(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    slope = sum_(_t(inv(raised(xs[0]))) * raised(ts[0]), axis=(-2, -1))
    return None, lowered(slope.real if slope.dtype.kind == "c" else slope)


def _slogdet_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    return bind(slogdet_p, xs[0])


slogdet_p = register(
    Primitive(
        name="slogdet",
        kind="custom",
        run=_checked(_slogdet_abstract, _slogdet_run),
        abstract=_slogdet_abstract,
        joint=_slogdet_joint,
        reads=(2,),
        jvp=_slogdet_push,
        batch=_slogdet_batch,
        multiple=True,
    )
)


def det(a: ArrayLike) -> Array:
    """Return the determinant of square matrices; `slogdet` does not overflow.

    Its derivative is det(a)·a⁻ᵀ, so that a singular matrix raises where it is differentiated.

    Raises:
        ShapeError: not square.

    >>> det(asarray([[2.0, 0.0], [0.0, 4.0]]))
    Array(8., dtype=float32)
    """
    return single(det_p, _floating(a, "det"))


def _det_abstract(a: Aval) -> Aval:
    _square(a, "det")
    _lapack(a, "det")
    return Aval(a.shape[:-2], a.dtype)


def _det_run(a: Any) -> Any:
    return np.asarray(np.linalg.det(a))


def _cofactors(z: Value, a: Value) -> Array:
    return reshape(raised(z), (*z.shape, 1, 1)) * _t(inv(raised(a)))


def _det_pull(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape, dtype: DType) -> Value:
    return lowered(reshape(raised(ct), (*ct.shape, 1, 1)) * _cofactors(z, xs[0]))


def _det_push(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    return lowered(sum_(_cofactors(z, xs[0]) * raised(ts[0]), axis=(-2, -1)))


def _det_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    return det(xs[0])


det_p = register(
    Primitive(
        name="det",
        kind="custom",
        run=_checked(_det_abstract, _det_run),
        abstract=_det_abstract,
        pullbacks=(_det_pull,),
        reads=(3,),
        jvp=_det_push,
        batch=_det_batch,
    )
)


# -- factorisations ---------------------------------------------------------------------------------------------------
def cholesky(a: ArrayLike, *, upper: bool = False) -> Array:
    """Return the lower triangular L with ``L @ Lᴴ = a`` of symmetric (Hermitian) positive definite matrices.

    Only the lower triangle is read; derivatives are those of the symmetric part.

    Args:
        a: float[..., n, n].
        upper: returns Lᴴ.

    Raises:
        ShapeError: not square.
        numpy.linalg.LinAlgError: not positive definite.

    >>> cholesky(asarray([[4.0]]))
    Array([[2.]], dtype=float32)
    """
    x = _floating(a, "cholesky")
    _square(x.aval, "cholesky")
    z = single(cholesky_p, (x + _h(x)) / 2)
    return _h(z) if upper else z


def _cholesky_abstract(a: Aval) -> Aval:
    _square(a, "cholesky")
    _lapack(a, "cholesky")
    return Aval(a.shape, a.dtype)


def _real_only(x: Value, who: str) -> None:
    if x.dtype.kind == "c":
        raise DtypeError(
            f"{who}: complex matrices have no derivative here yet: got {aval_of(x)}; differentiate real ones"
        )


def _half(x: Value) -> Array:
    """Return the lower triangle with half of the diagonal."""
    n = x.shape[-1]
    weights = np.tri(n, n, -1) + 0.5 * np.eye(n)
    return x * weights.astype(real_dtype(x.dtype))


def _cholesky_pull(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape, dtype: DType) -> Value:
    _real_only(z, "cholesky")
    factor = raised(z)
    inner = _half(_t(factor) @ raised(ct))
    found = single(solve_p, _t(factor), _t(single(solve_p, _t(factor), _t(inner))))
    return lowered((found + _t(found)) / 2)


def _cholesky_push(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    _real_only(z, "cholesky")
    factor = raised(z)
    inner = _h(single(solve_p, factor, _h(single(solve_p, factor, raised(ts[0])))))
    return lowered(factor @ _half(inner))


def _cholesky_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    return single(cholesky_p, xs[0])


cholesky_p = register(
    Primitive(
        name="cholesky",
        kind="custom",
        run=_checked(_cholesky_abstract, np.linalg.cholesky),
        abstract=_cholesky_abstract,
        pullbacks=(_cholesky_pull,),
        reads=(1,),
        jvp=_cholesky_push,
        batch=_cholesky_batch,
    )
)


def eigh(a: ArrayLike) -> EighResult:
    """Return the eigenvalues, ascending, and eigenvectors of symmetric (Hermitian) matrices.

    Derivatives are those of the symmetric part. Between equal eigenvalues the eigenvectors' derivative does not exist
    and counts as 0, so that functions that do not depend on the choice of eigenvectors have finite, right derivatives.

    Raises:
        ShapeError: not square.

    >>> eigh(asarray([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    Array([1., 2.], dtype=float32)
    """
    x = _floating(a, "eigh")
    _square(x.aval, "eigh")
    values, vectors = bind(eigh_p, (x + _h(x)) / 2)
    return EighResult(values, vectors)


def eigvalsh(a: ArrayLike) -> Array:
    """Return the eigenvalues, ascending, of symmetric (Hermitian) matrices.

    >>> eigvalsh(asarray([[2.0, 0.0], [0.0, 1.0]]))
    Array([1., 2.], dtype=float32)
    """
    return eigh(a).eigenvalues


def _eigh_abstract(a: Aval) -> tuple[Aval, Aval]:
    _square(a, "eigh")
    _lapack(a, "eigh")
    return Aval(a.shape[:-1], real_dtype(a.dtype)), Aval(a.shape, a.dtype)


def _eigh_run(a: Any) -> tuple[Any, Any]:
    found = np.linalg.eigh(a)
    return found[0], found[1]


def _gaps(w: Array) -> Array:
    """Return 1 / (w_j - w_i), 0 where they are equal."""
    d = w.reshape((*w.shape[:-1], 1, w.shape[-1])) - w.reshape((*w.shape, 1))
    return where(d == 0, 0.0, 1 / where(d == 0, 1.0, d))


def _diagonal(w: Array) -> Array:
    return w.reshape((*w.shape, 1)) * eye(w.shape[-1], dtype=w.dtype)


def _eigh_joint(
    ct: Value, z: Value, xs: tuple[Value, ...], params: Params, avals: tuple[Aval | None, ...]
) -> list[Value]:
    _real_only(z[1], "eigh")
    w, v = (raised(x) for x in z)
    cw, cv = (raised(c) for c in ct)
    found = v @ (_diagonal(cw) + _gaps(w) * (_t(v) @ cv)) @ _t(v)
    return [lowered((found + _t(found)) / 2)]


def _eigh_push(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    _real_only(z[1], "eigh")
    w, v = (raised(x) for x in z)
    inner = _t(v) @ raised(ts[0]) @ v
    slope = sum_(inner * eye(w.shape[-1], dtype=w.dtype), axis=-1)
    return lowered(slope), lowered(v @ (_gaps(w) * inner))


def _eigh_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    return bind(eigh_p, xs[0])


eigh_p = register(
    Primitive(
        name="eigh",
        kind="custom",
        run=_checked(_eigh_abstract, _eigh_run),
        abstract=_eigh_abstract,
        joint=_eigh_joint,
        reads=(1,),
        jvp=_eigh_push,
        batch=_eigh_batch,
        multiple=True,
    )
)


# -- norms and powers -------------------------------------------------------------------------------------------------
def matrix_norm(a: ArrayLike, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Return a norm of matrices.

    Args:
        a: float[..., m, n].
        keepdims: keeps the last two axes, with length 1.
        ord: ``"fro"`` (Frobenius; derivative 0 at 0), 1 or -1 (largest or smallest sum of a column), inf or -inf (of a row).

    Raises:
        ArgumentError: another norm.

    >>> matrix_norm(asarray([[3.0, 4.0]]))
    Array(5., dtype=float32)
    """
    x = _floating(a, "matrix_norm")
    if x.ndim < 2:
        raise ShapeError(f"matrix_norm: needs matrices: got {x.aval}; use vector_norm")
    if ord == "fro":
        return vector_norm(x, (-2, -1), keepdims=keepdims)
    if ord not in (1, -1, np.inf, -np.inf):
        raise ArgumentError(f"matrix_norm: ord is 'fro', 1, -1, inf or -inf: got {ord!r}")
    columns = abs(ord) == 1
    sums = sum_(abs(x), axis=-2 if columns else -1, keepdims=True)
    return (max_ if ord > 0 else min_)(sums, axis=(-2, -1), keepdims=keepdims)


def norm(x: ArrayLike, ord: Any = None, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False) -> Array:
    """Return NumPy's norm: Euclid's of all elements, or a vector or matrix norm along axes.

    >>> norm(asarray([3.0, 4.0]))
    Array(5., dtype=float32)
    """
    y = _floating(x, "norm")
    pair = axis if isinstance(axis, tuple) and len(axis) == 2 else (-2, -1) if axis is None and y.ndim == 2 else None
    if ord is None or pair is None:
        return vector_norm(y, axis, keepdims=keepdims, ord=2 if ord is None else ord)
    z = matrix_norm(FUNCTIONS.moveaxis(y, pair, (-2, -1)), ord=ord, keepdims=keepdims)
    return FUNCTIONS.moveaxis(z, (-2, -1), pair) if keepdims else z


def matrix_power(a: ArrayLike, n: int) -> Array:
    """Return square matrices multiplied n times by themselves; negative powers are those of the inverse.

    >>> matrix_power(asarray([[2.0]]), 3)
    Array([[8.]], dtype=float32)
    """
    x = asarray(a)
    _square(x.aval, "matrix_power")
    base = inv(x) if n < 0 else x
    z: Array | None = None
    n = abs(n)
    while n:
        if n % 2:
            z = base if z is None else matmul(z, base)
        base, n = matmul(base, base), n // 2
    return broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape) if z is None else z
