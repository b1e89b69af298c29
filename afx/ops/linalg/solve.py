"""Linear systems: solutions and inverses of stacks of matrices.

Rules are those of Giles 2008, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation", written in afx's own operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, integer, normalize_axes
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind_single
from afx.errors import ArgumentError, ShapeError
from afx.ops._kinds.matrix import (
    by_lapack,
    floating,
    matrix_op,
    matrix_pair_op,
    plain,
    promote_pair,
    right_sides,
    solution_aval,
    square,
    transposed,
)
from afx.ops.linalg.small_systems import eliminate, is_small, pays, solve_small
from afx.ops.manipulation.axes import moveaxis
from afx.ops.manipulation.shape import reshape

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder

__all__ = ["inv", "solve", "tensorinv", "tensorsolve"]


# -- systems --
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """Return x with ``a @ x = b``, by LU factorisation with row exchanges.

    Args:
        a: float[..., n, n].
        b: float[..., n, k], or a vector float[n].

    Raises:
        ShapeError: the shapes do not fit.
        numpy.linalg.LinAlgError: a is singular.

    >>> solve(afx.asarray([[2.0, 0.0], [0.0, 4.0]]), afx.asarray([1.0, 1.0]))
    Array([0.5 , 0.25], dtype=float32)
    """
    x, y = promote_pair(a, b, "solve")
    z = bind_single(solve_p, x, right_sides(x, y, "solve"))
    return z[..., 0] if y.ndim == 1 else z


def _solve_op(name: str, impl: Callable[[Any, Any], Any]) -> Primitive:
    """Make an op that solves systems, whose derivatives are solutions by the same op."""

    def abstract(a: Aval, b: Aval) -> Aval:
        return solution_aval(name, a, b)

    def push(ta: Any, tb: Any, z: Array, a: Array, b: Array) -> Array:
        return bind_single(op, a, -(ta @ z) if tb is None else tb if ta is None else tb - ta @ z)

    def pull(ct: Array, z: Any, a: Array, wanted: bool) -> tuple[Any, Array]:
        back = bind_single(op, transposed(a), ct)
        return -(back @ transposed(z)) if wanted else None, back

    def native(xp: Recorder, out: Any, a: Any, b: Any) -> None:
        """Solve by LAPACK; where `solve_or_nan` gives nan, so does NumPy's loop."""
        keeps_nan = name == "solve_or_nan"
        if pays(a, b) or (xp.has_own_bits and a.dtype == b.dtype and is_small(a.shape, b.shape, a.dtype)):
            with np.errstate(all="ignore"):
                singular = eliminate(xp, a, b, out, keeps_nan)
            if not keeps_nan:
                xp.refuse_where(singular)
            return
        quiet = ("divide", "invalid", "over") if keeps_nan else None  # as NumPy ignores them, but for what it raises
        xp.call("linalg.solve", [xp.matrix(a), xp.matrix(b)], [out], refuses=not keeps_nan, quiet=quiet)

    op = matrix_pair_op(name, impl, abstract, push, pull, native)
    return op


def _run(a: Any, b: Any) -> Any:
    return solve_small(a, b, keeps_nan=False) if pays(a, b) else plain(np.linalg.solve(a, b))


solve_p: Primitive = _solve_op("solve", _run)


def solve_or_nan(a: Array, b: Array) -> Array:
    """Return the solution of ``a @ x = b`` as `solve` does; nan where a is singular, so that loops of solvers go on."""
    return (
        bind_single(solve_or_nan_p, a, b) if b.ndim > 1 else bind_single(solve_or_nan_p, a, reshape(b, (-1, 1)))[:, 0]
    )


