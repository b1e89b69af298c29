"""Systems of equations: general and small ones, inverses and determinants."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from afx.compiler.schedule.arrays import NUMPY, Arrays
from afx.core import Array, ArrayLike, bind, bind_single, real_dtype, to_array, to_lower_level
from afx.core.aval import Aval, Shape, aval_of, integer, normalize_axes
from afx.core.primitive import Derivative, Lowering, Params, Primitive, Tangents, Value, Values, register
from afx.errors import ArgumentError, ShapeError
from afx.ops._kinds.linear import batch_along_axes
from afx.ops._kinds.matrix import (
    arrays,
    batch_of,
    by_lapack,
    column,
    finite_matrices,
    floating,
    matrix_op,
    matrix_pair_op,
    plain,
    promote_pair,
    right_sides,
    solution_aval,
    square,
    square_aval,
    svd_by_lapack,
    transposed,
)
from afx.ops.elementwise.complex import imag, real
from afx.ops.manipulation.join import concat, moveaxis
from afx.ops.manipulation.shape import reshape
from afx.ops.reductions.sums import sum as sum_

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder


# --- Stacks of small systems: Gaussian elimination of all of them at once, element by element
#
# LAPACK is called for each system, which costs more than the few operations of a small one. Here an operation works
# on the same element of all systems, so that eager calls and plans make few calls of NumPy, and machine code one loop
# without any. Rows are exchanged as in LAPACK: the largest element of a column is the pivot (Golub & Van Loan 2013,
# section 3.4).

MAX_LENGTH, MAX_COLUMNS = 4, 4
WIDTH = 8  # rows of a triangle that are written out; those before them are one product
BLOCK = 1024  # systems, whose elements stay in the cache
MIN_SYSTEMS = 48  # times n², from which on NumPy's calls for all systems cost less than LAPACK's for each: measured
MIN_TRIANGLES = 24  # times n, for substitution: measured
WIDE = np.dtype(np.float64)  # in which `np.linalg.solve` computes all real systems


def is_small(a: Shape, b: Shape, dtype: Any) -> bool:
    """Tell whether systems are small."""
    return 0 < a[-1] <= MAX_LENGTH and 0 < b[-1] <= MAX_COLUMNS and np.dtype(dtype).char in "fd"


def pays(a: Any, b: Any) -> bool:
    """Tell whether elimination of all systems at once is how they are solved."""
    if a.dtype != b.dtype or not is_small(a.shape, b.shape, a.dtype):
        return False
    return bool(math.prod(batch_of(a, b)) >= MIN_SYSTEMS * a.shape[-1] ** 2)


def solve_small(a: Any, b: Any, keeps_nan: bool) -> Any:
    """Return the solutions of ``a @ x = b``; of singular systems nan, where that is wanted.

    Raises:
        numpy.linalg.LinAlgError: a system is singular, and nan is not wanted.
    """
    batch = batch_of(a, b)
    x, y = [np.broadcast_to(v, (*batch, *v.shape[-2:])).reshape(-1, *v.shape[-2:]) for v in (a, b)]
    z = np.empty(y.shape, b.dtype)
    for start in range(0, len(z), BLOCK):
        rows = slice(start, start + BLOCK)
        with np.errstate(all="ignore"):
            singular = eliminate(NUMPY, x[rows], y[rows], z[rows], keeps_nan)
        if not keeps_nan and singular.any():
            raise np.linalg.LinAlgError("Singular matrix")
    return z.reshape(*batch, *b.shape[-2:])


def triangles_pay(a: Any, b: Any) -> bool:
    """Tell whether substitution in all triangular systems at once is how they are solved."""
    count = math.prod(batch_of(a, b))
    is_short = 0 < a.shape[-1] <= WIDTH and 0 < b.shape[-1] <= MAX_COLUMNS
    return is_short and a.dtype == b.dtype and b.dtype.char in "fd" and count >= MIN_TRIANGLES * a.shape[-1]


def eliminate(xp: Arrays, a: Any, b: Any, out: Any, keeps_nan: bool) -> Any:
    """Write the solutions of ``a @ x = b``; return which systems are singular.

    Args:
        xp: what arrays are computed with; floating-point errors are ignored.
        a: float[..., n, n].
        b: float[..., n, k].
        out: float[..., n, k].
        keeps_nan: whether solutions of singular systems are nan; of others nobody looks at them.
    """
    n, k = a.shape[-1], b.shape[-1]
    rows = [
        [xp.cast(x, WIDE) for x in (*[a[..., i, j] for j in range(n)], *[b[..., i, c] for c in range(k)])]
        for i in range(n)
    ]
    singular = None
    for j in range(n):
        for i in range(j + 1, n):
            _exchange(xp, rows, i, j)
        is_zero = xp.ufunc("equal", rows[j][j], 0.0)
        singular = is_zero if singular is None else xp.ufunc("logical_or", singular, is_zero)
        for i in range(j + 1, n):
            factor = xp.ufunc("divide", rows[i][j], rows[j][j])
            for c in range(j + 1, n + k):
                rows[i][c] = _less(xp, rows[i][c], factor, rows[j][c])
    for c in range(n, n + k):
        for i in reversed(range(n)):
            for j in range(i + 1, n):
                rows[i][c] = _less(xp, rows[i][c], rows[i][j], rows[j][c])
            rows[i][c] = xp.ufunc("divide", rows[i][c], rows[i][i])
            solution = xp.where(singular, math.nan, rows[i][c]) if keeps_nan else rows[i][c]
            xp.give(out[..., i, c - n], xp.cast(solution, out.dtype))
    return singular


def _exchange(xp: Arrays, rows: list[list[Any]], i: int, j: int) -> None:
    """Exchange two rows where the lower one has the larger element in column j."""
    is_larger = xp.ufunc("greater", xp.ufunc("absolute", rows[i][j]), xp.ufunc("absolute", rows[j][j]))
    for c in range(j, len(rows[j])):
        x, y = rows[j][c], rows[i][c]
        rows[j][c], rows[i][c] = xp.where(is_larger, y, x), xp.where(is_larger, x, y)


def _less(xp: Arrays, x: Any, factor: Any, y: Any) -> Any:
    return xp.ufunc("subtract", x, xp.ufunc("multiply", factor, y))


# -- triangles --
def substitute(xp: Arrays, a: Any, b: Any, out: Any, *, lower: bool, unit: bool) -> Any:
    """Write the solutions of triangular systems, row by row; return where the diagonal is 0.

    Args:
        xp: what arrays are computed with; floating-point errors are ignored.
        a: float64[..., n, n], of which one triangle is read.
        b: float64[..., n, k].
        out: float[..., n, k].
        lower: whether that is the lower triangle.
        unit: whether the diagonal counts as ones and is not read.
    """
    n = a.shape[-1]
    order = list(range(n)) if lower else list(range(n))[::-1]
    z = out if out.dtype == WIDE else xp.new(out.shape, WIDE)
    for start in range(0, n, WIDTH):
        block = order[start : start + WIDTH]
        low, high, sums = min(block), max(block) + 1, None
        if start:
            done = slice(0, low) if lower else slice(high, n)
            sums = xp.new((*out.shape[:-2], high - low, out.shape[-1]), WIDE)
            xp.multiply(a[..., low:high, done], z[..., done, :], sums)
        rows: dict[int, Any] = {}
        for i in block:
            row = b[..., i, :] if sums is None else xp.ufunc("subtract", b[..., i, :], sums[..., i - low, :])
            for j, x in rows.items():
                row = _less(xp, row, a[..., i, j : j + 1], x)
            rows[i] = row if unit else xp.ufunc("divide", row, a[..., i, i : i + 1])
            xp.give(z[..., i, :], rows[i])
    if z is not out:
        xp.copy(out, z)
    return xp.ufunc("equal", xp.view(a, lambda v: v.diagonal(axis1=-2, axis2=-1)), 0.0)


def substitute_small(a: Any, b: Any, *, lower: bool, unit: bool) -> Any:
    """Return the solutions of triangular systems.

    Raises:
        numpy.linalg.LinAlgError: the diagonal has a 0.
    """
    out = np.empty((*batch_of(a, b), *b.shape[-2:]), b.dtype)
    x, y = a.astype(WIDE, copy=False), b.astype(WIDE, copy=False)
    with np.errstate(all="ignore"):
        is_zero = substitute(NUMPY, x, y, out, lower=lower, unit=unit)
    if not unit and is_zero.any():
        raise np.linalg.LinAlgError("Singular matrix")
    return out


# --- Linear systems: solutions and inverses of stacks of matrices
#
# Rules are those of Giles 2008, "Collected matrix derivative results for forward and reverse mode algorithmic
# differentiation", written in afx's own operations.


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

    def parts(a: Any, b: Any) -> Any:
        """Return both parts of a complex solution: those of a real system twice as long."""
        (ar, ai), (br, bi), n = a, b, a[0].shape[-1]
        rows = concat([concat([ar, -ai], axis=-1), concat([ai, ar], axis=-1)], axis=-2)
        z = bind_single(op, rows, concat([br, bi], axis=-2))
        return z[..., :n, :], z[..., n:, :]

    op = matrix_pair_op(name, impl, functools.partial(solution_aval, name), push, pull, native=native, parts=parts)
    return op


solve_p: Primitive = _solve_op(
    "solve", lambda a, b: solve_small(a, b, keeps_nan=False) if pays(a, b) else plain(np.linalg.solve(a, b))
)


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
    lead = batch_of(a, b)
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


def _inv_parts(a: Any) -> Any:
    rows = concat([concat([a[0], -a[1]], axis=-1), concat([a[1], a[0]], axis=-1)], axis=-2)
    z, n = bind_single(inv_p, rows), a[0].shape[-1]
    return z[..., :n, :n], z[..., n:, :n]


inv_p: Primitive = matrix_op(
    "inv",
    np.linalg.inv,
    functools.partial(square_aval, "inv"),
    lambda t, z, _a: -(z @ t @ z),
    lambda ct, z, _a: -(transposed(z) @ ct @ transposed(z)),
    reads=1,
    native=by_lapack("inv"),
    parts=_inv_parts,
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


# --- Determinants: of stacks of matrices, with signs and logarithms
#
# The derivative of the determinant is the matrix of cofactors (Jacobi's formula). It is a polynomial of the elements,
# and so are its own derivatives: they are computed without dividing by the determinant, so that they exist at
# singular matrices too.


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


det_p: Primitive = matrix_op(
    "det",
    _det_run,
    _det_abstract,
    lambda t, _z, a: sum_(bind_single(cofactors_p, a) * t, axis=(-2, -1)),
    lambda ct, _z, a: column(column(ct)) * bind_single(cofactors_p, a),
    reads=2,
    native=by_lapack("det", refuses=False),
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
    """Return cofactors, by inverses where all matrices are well conditioned, else by singular values; or their derivatives."""
    _cofactors_abstract(aval_of(a), *map(aval_of, ts))
    if len(ts) > 1:
        return _interpolate_derivative(a, *ts).astype(a.dtype)
    if not ts:
        cofactors = _cofactors_by_inverse(a)
        if cofactors is not None:
            return cofactors
    u, s, vh = svd_by_lapack(a)
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
    coefficient = (values * roots.conj()).sum(axis=0) / (max(n, 1) * radius)
    return coefficient if a.dtype.kind == "c" else coefficient.real


def _cofactors_push(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
    a, *rest = (to_array(x) for x in xs)
    total = None
    for k, t in enumerate(ts):
        if t is not None:
            new = [*rest[: k - 1], to_array(t), *rest[k:]] if k else [*rest, to_array(t)]
            term = bind_single(cofactors_p, a, *new)
            total = term if total is None else total + term
    return to_lower_level(total)


def _cofactors_joint(ct: Value, z: Value, xs: Values, params: Params, avals: tuple[Aval | None, ...]) -> list[Value]:
    a, *rest = (to_array(x) for x in xs)
    cotangents: list[Value] = []
    for k, aval in enumerate(avals):
        new = [*rest[: k - 1], to_array(ct), *rest[k:]] if k else [*rest, to_array(ct)]
        cotangents.append(None if aval is None else to_lower_level(bind_single(cofactors_p, a, *new)))
    return cotangents


def _cofactors_native(xp: Recorder, out: Any, a: Any, *ts: Any) -> None:
    """Return products of all singular values but one between the singular vectors, where no code of NumPy is at hand."""
    if ts or not xp.is_standalone:
        xp.refuse("singular values")
    n, lead = a.shape[-1], a.shape[:-2]
    u, s, vh = [xp.new((*lead, *core), np.float64) for core in ((n, n), (n,), (n, n))]
    xp.call("linalg.svd_s", [finite_matrices(xp, a)], [u, s, vh])
    phases = [xp.new(lead, np.float64) for _ in range(2)]
    for x, phase in zip((u, vh), phases, strict=True):
        xp.call("linalg.det", [x], [phase], refuses=False)
    others = xp.where(np.eye(n, dtype=bool), 1.0, s.reshape((*lead, 1, n)))
    products = xp.reduce("multiply", others, len(lead) + 1)
    sign = xp.ufunc("copysign", 1.0, xp.ufunc("multiply", *phases))
    scaled, z = [xp.new(a.shape, np.float64) for _ in range(2)]
    xp.copy(
        scaled, xp.ufunc("multiply", u, xp.ufunc("multiply", products, sign.reshape((*lead, 1))).reshape((*lead, 1, n)))
    )
    xp.call("matmul", [scaled, vh], [z], refuses=False)
    xp.give(out, xp.cast(z, out.dtype))


cofactors_p: Primitive = register(
    Primitive(
        name="cofactors",
        kind="custom",
        impl=_cofactors_run,
        abstract_eval=_cofactors_abstract,
        batch=batch_along_axes("cofactors"),
        lowering=Lowering(calls_lapack=True, native=_cofactors_native),
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


def _slogdet_native(xp: Recorder, sign: Any, size: Any, a: Any) -> None:
    xp.call("linalg.slogdet", [xp.matrix(a)], [sign, size], refuses=False)


slogdet_p: Primitive = matrix_op(
    "slogdet",
    _slogdet_run,
    _slogdet_abstract,
    _slogdet_push,
    _slogdet_pull,
    reads=3,
    multiple_results=True,
    native=_slogdet_native,
)
