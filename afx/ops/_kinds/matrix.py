"""Matrix ops: the kind of op on stacks of matrices, checks of operands, and pieces that derivative rules share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from afx.core import Array, ArrayLike, Bools, Form, Function, Params, Primitive, Tangents, Value, Values, define
from afx.core.aval import Aval, Shape, aval_of, broadcast_shapes
from afx.core.dtypes import DType, epsilon, floating_dtype
from afx.core.tracing.tracer import bind, to_lower_level
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops._kinds.linear import batch_unchanged
from afx.ops.creation.creation import as_array, promote_operands
from afx.ops.creation.matrices import tril
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.comparison import where
from afx.ops.manipulation.shape import astype, broadcast_to, reshape
from afx.ops.reductions.sums import any as any_, max as max_

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder


IGNORED = ("divide", "over")  # by NumPy's functions that call LAPACK, which raise where there is no result


# -- checks --
def floating(x: ArrayLike, who: str) -> Array:
    """Return an operand as an array that has derivatives; integers take the default dtype."""
    y = as_array(x)
    dtype: DType = floating_dtype(y.dtype)
    if dtype.char == "e":
        raise DtypeError(f"{who}: LAPACK has no half precision: got {y.aval}; use astype(afx.float32)")
    return astype(y, dtype)


def promote_pair(x: ArrayLike, y: ArrayLike, who: str) -> tuple[Array, Array]:
    """Return two operands in their common floating dtype."""
    a, b = (floating(v, who) for v in promote_operands(x, y))
    dtype = np.result_type(a.dtype, b.dtype)
    return astype(a, dtype), astype(b, dtype)


def matrices(a: Aval, who: str) -> None:
    """Raise where an operand is no stack of matrices in a dtype of LAPACK's."""
    if a.ndim < 2:
        raise ShapeError(f"{who}: needs matrices: got {a}; reshape it to two axes or more")
    if a.dtype.char not in "fdFD":
        raise DtypeError(f"{who}: needs floating or complex matrices of 32 bits or more: got {a}; use astype")


def square(a: Aval, who: str) -> None:
    """Raise where an operand is no stack of square matrices in a dtype of LAPACK's."""
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        advice = "use lstsq" if who == "solve" else "reshape or slice it"
        raise ShapeError(f"{who}: needs square matrices: got {a}; {advice}")
    matrices(a, who)


def square_aval(who: str, a: Aval) -> Aval:
    """Return the aval of a function of square matrices, of their shape."""
    square(a, who)
    return Aval(a.shape, a.dtype)


