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
from afx.ops.shaping import astype, broadcast_to, reshape

__all__ = ["det", "inv", "matrix_norm", "matrix_power", "norm", "slogdet", "solve"]


class SlogdetResult(NamedTuple):
    """The sign and the logarithm of the absolute value of a determinant."""

    sign: Array
    logabsdet: Array


def floating(x: ArrayLike, who: str) -> Array:
    """Return an operand as an array that has derivatives; integers take the default dtype."""
    y = asarray(x)
    dtype: DType = promote((y.dtype,), (False,), floating=True)
    if dtype.char == "e":
        raise DtypeError(f"{who}: LAPACK has no half precision: got {y.aval}; use astype(afx.float32)")
    return astype(y, dtype)


def square(x: Aval, who: str) -> None:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{who}: needs square matrices: got {x}; reshape it, or use lstsq for more rows than columns")


def transposed(x: Value) -> Value:
    return x.swapaxes(-1, -2)


def conjugate_transpose(x: Value) -> Value:
    """Return the conjugate transpose."""
    return transposed(x).conj()


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
    x, y = floating(a, "solve"), floating(b, "solve")
    dtype = promote((x.dtype, y.dtype), (False, False))
    x, y = astype(x, dtype), astype(y, dtype)
    if y.ndim == 1:
        return single(solve_p, x, reshape(y, (-1, 1)))[..., 0]
    return single(solve_p, x, y)


def _solve_abstract(a: Aval, b: Aval) -> Aval:
    square(a, "solve")
    lead = broadcast_shapes([a.shape[:-2], b.shape[:-2]])
    if b.ndim < 2 or b.shape[-2] != a.shape[-1] or lead is None:
        raise ShapeError(f"solve: rows of b are as many as those of a: got a {a} and b {b}; reshape b")
    lapack(a, "solve")
    return Aval((*lead, *b.shape[-2:]), a.dtype)


def lapack(a: Aval, who: str) -> None:
    if a.dtype.char not in "fdFD":
        raise DtypeError(f"{who}: needs floating or complex matrices of 32 bits or more: got {a}; use astype")


def checked(abstract: Any, compute: Any) -> Any:
    """Return an implementation that refuses what its shape rule refuses, where NumPy would convert."""

    def run(*xs: Any) -> Any:
        abstract(*[aval_of(x) for x in xs])
        return compute(*xs)

    return run


def _solve_by_matrix(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape, dtype: DType) -> Value:
    back = lowered(solve_t(xs[0], ct))
    return -(back @ transposed(z))


def solve_t(a: Value, ct: Value) -> Value:
    """Return the solution for the transposed matrix."""
    return single(solve_p, transposed(a), ct)


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
        run=checked(_solve_abstract, np.linalg.solve),
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
    x = floating(a, "inv")
    square(x.aval, "inv")
    return solve(x, broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape))


# -- determinants -----------------------------------------------------------------------------------------------------
def slogdet(a: ArrayLike) -> SlogdetResult:
    """Return the sign and the logarithm of the absolute value of the determinant, which does not overflow.

    Raises:
        ShapeError: not square.

    >>> float(slogdet(asarray([[-2.0]])).sign)
    -1.0
    """
    sign, logabs = bind(slogdet_p, floating(a, "slogdet"))
    return SlogdetResult(sign, logabs)


def _slogdet_abstract(a: Aval) -> tuple[Aval, Aval]:
    square(a, "slogdet")
    lapack(a, "slogdet")
    return Aval(a.shape[:-2], a.dtype), Aval(a.shape[:-2], real_dtype(a.dtype))


def _slogdet_run(a: Any) -> tuple[Any, Any]:
    found = np.linalg.slogdet(a)
    return np.asarray(found[0]), np.asarray(found[1])


def _slogdet_joint(
    ct: Value, z: Value, xs: tuple[Value, ...], params: Params, avals: tuple[Aval | None, ...]
) -> list[Value]:
    # d log|det a| = trace(a⁻¹ da); the sign of a real matrix does not move
    back = transposed(inv(raised(xs[0])))
    return [lowered(reshape(raised(ct[1]), (*ct[1].shape, 1, 1)) * back)]


def _slogdet_push(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    slope = sum_(transposed(inv(raised(xs[0]))) * raised(ts[0]), axis=(-2, -1))
    return None, lowered(slope.real if slope.dtype.kind == "c" else slope)


def _slogdet_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    return bind(slogdet_p, xs[0])


slogdet_p = register(
    Primitive(
        name="slogdet",
        kind="custom",
        run=checked(_slogdet_abstract, _slogdet_run),
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
    return single(det_p, floating(a, "det"))


def _det_abstract(a: Aval) -> Aval:
    square(a, "det")
    lapack(a, "det")
    return Aval(a.shape[:-2], a.dtype)


def _det_run(a: Any) -> Any:
    return np.asarray(np.linalg.det(a))


def _cofactors(z: Value, a: Value) -> Array:
    found: Array = reshape(raised(z), (*z.shape, 1, 1)) * transposed(inv(raised(a)))
    return found


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
        run=checked(_det_abstract, _det_run),
        abstract=_det_abstract,
        pullbacks=(_det_pull,),
        reads=(3,),
        jvp=_det_push,
        batch=_det_batch,
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
    x = floating(a, "matrix_norm")
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
    y = floating(x, "norm")
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
    square(x.aval, "matrix_power")
    base = inv(x) if n < 0 else x
    z: Array | None = None
    n = abs(n)
    while n:
        if n % 2:
            z = base if z is None else matmul(z, base)
        base, n = matmul(base, base), n // 2
    return broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape) if z is None else z