def _run_or_nan(a: Any, b: Any) -> Any:
    if pays(a, b):
        return solve_small(a, b, keeps_nan=True)
    try:
        return plain(np.linalg.solve(a, b))
    except np.linalg.LinAlgError:
        if a.ndim == b.ndim == 2:
            return np.full(b.shape, np.nan, b.dtype)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = np.empty((*lead, *b.shape[-2:]), b.dtype)
    a, b = np.broadcast_to(a, (*lead, *a.shape[-2:])), np.broadcast_to(b, out.shape)
    for k in np.ndindex(*lead):
        out[k] = _run_or_nan(a[k], b[k])
    return out


solve_or_nan_p: Primitive = _solve_op("solve_or_nan", _run_or_nan)


# -- inverses --
def inv(a: ArrayLike) -> Array:
    """Return the inverse of square matrices; to solve a system, `solve` is better.

    Raises:
        ShapeError: not square.
        numpy.linalg.LinAlgError: singular.

    >>> inv(afx.asarray([[2.0]]))
    Array([[0.5]], dtype=float32)
    """
    return bind_single(inv_p, floating(a, "inv"))


def _inv_abstract(a: Aval) -> Aval:
    square(a, "inv")
    return Aval(a.shape, a.dtype)


def _inv_pull(ct: Array, z: Array, a: Any) -> Array:
    return -(transposed(z) @ ct @ transposed(z))


def _inv_push(t: Array, z: Array, a: Any) -> Array:
    return -(z @ t @ z)


inv_p: Primitive = matrix_op(
    "inv", np.linalg.inv, _inv_abstract, _inv_push, _inv_pull, reads=1, native=by_lapack("inv")
)


# -- tensors --
def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """Return the inverse of the linear map that ``tensordot(a, x, x.ndim)`` is.

    Args:
        a: any shape whose first ``ind`` axes have as many elements as the others.
        ind: the number of axes of the map's results.

    Raises:
        ArgumentError: ``ind`` is not positive.
        ShapeError: the numbers of elements differ.
        numpy.linalg.LinAlgError: the map is singular.

    >>> tensorinv(2 * afx.asarray(np.eye(4)).reshape((2, 2, 4)), ind=2).shape
    (4, 2, 2)
    """
    x = floating(a, "tensorinv")
    ind = integer(ind, "tensorinv", "ind")
    if ind <= 0:
        raise ArgumentError(f"tensorinv: ind is at least 1: got {ind}; give the number of axes of a result")
    shape = (*x.shape[ind:], *x.shape[:ind])
    size = math.prod(x.shape[ind:])
    if math.prod(x.shape[:ind]) != size:
        raise ShapeError(
            f"tensorinv: the first {ind} axes have as many elements as the others: got {x.aval}; reshape it"
        )
    return reshape(inv(reshape(x, (size, size))), shape)


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """Return x with ``tensordot(a, x, x.ndim) = b``.

    Args:
        a: of shape ``b.shape + x.shape``, with as many elements as b has, squared.
        b: any shape.
        axes: axes of a that are moved to the end first.

    Raises:
        ShapeError: the shapes do not fit.
        numpy.linalg.LinAlgError: the map is singular.

    >>> tensorsolve(2 * afx.asarray(np.eye(4)).reshape((2, 2, 4)), afx.asarray(np.ones((2, 2))))
    Array([0.5, 0.5, 0.5, 0.5], dtype=float64)
    """
    x, y = promote_pair(a, b, "tensorsolve")
    if axes is not None:
        moved = normalize_axes(tuple(axes) if isinstance(axes, Sequence) else axes, x.ndim, "tensorsolve")
        x = moveaxis(x, moved, tuple(range(x.ndim - len(moved), x.ndim)))
    shape, size = x.shape[y.ndim :], y.aval.size
    if x.aval.size != size * size or math.prod(shape) != size:
        raise ShapeError(
            f"tensorsolve: a has the shape of b and as many elements again: got a {x.aval} and b {y.aval}; "
            "reshape a, or name axes to move"
        )
    return reshape(solve(reshape(x, (size, size)), reshape(y, (size,))), shape)