def choice(who: str, name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Raise where an argument is none of its choices."""
    if value not in choices:
        raise ArgumentError(f"{who}: {name} is one of {', '.join(map(repr, choices))}: got {value!r}; take one of them")


# -- kinds --
def _check_first(name: str, abstract: Function, compute: Function) -> Function:
    """Return an implementation that refuses what its shape rule refuses, and names the operand LAPACK refuses."""

    def run(*xs: Any, **params: Any) -> Any:
        abstract(*[aval_of(x) for x in xs], **params)
        try:
            return compute(*xs, **params)
        except np.linalg.LinAlgError as error:
            raise _explained(name, error, _find_refused(compute, xs, params), aval_of(xs[0])) from None

    return run


def _find_refused(compute: Function, xs: Values, params: Params) -> tuple[int, ...]:
    """Return the place of a matrix in a stack that LAPACK refuses, the first where it refuses them by themselves."""
    lead = xs[0].shape[:-2]
    if not lead:
        return ()
    stack, others = xs[0].reshape(-1, *xs[0].shape[-2:]), [x[(0,) * (x.ndim - 2)] for x in xs[1:]]
    first, end = 0, len(stack)
    while end - first > 1:
        middle = (first + end) // 2
        try:
            compute(stack[first:middle], *others, **params)
            first = middle
        except np.linalg.LinAlgError:
            end = middle
    return tuple(map(int, np.unravel_index(first, lead)))


ADVICE = {
    "ingular": "look for equal or zero rows and columns, or use lstsq or pinv",
    "definite": "look for nan, or add a small multiple of the identity matrix",
    "": "look for inf and nan",
}


def _explained(name: str, error: np.linalg.LinAlgError, place: tuple[int, ...], a: Aval) -> np.linalg.LinAlgError:
    """Return LAPACK's error with the operand, the place in its stack, and what helps."""
    advice = next(text for part, text in ADVICE.items() if part in str(error))
    which = f"matrix {list(place)} of a {a}" if place else f"a {a}"
    return np.linalg.LinAlgError(f"{name}: {error}: got {which}; {advice}")


def _down(v: Any) -> Any:
    return tuple([to_lower_level(x) for x in v]) if isinstance(v, tuple) else to_lower_level(v)  # pyright: ignore[reportUnknownVariableType]  # values of unknown level


def matrix_op(
    name: str,
    impl: Function,
    abstract_eval: Function,
    push: Form,
    pull: Form,
    *,
    reads: int,
    multiple_results: bool = False,
    **tags: Any,
) -> Primitive:
    """Make an op of one stack of matrices.

    Args:
        name: its name.
        impl: computes on bare values.
        abstract_eval: the shape rule.
        push: ``(t, z, x, **params)`` to the tangent, or a tuple of them.
        pull: ``(ct, z, x, **params)`` to the operand's cotangent.
        reads: 1 where pull reads the output, 2 where it reads the operand, 3 where both.
        multiple_results: whether it has several outputs.
        **tags: other options of `define`; with ``is_read``, pull takes ``alive=``.
    """
    push_forward, pull_back = cast(Function, push), cast(Function, pull)

    def joint(
        ct: Value, z: Value, xs: Values, params: Params, avals: tuple[Aval | None, ...], **masks: Value
    ) -> list[Value]:
        return [_down(pull_back(ct, z, xs[0], **masks, **params))]

    def pullback(ct: Value, z: Value, xs: Values, params: Params, shape: Shape, dtype: DType) -> Value:
        return _down(pull_back(ct, z, xs[0], **params))

    def pushforward(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
        return _down(push_forward(ts[0], z, xs[0], **params))

    rules = {"vjp_all": joint} if multiple_results else {"vjps": (pullback,)}
    return define(
        name, "custom", _check_first(name, abstract_eval, impl), abstract_eval, reads=(reads,), jvp=pushforward,
        batch=batch_unchanged(name), core_axes=2, calls_lapack=True, multiple_results=multiple_results, **rules, **tags,
    )  # fmt: skip


def by_lapack(name: str, *, refuses: bool = True) -> Callable[..., None]:
    """Return the native form of what one function of NumPy's LAPACK computes of a stack of matrices."""

    def native(xp: Recorder, out: Any, a: Any) -> None:
        xp.call(f"linalg.{name}", [xp.matrix(a)], [out], refuses=refuses)

    return native


def matrix_pair_op(
    name: str, impl: Function, abstract_eval: Function, push: Function, pull: Function, **lowering: Any
) -> Primitive:
    """Make an op of a stack of matrices and a stack of right-hand sides.

    Args:
        name: its name.
        impl: computes on bare values.
        abstract_eval: the shape rule.
        push: ``(ta, tb, z, a, b, **params)`` to the tangent; a tangent that is zero is None.
        pull: ``(ct, z, a, wanted, **params)`` to the two cotangents; ``wanted`` tells whether that of a is wanted, and
            z is None where it is not.
        **lowering: as in `afx.core.primitive.Lowering`.
    """

    def joint(ct: Value, z: Value, xs: Values, params: Params, avals: tuple[Aval | None, ...]) -> list[Value]:
        return list(_down(tuple(pull(ct, z, xs[0], avals[0] is not None, **params))))

    def pushforward(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
        return _down(push(*ts, z, *xs, **params))

    def batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
        rank = max(x.ndim - b for x, b in zip(xs, batched, strict=True))
        full = [x if f else broadcast_to(x, (size, *x.shape)) for x, f in zip(xs, batched, strict=True)]
        return bind(op, *[reshape(y, (size,) + (1,) * (rank - y.ndim + 1) + y.shape[1:]) for y in full], **params)

    run = _check_first(name, abstract_eval, impl)
    op = define(
        name, "custom", run, abstract_eval, batch=batch, core_axes=2, calls_lapack=True,
        vjp_all=joint, reads=(3, 2), jvp=pushforward, **lowering,
    )  # fmt: skip
    return op


def batch_of(a: Any, b: Any) -> Shape:
    """Return the axes in front of two stacks of matrices, broadcast."""
    return np.broadcast_shapes(a.shape[:-2], b.shape[:-2])


def right_sides(a: Array, b: Array, who: str) -> Array:
    """Return the right sides of systems as a matrix, a vector as its one column, or raise."""
    if b.ndim != 1:
        return b
    square(a.aval, who)
    if a.shape[-1] != b.shape[0]:
        raise _unfit(who, a.aval, b.aval)
    return reshape(b, (-1, 1))


def _unfit(who: str, a: Aval, b: Aval) -> ShapeError:
    return ShapeError(f"{who}: rows of b are as many as those of a: got a {a} and b {b}; reshape b")


def solution_aval(who: str, a: Aval, b: Aval) -> Aval:
    """Return the shape rule of systems with square matrices, or raise."""
    square(a, who)
    lead = broadcast_shapes([a.shape[:-2], b.shape[:-2]])
    if b.ndim < 2 or b.shape[-2] != a.shape[-1] or lead is None or b.dtype != a.dtype:
        raise _unfit(who, a, b)
    return Aval((*lead, *b.shape[-2:]), a.dtype)


# -- pieces --
def transposed(x: Array) -> Array:
    """Return the transpose."""
    return x.swapaxes(-1, -2)


def conjugate(x: Array) -> Array:
    """Return the complex conjugate."""
    return x.conj() if x.dtype.kind == "c" else x


def adjoint(x: Array) -> Array:
    """Return the conjugate transpose."""
    return conjugate(x.swapaxes(-1, -2))


def hermitian(x: Array) -> Array:
    """Return the Hermitian (symmetric) part."""
    return (x + adjoint(x)) / 2


def symmetrize_lower(x: Array) -> Array:
    """Return the Hermitian matrix whose lower triangle is that of x."""
    return tril(x) + adjoint(tril(x, k=-1))


def row(w: Array) -> Array:
    """Return vectors as rows, which scale columns."""
    return w.reshape((*w.shape[:-1], 1, w.shape[-1]))


def column(w: Array) -> Array:
    """Return vectors as columns, which scale rows."""
    return w.reshape((*w.shape, 1))


def diag_embed(w: Array) -> Array:
    """Return diagonal matrices."""
    return column(w) * np.eye(w.shape[-1], dtype=w.dtype)


def inverse_or_zero(x: Array) -> Array:
    """Return 1 / x, and 0 where x is 0."""
    return where(x == 0, 0.0, 1 / where(x == 0, 1.0, x))


def divide_by_gaps(x: Array, w: Array, size: Array, against: Array, alive: tuple[Any, Any] = (True, False)) -> Array:
    """Return ``x_ij / (w_j - w_i)``; between equal values it is 0 where x is, and nan where it is not.

    LAPACK's rounding sets equal values apart; their vectors are any of the space that they span. What depends on which
    of them were found has no derivative, however its parts may cancel. A cotangent x of 0 may be that of a function of the
    matrix at a zero of the function, which stands for 0 / 0: it is 0 only where the values move nothing.

    Args:
        x: float[..., n, n].
        w: float[..., n].
        size: of the numbers whose rounding w carries.
        against: of what x was made; x counts as 0 up to rounding of it.
        alive: bool[..., 1, n], whether cotangents of the vectors, and of the values, are alive; False of tangents' values.
    """
    apart = row(w) - column(w)
    resolution = w.shape[-1] * epsilon(w.dtype)
    same = abs_(apart) <= size * resolution
    vectors, values = map(either, alive)
    turns = same & (np.eye(w.shape[-1]) == 0) & vectors & (values | (abs_(x) > bound_of(against) * resolution))
    return where(same, where(turns, np.nan, 0.0), 1 / where(same, 1.0, apart)) * x


def either(alive: Any) -> Any:
    """Return of each pair whether one of it is alive, given bool[..., 1, n], or True or False of all."""
    return alive if isinstance(alive, bool) else alive | transposed(alive)


def living_columns(alive: Any) -> Any:
    """Return bool[..., 1, n]: whether columns hold something that is alive, given bool[..., m, n], or True or False."""
    return alive if isinstance(alive, bool) else any_(alive, axis=-2, keepdims=True)


def living_values(alive: Any) -> Any:
    """Return bool[..., 1, n], given bool[..., n], or True or False of all."""
    return alive if isinstance(alive, bool) else row(alive)


def bound_of(x: Array) -> Array:
    """Return a bound of what a product with unitary matrices can make of matrices' elements: their size times a few."""
    if 0 in x.shape[-2:]:
        return abs_(x).sum((-2, -1), keepdims=True)
    return 8 * max_(abs_(x), axis=(-2, -1), keepdims=True) * x.shape[-1]


def largest(w: Array) -> Array:
    """Return the largest absolute value of vectors as 1 by 1 matrices."""
    if not w.shape[-1]:
        return reshape(abs_(w), (*w.shape, 0))
    return column(max_(abs_(w), axis=-1, keepdims=True))


def plain(x: Any) -> Any:
    """Return NumPy's result as a plain array."""
    return np.asarray(x)


def arrays(results: Any) -> tuple[Any, ...]:
    """Return NumPy's results as plain arrays."""
    return tuple(map(np.asarray, results))


# -- iterations of LAPACK --
def eigh_by_lapack(a: Any, triangle: Literal["L", "U"] = "L") -> tuple[Any, Any]:
    """Return NumPy's eigenvalues and eigenvectors of Hermitian matrices, and nan of those with inf or nan."""
    wrong = not_finite(a)
    if wrong is None:
        w, v = np.linalg.eigh(a, triangle)
        return plain(w), plain(v)
    w, v = np.linalg.eigh(np.where(wrong, 0, a), triangle)
    return np.where(wrong[..., 0], np.nan, w), np.where(wrong, np.nan, v)


def svd_by_lapack(a: Any, *, full: bool = False) -> tuple[Any, Any, Any]:
    """Return NumPy's singular value decomposition, and nan of matrices with inf or nan.

    LAPACK's iteration may never end where there are infinities, and NumPy raises for the whole stack where there is nan.
    """
    wrong = not_finite(a)
    if wrong is None:
        u, s, vh = np.linalg.svd(a, full_matrices=full)
        return plain(u), plain(s), plain(vh)
    u, s, vh = np.linalg.svd(np.where(wrong, 0, a), full_matrices=full)
    return np.where(wrong, np.nan, u), np.where(wrong[..., 0], np.nan, s), np.where(wrong, np.nan, vh)


def singular_values_by_lapack(a: Any) -> Any:
    """Return NumPy's singular values, and nan of matrices with inf or nan."""
    wrong = not_finite(a)
    if wrong is None:
        return np.linalg.svd(a, compute_uv=False)
    return np.where(wrong[..., 0], np.nan, np.linalg.svd(np.where(wrong, 0, a), compute_uv=False))


def pinv_by_lapack(a: Any, cutoff: float) -> Any:
    """Return NumPy's pseudo-inverses, and nan of matrices with inf or nan."""
    wrong = not_finite(a)
    if wrong is None:
        return plain(np.linalg.pinv(a, cutoff))
    return np.where(wrong.swapaxes(-1, -2), np.nan, np.linalg.pinv(np.where(wrong, 0, a), cutoff))


def finite_matrices(xp: Recorder, a: Any) -> Any:
    """Return an operand for LAPACK's iterations in machine code; with inf or nan, the call is left to NumPy's plan."""
    if xp.is_standalone:  # whose own loops give nan
        return xp.matrix(a)
    is_finite = xp.ufunc("isfinite", a)
    xp.refuse_where(xp.ufunc("logical_not", is_finite))
    return xp.matrix(xp.where(is_finite, a, 0.0))


def not_finite(a: Any) -> Any:
    """Return which matrices hold inf or nan; None if none does."""
    wrong = ~np.isfinite(a).all(axis=(-2, -1), keepdims=True)
    return wrong if wrong.any() else None
