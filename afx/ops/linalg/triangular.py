"""Triangular systems: forward and back substitution on stacks of matrices.

The rules are those of Giles 2008, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation", restricted to the triangle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind_single
from afx.ops._kinds.matrix import choice, matrix_pair_op, plain, promote_pair, right_sides, solution_aval, transposed
from afx.ops.creation.matrices import tril, triu
from afx.ops.elementwise.complex import conj
from afx.ops.linalg.small_systems import substitute, substitute_small, triangles_pay
from afx.runtime.triangular_solver import Solver, find_solver

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder

__all__ = ["solve_triangular"]

BLOCK = 64  # systems up to this size are solved at once


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    *,
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Return x with ``a @ x = b`` for triangular matrices, by substitution.

    Args:
        a: float[..., n, n]; only one triangle is read.
        b: float[..., n, k], or a vector float[n].
        trans: 0 or "N" solves with a, 1 or "T" with its transpose, 2 or "C" with its conjugate transpose.
        lower: whether the lower triangle is read; the upper one where not.
        unit_diagonal: whether the diagonal counts as ones and is not read.

    Raises:
        ShapeError: the shapes do not fit.
        ArgumentError: trans is none of these.
        numpy.linalg.LinAlgError: the diagonal has a 0.

    >>> solve_triangular(afx.asarray([[2.0, 1.0], [0.0, 4.0]]), afx.asarray([4.0, 8.0]))
    Array([1., 2.], dtype=float32)
    """
    choice("solve_triangular", "trans", trans, (0, 1, 2, "N", "T", "C"))
    x, y = promote_pair(a, b, "solve_triangular")
    if trans in (1, 2, "T", "C") and x.ndim > 1:
        x, lower = transposed(conj(x) if trans in (2, "C") else x), not lower
    z = substituted(x, right_sides(x, y, "solve_triangular"), lower, unit_diagonal)
    return z[..., 0] if y.ndim == 1 else z


def substituted(a: Any, b: Any, lower: bool, unit: bool = False) -> Array:
    """Return the solution of triangular systems whose right-hand sides are matrices."""
    return bind_single(solve_triangular_p, a, b, lower=lower, unit=unit)


def right_solve_triangular(b: Any, a: Any, lower: bool) -> Array:
    """Return ``b @ a⁻¹`` for triangular matrices."""
    found: Array = transposed(substituted(transposed(a), transposed(b), not lower))
    return found


def _abstract(a: Aval, b: Aval, *, lower: bool, unit: bool) -> Aval:
    return solution_aval("solve_triangular", a, b)


def solved(a: Any, b: Any, *, lower: bool, unit: bool) -> Any:
    """Solve triangular systems of bare values."""
    if triangles_pay(a, b):
        return substitute_small(a, b, lower=lower, unit=unit)
    if a.shape[-1] > BLOCK and b.size:
        wide = np.promote_types(np.result_type(a, b), np.float64)  # in which NumPy computes smaller ones
        if (solve := find_solver(wide.char)) is not None:
            return _solved_by_blas(solve, a, b, wide, lower, unit)
    a = np.tril(a) if lower else np.triu(a)
    if unit:
        a[..., range(a.shape[-1]), range(a.shape[-1])] = 1
    if lower:  # backwards it is upper, and NumPy's solution of such a system exchanges no rows
        return np.ascontiguousarray(_upwards(a[..., ::-1, ::-1], b[..., ::-1, :])[..., ::-1, :])
    return _upwards(a, b)


def _solved_by_blas(solve: Solver, a: Any, b: Any, wide: np.dtype[Any], lower: bool, unit: bool) -> Any:
    if not (unit or a.diagonal(axis1=-2, axis2=-1).all()):
        raise np.linalg.LinAlgError("Singular matrix")
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = np.empty((*batch, *b.shape[-2:]), wide)
    x[...] = b
    matrices = np.broadcast_to(a, (*batch, *a.shape[-2:])) if batch else a
    for k in np.ndindex(batch):
        matrix = np.asarray(matrices[k], wide)
        is_dense = matrix.flags.c_contiguous or matrix.flags.f_contiguous
        solve(matrix if is_dense else np.ascontiguousarray(matrix), x[k], lower, unit)
    return x.astype(np.result_type(a, b), copy=False)


def _upwards(a: Any, b: Any) -> Any:
    """Solve upper triangular systems by halves."""
    n = a.shape[-1]
    if n <= BLOCK:
        return plain(np.linalg.solve(a, b))
    half = n // 2
    low = _upwards(a[..., half:, half:], b[..., half:, :])
    high = _upwards(a[..., :half, :half], b[..., :half, :] - a[..., :half, half:] @ low)
    return np.concatenate([high, low], axis=-2)


def _triangle(x: Array, lower: bool, unit: bool) -> Array:
    return tril(x, k=-1 if unit else 0) if lower else triu(x, k=1 if unit else 0)


def _push(ta: Any, tb: Any, z: Array, a: Array, b: Array, *, lower: bool, unit: bool) -> Array:
    moved = None if ta is None else _triangle(ta, lower, unit) @ z
    right = tb if moved is None else -moved if tb is None else tb - moved
    return substituted(a, right, lower, unit)


def _pull(ct: Array, z: Any, a: Array, wanted: bool, *, lower: bool, unit: bool) -> tuple[Any, Array]:
    back = substituted(transposed(a), ct, not lower, unit)
    return -_triangle(back @ transposed(z), lower, unit) if wanted else None, back


def _native(xp: Recorder, out: Any, a: Any, b: Any, *, lower: bool, unit: bool) -> None:
    """Substitute row by row where bits may be others than LAPACK's, or are; else solve an upper triangular system.

    In that no rows are exchanged; a lower one is that from behind.
    """
    is_small = triangles_pay(a, b)
    a, b = xp.matrix(a), xp.matrix(b)
    if is_small or (xp.has_own_bits and a.shape[-1] <= BLOCK):
        with np.errstate(all="ignore"):
            is_zero = substitute(xp, a, b, out, lower=lower, unit=unit)
        if not unit:
            xp.refuse_where(is_zero)
        return
    if unit or a.shape[-1] > BLOCK:
        xp.refuse("large matrices, or of ones with a diagonal of ones")
    upper, z = xp.new(a.shape, "f8"), xp.new(out.shape, "f8") if lower else out
    xp.give(upper, xp.where(np.triu(np.ones(a.shape[-2:], bool)), a[..., ::-1, ::-1] if lower else a, 0.0))
    xp.call("linalg.solve", [upper, b[..., ::-1, :] if lower else b], [z])
    if lower:
        xp.copy(out, z[..., ::-1, :])


solve_triangular_p: Primitive = matrix_pair_op("solve_triangular", solved, _abstract, _push, _pull, _native)
